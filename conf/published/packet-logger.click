// packet-logger.click: a sniffer with a memory. Everything goes to a capture file, the first 64 bytes of each packet; web requests are
// written as text to another one; broadcasts are printed.

FromDevice(eth0, PROMISC true, SNIFFER true, SNAPLEN 2048)
  -> all :: Tee(3);

all[0] -> Queue(10000) -> ToDump(all.out, SNAPLEN 64);

all[1] -> Classifier(12/0800) -> CheckIPHeader(14)
  -> IPClassifier(tcp dst port 80)
  -> ToIPSummaryDump(web.log, CONTENTS ip_src ip_dst sport payload_len tcp_flags)
  -> Discard;

all[2] -> b :: Classifier(0/ffffffffffff, -);
b[0] -> Print(broadcast, 14) -> Discard;
b[1] -> unicast :: Counter -> Discard;
