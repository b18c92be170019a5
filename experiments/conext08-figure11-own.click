// A device for experiments: as conext08-figure11-shared.click, with a queue for each input and a fair scheduler behind them, the remedy of
// Egi et al. (CoNEXT 2008, section 2.5).
//
// Run:     valiant bench run experiments/conext08-figure11.toml
// Expect:  {"first": ..., "second": ...}: alike at any rate.

define($RATE 1M, $LINE 1000000);

MeasureSource(RATE $RATE) -> in0 :: Unqueue -> Paint(0) -> ThreadSafeQueue(256) -> [0] q :: DRRSched;
MeasureSource(RATE $RATE) -> in1 :: Unqueue -> Paint(1) -> ThreadSafeQueue(256) -> [1] q;
q -> Shaper($LINE) -> send :: Unqueue -> flow :: PaintSwitch;
flow [0] -> n0 :: Counter -> Discard;
flow [1] -> n1 :: Counter -> Discard;
StaticThreadSched(in0 0, in1 1, send 0);
Script(wait 0.3s, write n0.reset, write n1.reset, wait 1s,
	print "{\"first\": $(n0.count), \"second\": $(n1.count), \"share\": $(div $(n0.count) $(add $(n0.count) $(n1.count)))}", stop);
