// A device for experiments: a line of text about each packet: time, addresses, ports, protocol, length (RouteBricks, section 8). It
// makes its traffic itself, UDP packets of SIZE bytes without FCS.
//
// Run:     valiant bench run experiments/routebricks-processing.toml
// Expect:  out.packets grows; nothing is dropped.
// Note:    the lines go to /dev/null: what a disk costs is not in it.

define($SIZE 60);

FastUDPSource(0, -1, $SIZE, 2:0:0:0:0:1, 198.18.0.1, 1024, 2:0:0:0:0:2, 198.19.0.1, 2000) -> in :: Unqueue(BURST 32)
	-> MarkIPHeader(14)
	-> ToIPSummaryDump(/dev/null, CONTENTS timestamp ip_src sport ip_dst dport ip_proto ip_len)
	-> out :: Counter -> Discard;
