// A device for experiments: two forwarding paths, each over both workers (RouteBricks, Figure 6 (a)): one receives a packet and does
// half of the work, the other does the rest and sends. A packet crosses from one worker to the other through a queue.
//
// Run:     valiant bench run experiments/routebricks-figure6.toml
// Expect:  out0.packets and out1.packets grow; without other programs on the machine nothing is dropped.
// Note:    needs two workers. The devices make packets and take them, without a wire.

define($WORK 0);

in0 :: FromDPDKDevice("net_null0,size=60", QUEUE 0) -> WorkPackage(W $WORK) -> Queue(1024) -> half0 :: Unqueue(BURST 64)
	-> WorkPackage(W $WORK) -> out0 :: ToDPDKDevice("net_null2,size=60,no-rx=1");
in1 :: FromDPDKDevice("net_null1,size=60", QUEUE 0) -> WorkPackage(W $WORK) -> Queue(1024) -> half1 :: Unqueue(BURST 64)
	-> WorkPackage(W $WORK) -> out1 :: ToDPDKDevice("net_null3,size=60,no-rx=1");
StaticThreadSched(in0 0, half0 1, in1 1, half1 0);
