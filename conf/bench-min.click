// Minimal forwarding for benchmarks: one port to another, nothing between.
//
// Run:     valiant run --cpus 1 --burst 32 conf/bench-min.click; scripts/bench-first compares it with dpdk-testpmd
// Expect:  as many packets a second as one core can move.
// Counters: in.count, out.count, the global handler cycles.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1");

in :: FromDPDKDevice($IN) -> out :: ToDPDKDevice($OUT);
