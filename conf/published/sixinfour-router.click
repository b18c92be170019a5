// sixinfour-router.click: an IPv6 network behind a 6in4 tunnel (RFC 4213). The router announces itself by neighbor advertisements
// on eth1; everything that is not for the local network goes through the tunnel over IPv4.

define($ME 2001:db8:1::1, $MAC 02:00:00:00:00:61);

FromDevice(eth1) -> c :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
lan :: Queue(200) -> ToDevice(eth1);
c[0] -> IP6NDAdvertiser($ME $MAC) -> lan;
c[1] -> [1] nd :: IP6NDSolicitor($ME, $MAC) -> lan;
c[3] -> Discard;

c[2] -> Strip(14) -> ck :: CheckIP6Header -> GetIP6Address(24)
  -> rt :: LookupIP6Route($ME/128 :: 0, 2001:db8:1::/64 :: 1, ::/0 :: 2);

rt[0] -> local :: Classifier(6/3a 40/80, -);
local[0] -> ICMP6PingResponder -> rt;
local[1] -> Discard;
rt[1] -> DecIP6HLIM -> [0] nd;
rt[2] -> hl :: DecIP6HLIM -> IPEncap(41, 192.0.2.61, 192.0.2.62, TTL 64)
  -> EtherEncap(0x0800, 02:00:00:00:00:41, 02:00:00:00:00:42) -> Queue(200) -> ToDevice(eth0);
hl[1] -> ICMP6Error($ME, timeexceeded, 0) -> rt;

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> IPClassifier(ip proto 41 and src host 192.0.2.62)
  -> StripIPHeader -> ck;
