// ethernet-over-ip.click: two LANs become one over an IP network whose MTU is too small for that (EtherIP, RFC 3378). Frames are
// carried whole; the outer packets are fragmented and reassembled.

define($A 192.0.2.10, $B 192.0.2.20, $MTU 576);

FromDevice(eth1, PROMISC true)
  -> Unstrip(2) -> StoreData(0, \<3000>)
  -> IPEncap(97, $A, $B)
  -> IPFragmenter($MTU, HONOR_DF false)
  -> EtherEncap(0x0800, 2:0:0:0:0:a, 2:0:0:0:0:b)
  -> Queue(500) -> ToDevice(eth0);

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> IPClassifier(src host $B and dst host $A and ip proto 97)
  -> IPReassembler
  -> StripIPHeader
  -> v :: Classifier(0/3000, -);
v[0] -> Strip(2) -> Queue(500) -> ToDevice(eth1);
v[1] -> Discard;
