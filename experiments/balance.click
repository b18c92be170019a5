// A device for experiments: forwarding with work for each packet on several workers, where the port has one queue: flows are divided over
// the workers by a hash of addresses and ports (Toeplitz, as RSS of NICs). It makes its traffic itself, of FLOWS flows, which have
// as many packets each, or by Zipf's law with the exponent SKEW.
//
// Run:     valiant bench run experiments/presto10-balance.toml
// Expect:  out.packets grows by RATE in a second; nothing is dropped.

define($RATE 80k, $FLOWS 64, $SKEW 0, $WORK 4000);

MeasureSource(RATE $RATE, FLOWS $FLOWS, SKEW $SKEW) -> wire :: ToDPDKDevice(net_ring0, N_QUEUES 1);
in :: FromDPDKDevice(net_ring0, N_QUEUES 1, REBALANCE false) -> WorkPackage(W $WORK) -> out :: ToDPDKDevice("net_null0,size=60,no-rx=1");
StaticThreadSched(wire 0);
