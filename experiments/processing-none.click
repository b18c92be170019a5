// A device for experiments: packets that are only received and sent, beside those of processing-filter.click, -inspect and -log. It
// makes its traffic itself, UDP packets of SIZE bytes without FCS.
//
// Run:     valiant bench run experiments/routebricks-processing.toml
// Expect:  out.packets grows; nothing is dropped.

define($SIZE 60);

FastUDPSource(0, -1, $SIZE, 2:0:0:0:0:1, 198.18.0.1, 1024, 2:0:0:0:0:2, 198.19.0.1, 2000) -> in :: Unqueue(BURST 32)
	-> MarkIPHeader(14)
	-> out :: Counter -> Discard;
