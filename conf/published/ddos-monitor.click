// ddos-monitor.click: finds hosts that get too many packets, and cuts down what goes to a list of known victims. The monitor looks at
// rates of addresses and of networks, as much as traffic asks for.

define($LIMIT 20)

FromDevice(eth0, PROMISC true) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> total :: Counter
  -> mon :: IPRateMonitor(PACKETS, 1, 1, ANNO true)
  -> victim :: IPClassifier(dst 10.0.0.80 and udp, -);
victim[0] -> meter :: Meter($LIMIT);
meter[0] -> out :: Queue(1000);
meter[1] -> cut :: Counter -> Discard;
victim[1] -> out;
out -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(eth1);
Idle -> [1] mon [1] -> Discard;
