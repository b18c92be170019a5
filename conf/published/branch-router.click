// branch-router.click: the router of a branch office for IPv4 and IPv6: two interfaces made of one compound element with parameters by
// keyword, a default route to headquarters, counters for each interface, and a script that reports them.

elementclass Iface { DEV $dev, MAC $mac, IP4 $ip, IP6 $ip6, PEERMAC $peer |
  // input 0: IPv4, input 1: IPv6 to send. output 0: IPv4, output 1: IPv6 received
  FromDevice($dev) -> rx :: Counter -> HostEtherFilter($mac) -> c :: Classifier(12/0806 20/0001, 12/0800, 12/86dd, -);
  tx :: Queue(512) -> txc :: Counter -> ToDevice($dev);
  c[0] -> ARPResponder($ip $mac) -> tx;
  c[1] -> Strip(14) -> CheckIPHeader -> [0] output;
  c[2] -> Strip(14) -> CheckIP6Header -> [1] output;
  c[3] -> Discard;
  input[0] -> t4 :: DecIPTTL -> EtherEncap(0x0800, $mac, $peer) -> tx;
  t4[1] -> ICMPError($ip, timeexceeded) -> [0] output;
  input[1] -> t6 :: DecIP6HLIM -> EtherEncap(0x86dd, $mac, $peer) -> tx;
  t6[1] -> ICMP6Error($ip6, timeexceeded, 0) -> [1] output;
}

office :: Iface(DEV eth1, IP4 10.20.0.1, IP6 2001:db8:20::1, MAC 02:00:00:00:20:01, PEERMAC 02:00:00:00:20:02);
uplink :: Iface(DEV eth0, MAC 02:00:00:00:99:01, PEERMAC 02:00:00:00:99:02, IP4 192.0.2.20, IP6 2001:db8:ffff::20);

rt4 :: RadixIPLookup(10.20.0.1/32 2, 192.0.2.20/32 2, 10.20.0.0/16 0, 0.0.0.0/0 1);
rt6 :: LookupIP6Route(2001:db8:20::/64 :: 0, ::/0 :: 1);

office[0], uplink[0] -> GetIPAddress(16) -> rt4;
office[1], uplink[1] -> GetIP6Address(24) -> rt6;
rt4[0] -> [0] office; rt4[1] -> [0] uplink;
rt6[0] -> [1] office; rt6[1] -> [1] uplink;
rt4[2] -> IPClassifier(icmp type echo) -> ICMPPingResponder -> rt4;

report :: Script(TYPE PASSIVE,
  set total $(add $(office/rx.count) $(uplink/rx.count)),
  returnq "office $(office/rx.count) in $(office/txc.count) out, uplink $(uplink/rx.count) in $(uplink/txc.count) out, $total together");
