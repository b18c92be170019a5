// A device for experiments: overlapping forwarding paths, from both input ports to both output ports, where each output port has a queue
// for each worker (RouteBricks, Figure 6 (f)): no packet leaves the worker that has received it.
//
// Run:     valiant bench run experiments/routebricks-figure6.toml
// Expect:  out0.packets and out1.packets grow alike; nothing is dropped.
// Note:    needs two workers. The devices make packets and take them, without a wire.

define($WORK 0);

in0 :: FromDPDKDevice("net_null0,size=60", QUEUE 0) -> WorkPackage(W $WORK) -> WorkPackage(W $WORK) -> split0 :: RoundRobinSwitch;
in1 :: FromDPDKDevice("net_null1,size=60", QUEUE 0) -> WorkPackage(W $WORK) -> WorkPackage(W $WORK) -> split1 :: RoundRobinSwitch;
split0 [0], split1 [0] -> out0 :: ToDPDKDevice("net_null2,size=60,no-rx=1");
split0 [1], split1 [1] -> out1 :: ToDPDKDevice("net_null3,size=60,no-rx=1");
StaticThreadSched(in0 0, in1 1);
