// A device for experiments: whatever arrives by one port leaves by the other, in batches of KN packets, for which they wait at most
// WAIT.
//
// Run:     valiant bench run experiments/packet-io-forwarding.toml
// Expect:  every packet leaves unchanged.
// Counters: in.batches, out.batches.

define($SOCKET valiant-experiment, $KP 64, $KN 64, $WAIT 20us);

in :: FromDPDKDevice("net_memif0,role=server,id=0,socket=$SOCKET", BURST $KP)
	-> out :: ToDPDKDevice("net_memif1,role=server,id=1,socket=$SOCKET", BURST $KN, TIMEOUT $WAIT);
