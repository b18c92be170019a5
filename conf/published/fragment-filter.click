// fragment-filter.click: fragments cannot hide a port from this firewall. Datagrams are put together, filtered as a whole, and cut again
// to the MTU of the link behind it.

define($MTU 400);

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> r :: IPReassembler
  -> IPFilter(deny udp dst port 111, allow all)
  -> frag :: IPFragmenter($MTU, HONOR_DF true)
  -> out :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(eth1);
frag[1] -> ICMPError(10.9.0.1, unreachable, needfrag) -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4) -> Queue -> ToDevice(eth0);
