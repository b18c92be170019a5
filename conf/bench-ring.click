// Frames through a forwarder between two rings of DPDK, made and measured by another worker: what bursts and their timeout
// cost and bring.
//
// Run:     valiant run -j 2 conf/bench-ring.click RATE=100k -h sink.latency; scripts/bench-latency compares settings
// Expect:  at a low rate the latency of single packets, under full load full bursts.
// Counters: sink.latency, in.batches, out.batches.

define($RATE max, $KP 32, $WAIT 20us, $IN net_ring0, $OUT net_ring1);

src :: MeasureSource(RATE $RATE, FLOWS 64) -> feed :: ToDPDKDevice($IN, TIMEOUT 0);
in :: FromDPDKDevice($IN, BURST $KP) -> out :: ToDPDKDevice($OUT, BURST $KP, TIMEOUT $WAIT);
back :: FromDPDKDevice($OUT) -> sink :: MeasureSink(CHECK false);

StaticThreadSched(in 0, out 0, feed 1, back 1);
