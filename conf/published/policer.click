// policer.click: an assured forwarding edge (RFC 2597). A customer may send 10 packets a second in bursts of 4; what is within the
// rate is marked AF11, what is above that AF12, and above 20 a second it is dropped.

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> green :: RatedSplitter(10, BURST_SIZE 4);
green[0] -> SetIPDSCP(10) -> conforming :: Counter -> out :: Queue(100);
green[1] -> yellow :: RatedSplitter(10, BURST_SIZE 2);
yellow[0] -> SetIPDSCP(12) -> exceeding :: Counter -> out;
yellow[1] -> violating :: Counter -> Discard;
out -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(eth1);
