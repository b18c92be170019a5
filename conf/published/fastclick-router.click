// fastclick-router.click: a FastClick router with one input and two output DPDK ports, the data path of the standard router without queues.
// The average rate is found by AverageCounterMP.

define($in 0000:11:00.0, $out0 0000:11:00.1, $out1 0000:13:00.0)

fd :: FromDPDKDevice($in, PROMISC false, PAUSE none, MINQUEUES 1, NUMA false);
out0 :: ToDPDKDevice($out0, BLOCKING false);
out1 :: ToDPDKDevice($out1, BLOCKING false);

fd -> Classifier(12/0800)
   -> Strip(14)
   -> CheckIPHeader(CHECKSUM true, OFFSET 0)
   -> rt :: LookupIPRoute(10.1.0.0/16 0, 10.2.0.0/16 192.0.2.2 1, 0.0.0.0/0 2);

elementclass Out { $smac, $dmac | input -> DropBroadcasts -> DecIPTTL -> n :: AverageCounterMP(IGNORE 0) -> EtherEncap(0x0800, $smac, $dmac) -> output }

rt[0] -> o0 :: Out(02:00:00:00:01:01, 02:00:00:00:01:02) -> out0;
rt[1] -> o1 :: Out(02:00:00:00:02:01, 02:00:00:00:02:02) -> out1;
rt[2] -> noroute :: CounterMP -> Discard;
