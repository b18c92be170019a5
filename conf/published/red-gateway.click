// red-gateway.click: random early detection in front of a slow link; ECN-capable packets are marked instead of dropped.

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> in :: Counter
  -> ecn :: IPClassifier(ip ect, -);

ecn[0] -> mark :: RED(2, 6, 1.0, STABILITY 0, GENTLE false) -> q :: Queue(50);
mark[1] -> MarkIPCE -> marked :: Counter -> q;
ecn[1] -> drop :: RED(2, 6, 1.0, STABILITY 0, GENTLE false) -> q;
drop[1] -> dropped :: Counter -> Discard;

q -> Shaper(10) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(eth1);
