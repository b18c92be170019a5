// priority-shaper.click: a slow uplink of 100 packets a second, shared by three classes. Voice (EF) goes first, ssh and DNS second, the
// rest last; every class has a queue of its own, so that a full one hurts nobody else.

elementclass Classes {
  input -> c :: IPClassifier(ip dscp 46, tcp port 22 or udp port 53, -);
  c[0] -> voice :: Queue(20) -> [0] prio :: PrioSched;
  c[1] -> inter :: Queue(50) -> [1] prio;
  c[2] -> bulk :: Queue(5) -> [2] prio;
  prio -> output;
}

FromDevice(eth1, PROMISC true) -> ip :: Classifier(12/0800, -);
ip[1] -> Discard;
ip[0] -> MarkIPHeader(14) -> cl :: Classes -> Shaper(100) -> ToDevice(eth0);
FromDevice(eth0, PROMISC true) -> Queue -> ToDevice(eth1);
