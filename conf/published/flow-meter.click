// flow-meter.click: a passive flow meter on a monitor port. Packets get the number of their flow; a summary of each packet goes to a
// file that ipaggcreate and its kin can read, and the flows' packets and bytes are counted.

FromDevice(mon0, PROMISC true, SNIFFER true)
  -> c :: Classifier(12/0800, -)
  -> Strip(14)
  -> CheckIPHeader(CHECKSUM false)
  -> AggregateIPFlows(UDP_TIMEOUT 30)
  -> dump :: ToIPSummaryDump(flows.dump, CONTENTS timestamp aggregate ip_src sport ip_dst dport ip_proto ip_len)
  -> packets :: AggregateCounter(BYTES false)
  -> bytes :: AggregateCounter(BYTES true, IP_BYTES true)
  -> Discard;
c[1] -> other :: Counter -> Discard;

report :: Script(TYPE PASSIVE, set n $(packets.count), set b $(bytes.count), returnq "$n packets, $b bytes, $(packets.nagg) flows");
