// ipip-tunnel.click: IP in IP (RFC 2003) between two sites. Packets of this site for 10.2.0.0/16 leave on eth0 inside a packet to
// the other end; what comes from there is unpacked. The tunnel's MTU is smaller, and hosts are told.

define($LOCAL 198.51.100.1, $REMOTE 203.0.113.1, $INSIDE 10.1.0.1, $MTU 1480);

FromDevice(eth1) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> rt :: StaticIPLookup(10.2.0.0/16 0, 0.0.0.0/0 1);
rt[1] -> Discard;
rt[0] -> ttl :: DecIPTTL -> frag :: IPFragmenter($MTU)
  -> IPEncap(4, $LOCAL, $REMOTE, TTL 64)
  -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:ff)
  -> Queue -> ToDevice(eth0);

to_lan :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:01:02) -> Queue -> ToDevice(eth1);
ttl[1] -> ICMPError($INSIDE, timeexceeded) -> to_lan;
frag[1] -> ICMPError($INSIDE, unreachable, needfrag, PMTU $MTU) -> to_lan;

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> IPClassifier(src host $REMOTE and dst host $LOCAL and ip proto 4)
  -> StripIPHeader
  -> CheckIPHeader
  -> IPClassifier(src net 10.2.0.0/16)
  -> DecIPTTL
  -> to_lan;
