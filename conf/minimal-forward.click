// Minimal forwarding: whatever arrives at one port leaves by the other, unchanged, in both directions.
//
// Run:     valiant run conf/minimal-forward.click DEV0=ens1f0 DEV1=ens1f1
// Expect:  hosts on both sides see each other as if on one cable.
// Counters: the count and rate handlers of c01 and c10 (valiant run -h c01.count ...).

define($DEV0 eth0, $DEV1 eth1);

FromDevice($DEV0) -> c01 :: Counter -> Queue(1000) -> ToDevice($DEV1);
FromDevice($DEV1) -> c10 :: Counter -> Queue(1000) -> ToDevice($DEV0);
