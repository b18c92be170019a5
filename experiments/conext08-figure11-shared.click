// A device for experiments: two workers put packets into one queue, and the first also takes them out and sends them (Egi et al., CoNEXT
// 2008, Figures 9 (b) and 11). It prints what was sent of each in a second, as JSON.
//
// Run:     valiant bench run experiments/conext08-figure11.toml
// Expect:  {"first": ..., "second": ...}: alike until both together are more than LINE; from then on the second has more.

define($RATE 1M, $LINE 1000000);

MeasureSource(RATE $RATE) -> in0 :: Unqueue -> Paint(0) -> q :: ThreadSafeQueue(256);
MeasureSource(RATE $RATE) -> in1 :: Unqueue -> Paint(1) -> q;
q -> Shaper($LINE) -> send :: Unqueue -> flow :: PaintSwitch;
flow [0] -> n0 :: Counter -> Discard;
flow [1] -> n1 :: Counter -> Discard;
StaticThreadSched(in0 0, in1 1, send 0);
Script(wait 0.3s, write n0.reset, write n1.reset, wait 1s,
	print "{\"first\": $(n0.count), \"second\": $(n1.count), \"share\": $(div $(n0.count) $(add $(n0.count) $(n1.count)))}", stop);
