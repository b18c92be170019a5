// A host that is not there: answers ARP requests for one address and pings to it.
//
// Run:     valiant run conf/arp-responder.click DEV=eth0 IP=192.168.1.77
// Expect:  ping 192.168.1.77 from a host on the same network is answered; every ARP request answered is printed.

define($DEV eth0, $IP 10.0.1.1, $MAC 02:00:00:00:00:77);

FromDevice($DEV) -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
out :: Queue -> ToDevice($DEV);

kind[0] -> ARPResponder($IP $MAC) -> ARPPrint(answer) -> out;

kind[1] -> CheckIPHeader(14) -> IPClassifier(dst host $IP and icmp type echo)
  -> ICMPPingResponder -> EtherMirror -> out;

kind[2] -> Discard;
