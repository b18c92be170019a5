// Minimal forwarding to three ports in turn, for benchmarks: what a split alone costs, whoever decides on it.
//
// Run:     valiant run --cpus 1 --burst 32 conf/bench-min-3.click; scripts/bench --only 'pcap-(min|transit)' compares
// Expect:  fewer packets a second than with conf/bench-min.click: three bursts of a third are sent in place of one.
// Counters: in.count, out.count, out0.count, out3.count, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $OUT0 "net_null2,size=60,no-rx=1",
       $OUT3 "net_null3,size=60,no-rx=1");

in :: FromDPDKDevice($IN) -> split :: RoundRobinSwitch;
split [0] -> out :: ToDPDKDevice($OUT);
split [1] -> out0 :: ToDPDKDevice($OUT0);
split [2] -> out3 :: ToDPDKDevice($OUT3);
