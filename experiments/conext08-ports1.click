// A device for experiments: four flows on one worker, from four queues of one port to another port (Egi et al., CoNEXT 2008, section
// 2.3.2). All packets are worked on alike.
//
// Run:     valiant bench run experiments/conext08-placement.toml
// Expect:  flow0.count to flow3.count grow; nothing is dropped.
// Note:    the devices make packets and take them, without a wire.

in0 :: FromDPDKDevice("net_null0,size=60", QUEUE 0) -> WorkPackage(W 20) -> flow0 :: Counter;
in1 :: FromDPDKDevice("net_null0,size=60", QUEUE 1) -> WorkPackage(W 20) -> flow1 :: Counter;
in2 :: FromDPDKDevice("net_null0,size=60", QUEUE 2) -> WorkPackage(W 20) -> flow2 :: Counter;
in3 :: FromDPDKDevice("net_null0,size=60", QUEUE 3) -> WorkPackage(W 20) -> flow3 :: Counter;
flow0, flow1, flow2, flow3 -> out0 :: ToDPDKDevice("net_null4,size=60,no-rx=1");
