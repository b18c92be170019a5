// A bump in the wire that limits what goes from one port to the other to RATE and leaves the way back alone.
//
// Run:     valiant run conf/rate-limit.click DEV0=eth0 DEV1=eth1 RATE=10Mbps
// Expect:  iperf3 from the side of DEV0 reports a little under RATE; in the other direction the full speed.
// Counters: the length and drops handlers of q. The queue is short on purpose: a long one adds delay, not speed.

define($DEV0 eth0, $DEV1 eth1, $RATE 10Mbps);

FromDevice($DEV0) -> q :: Queue(64) -> BandwidthShaper($RATE) -> ToDevice($DEV1);
FromDevice($DEV1) -> Queue(1000) -> ToDevice($DEV0);
