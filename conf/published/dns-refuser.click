// dns-refuser.click: a name server that refuses everything (rcode 5), to find out who still uses it. Responses are made of the queries in
// place; names and clients are logged.

define($ME 10.0.0.53, $MAC 02:00:00:00:00:53);

FromDevice(eth0) -> c :: Classifier(12/0806 20/0001, 12/0800, -);
q :: Queue -> ToDevice(eth0);
c[0] -> ARPResponder($ME $MAC) -> q;
c[2] -> Discard;

c[1] -> CheckIPHeader(14) -> CheckUDPHeader -> IPClassifier(dst host $ME and dst udp port 53)
  -> kind :: Classifier(44/00%80, -);           // queries, not responses
kind[1] -> Discard;
kind[0] -> queries :: Counter
  -> log :: ToIPSummaryDump(queries.log, CONTENTS ip_src sport payload)
  -> StoreData(44, \<81>)                       // QR, RD
  -> StoreData(45, \<05>, \<0f>)                // the rcode; the other bits stay
  -> IPMirror -> EtherMirror -> SetUDPChecksum -> q;
