// udp-vpn.click: a simple VPN. The kernel's packets for 10.8.0.0/24 go over UDP to a peer, which may be behind a NAT: the peer's
// address is taken from the last packet that carried the shared cookie.
// Not encrypted: for testing.

define($PORT 5555, $PEER 203.0.113.9, $COOKIE \<c0ffee00>);

tun :: KernelTun(10.8.0.1/24);
encap :: UDPIPEncap(198.51.100.7, $PORT, $PEER, $PORT);

tun -> Unstrip(4) -> StoreData(0, $COOKIE) -> encap
  -> EtherEncap(0x0800, 02:00:00:00:00:07, 02:00:00:00:00:fe)
  -> Queue(100) -> ToDevice(eth0);

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> CheckUDPHeader
  -> IPClassifier(dst host 198.51.100.7 and dst udp port $PORT)
  -> ok :: Classifier(28/c0ffee00, -);
ok[0] -> learn :: IPPrint(peer, TIMESTAMP false) -> Strip(32) -> CheckIPHeader -> in :: Counter -> tun;
ok[1] -> bad :: Counter -> Discard;

Script(TYPE ACTIVE, wait 50ms, write encap.dst 203.0.113.77, write encap.dport 6000);
