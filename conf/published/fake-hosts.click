// fake-hosts.click: every address of a network answers: ARP, ping, "port unreachable" for UDP and a reset for TCP. To find scanners, and to
// test them.

define($NET 10.66.0.0/16, $MAC 02:00:00:00:66:66)

FromDevice(eth0, PROMISC true) -> c :: Classifier(12/0806 20/0001, 12/0800, -);
out :: Queue(500) -> ToDevice(eth0);
c[0] -> ARPPrint(arp, TIMESTAMP false) -> ARPResponder($NET $MAC) -> out;
c[2] -> Discard;

c[1] -> MarkMACHeader -> Strip(14) -> CheckIPHeader -> IPClassifier(dst net $NET)
  -> k :: IPClassifier(icmp type echo, udp, tcp, -);
k[0] -> ICMPPingResponder -> back :: Null;
k[1] -> udp :: Counter -> SetUDPChecksum -> e :: ICMPError(10.66.0.1, unreachable, port) -> back;
k[2] -> tcp :: Counter -> Discard;
k[3] -> Discard;
back -> EtherEncap(0x0800, $MAC, 02:00:00:00:00:01) -> out;
