// round-robin-balancer.click: TCP connections to one virtual address are spread over three servers in turn. Servers see the
// address of the balancer, so that replies come back through it.

define($VIP 192.0.2.80, $SELF 10.1.0.1);

servers :: RoundRobinIPMapper(
  $SELF 20000-29999# 10.1.0.11 80 0 1,
  $SELF 20000-29999# 10.1.0.12 80 0 1,
  $SELF 20000-29999# 10.1.0.13 80 0 1);
lb :: TCPRewriter(servers, drop);

FromDevice(eth0) -> front :: Classifier(12/0806 20/0001, 12/0800, -);
to_front :: Queue(1000) -> ToDevice(eth0);
front[0] -> ARPResponder($VIP 00:00:5e:00:53:01) -> to_front;
front[1] -> Strip(14) -> CheckIPHeader -> IPClassifier(dst host $VIP and dst tcp port 80) -> accepted :: Counter -> [0] lb;
front[2] -> Discard;

FromDevice(eth1) -> back :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
to_back :: Queue(1000) -> ToDevice(eth1);
arp :: ARPQuerier($SELF, 00:00:5e:00:53:02) -> to_back;
back[0] -> ARPResponder($SELF 00:00:5e:00:53:02) -> to_back;
back[1] -> [1] arp;
back[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(dst host $SELF and src tcp port 80) -> [1] lb;
back[3] -> Discard;

lb[0] -> arp;
lb[1] -> EtherEncap(0x0800, 00:00:5e:00:53:01, 00:00:5e:00:53:ff) -> to_front;
