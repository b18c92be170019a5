// Listens on one port, prints a line per IPv4 packet and ARP message, and keeps everything in a pcap file.
//
// Run:     valiant run conf/sniff.click DEV=eth0 FILE=/tmp/capture.pcap
//          Ctrl-C ends it; tcpdump -r or Wireshark open the file.
// Expect:  lines in the manner of tcpdump.
// Note:    the port belongs to Valiant while this runs: the host's own stack does not see what Valiant takes from it.

define($DEV eth0, $FILE capture.pcap, $SNAPLEN 2000);

FromDevice($DEV, PROMISC true)
  -> all :: Tee
  -> ToDump($FILE, SNAPLEN $SNAPLEN, ENCAP ETHER);

all[1] -> kind :: Classifier(12/0806, 12/0800, -);
kind[0] -> ARPPrint -> Discard;
kind[1] -> CheckIPHeader(14) -> IPPrint(ip) -> Discard;
kind[2] -> Discard;
