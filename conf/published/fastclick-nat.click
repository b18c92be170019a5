// fastclick-nat.click: a middlebox on two DPDK ports: NAT and a firewall in one chain, with FastClick's names.

define($lan 0, $wan 1, $pub 203.0.113.1)

DPDKInfo(16384);
lan :: FromDPDKDevice($lan, PROMISC true, N_QUEUES 1);
wan :: FromDPDKDevice($wan, PROMISC true, N_QUEUES 1);
tolan :: ToDPDKDevice($lan, N_QUEUES 1);
towan :: ToDPDKDevice($wan, N_QUEUES 1);
StaticThreadSched(lan 0, wan 0);

nat :: IPRewriter(pattern $pub 1024-65535# - - 0 1, drop);
ctr :: HandlerAggregate(ELEMENT a, ELEMENT b);

lan -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> a :: Counter
  -> IPFilter(deny dst port 25, allow tcp or udp, deny all)
  -> [0] nat[0] -> ResetIPChecksum -> SetIPChecksum -> EtherEncap(0x0800, 02:00:00:00:00:aa, 02:00:00:00:00:bb) -> towan;
wan -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> b :: Counter
  -> [1] nat[1] -> EtherEncap(0x0800, 02:00:00:00:00:cc, 02:00:00:00:00:dd) -> tolan;
