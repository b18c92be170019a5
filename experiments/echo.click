// A device for experiments: whatever arrives by one port leaves by the other.
//
// Run:     valiant bench run experiments/packet-io-forwarding.toml
// Expect:  every packet leaves unchanged.
// Counters: in.count, out.count.

define($SOCKET valiant-experiment, $KP 64, $KN 64);

in :: FromDPDKDevice("net_memif0,role=server,id=0,socket=$SOCKET", BURST $KP)
	-> out :: ToDPDKDevice("net_memif1,role=server,id=1,socket=$SOCKET", BURST $KN);
