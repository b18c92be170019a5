// A device for experiments: minimal forwarding between two ports with a receive and a transmit queue for each worker. With as many workers
// on two ports with half of the queues each: figure6b.click.
//
// Run:     valiant bench run experiments/presto10-figures4-5.toml
// Expect:  out0.packets grows; nothing is dropped.
// Note:    the devices make packets and take them, without a wire. out1 is there because it counts in figure6b.click.

define($WORK 0);

in0 :: FromDPDKDevice("net_null0,size=60") -> WorkPackage(W $WORK) -> WorkPackage(W $WORK)
	-> out0 :: ToDPDKDevice("net_null2,size=60,no-rx=1");
Idle -> out1 :: Null -> Discard;
