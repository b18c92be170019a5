// A device for experiments: two forwarding paths, one on each worker (RouteBricks, Figure 6 (b)): a packet is received, worked on and
// sent by the same one.
//
// Run:     valiant bench run experiments/routebricks-figure6.toml
// Expect:  out0.packets and out1.packets grow; nothing is dropped.
// Note:    needs two workers. The devices make packets and take them, without a wire.

define($WORK 0);

in0 :: FromDPDKDevice("net_null0,size=60", QUEUE 0) -> WorkPackage(W $WORK) -> WorkPackage(W $WORK)
	-> out0 :: ToDPDKDevice("net_null2,size=60,no-rx=1");
in1 :: FromDPDKDevice("net_null1,size=60", QUEUE 0) -> WorkPackage(W $WORK) -> WorkPackage(W $WORK)
	-> out1 :: ToDPDKDevice("net_null3,size=60,no-rx=1");
StaticThreadSched(in0 0, in1 1);
