// A device for experiments: one input port with a receive queue for each worker (RouteBricks, Figure 6 (d)). Each of them works on
// its packets and sends them, by both output ports in turn, as figure6c.click.
//
// Run:     valiant bench run experiments/routebricks-figure6.toml
// Expect:  out0.packets and out1.packets grow alike; nothing is dropped.
// Note:    needs two workers. The devices make packets and take them, without a wire.

define($WORK 0);

in0 :: FromDPDKDevice("net_null0,size=60") -> split :: RoundRobinSwitch;
split [0] -> WorkPackage(W $WORK) -> WorkPackage(W $WORK) -> out0 :: ToDPDKDevice("net_null2,size=60,no-rx=1");
split [1] -> WorkPackage(W $WORK) -> WorkPackage(W $WORK) -> out1 :: ToDPDKDevice("net_null3,size=60,no-rx=1");
