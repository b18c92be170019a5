// A device for experiments: one input port whose only queue belongs to the first worker, which gives every other batch to the second
// (RouteBricks, Figure 6 (c)). Each of them works on its packets and sends them.
//
// Run:     valiant bench run experiments/routebricks-figure6.toml
// Expect:  out0.packets and out1.packets grow alike; without other programs on the machine nothing is dropped.
// Note:    needs two workers. The devices make packets and take them, without a wire.

define($WORK 0);

in0 :: FromDPDKDevice("net_null0,size=60", QUEUE 0) -> split :: RoundRobinSwitch;
split [0] -> WorkPackage(W $WORK) -> WorkPackage(W $WORK) -> out0 :: ToDPDKDevice("net_null2,size=60,no-rx=1");
split [1] -> Queue(1024) -> other :: Unqueue(BURST 64) -> WorkPackage(W $WORK) -> WorkPackage(W $WORK)
	-> out1 :: ToDPDKDevice("net_null3,size=60,no-rx=1");
StaticThreadSched(in0 0, other 1);
