// The router under attack in tests/soak/run: conf/ip-router-2.click with reassembly, a route table that can be changed, a
// queue that holds packets until the pool is empty, and counters around what makes packets or takes several for one.
define($PARK 200000, $EXTRA "");

rt :: RadixIPLookup(10.0.1.1/32 0, 10.0.2.1/32 0, 10.0.1.0/32 3, 10.0.1.255/32 3, 10.0.2.0/32 3, 10.0.2.255/32 3,
  255.255.255.255/32 3, 0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/3 3, 10.0.1.0/24 1, 10.0.2.0/24 2, 10.0.3.0/24 5, 0.0.0.0/0 4);

ip :: Strip(14) -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 10.0.1.255 10.0.2.255) -> [0]rt;

in0 :: FromDevice($DEV0) -> HostEtherFilter($MAC0) -> c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
q0 :: Queue(1000) -> out0 :: ToDevice($DEV0);
c0[0] -> ARPResponder(10.0.1.1 $MAC0) -> q0;
arpq0 :: ARPQuerier(10.0.1.1, $MAC0, CAPACITY 2048, ENTRY_CAPACITY 1024, ENTRY_PACKET_CAPACITY 64) -> q0;
c0[1] -> [1]arpq0;
c0[2] -> Paint(1) -> ip;
c0[3] -> other0 :: Discard;

in1 :: FromDevice($DEV1) -> HostEtherFilter($MAC1) -> c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
q1 :: Queue(1000) -> out1 :: ToDevice($DEV1);
c1[0] -> ARPResponder(10.0.2.1 $MAC1) -> q1;
arpq1 :: ARPQuerier(10.0.2.1, $MAC1, CAPACITY 2048, ENTRY_CAPACITY 1024, ENTRY_PACKET_CAPACITY 64) -> q1;
c1[1] -> [1]arpq1;
c1[2] -> Paint(2) -> ip;
c1[3] -> other1 :: Discard;

rt[0] -> rein :: Counter -> re :: IPReassembler -> reout :: Counter -> local :: IPClassifier(icmp type echo, icmp, udp or tcp, -);
local[0] -> ICMPPingResponder -> Paint(0) -> [0]rt;
local[1] -> icmps :: Discard;
local[2] -> ICMPError(10.0.1.1, unreachable, port) -> [0]rt;
local[3] -> ICMPError(10.0.1.1, unreachable, protocol) -> [0]rt;
rt[3] -> nowhere :: Discard;
rt[4] -> ICMPError(10.0.1.1, unreachable, net) -> [0]rt;

// What is for 10.0.3.0/24 waits, twice, until somebody lets it go.
rt[5] -> t :: Tee -> park :: Queue($PARK) -> release :: Unqueue(ACTIVE false) -> released :: Discard;
t[1] -> copies :: Counter -> park;

rt[1] -> $EXTRA DropBroadcasts -> cp0 :: PaintTee(1) -> gio0 :: IPGWOptions(10.0.1.1) -> FixIPSrc(10.0.1.1)
  -> dt0 :: DecIPTTL -> fin0 :: Counter -> fr0 :: IPFragmenter($MTU0) -> fout0 :: Counter -> [0]arpq0;
cp0[1] -> redirects0 :: Counter -> ICMPError(10.0.1.1, redirect, host) -> [0]rt;
gio0[1] -> ICMPError(10.0.1.1, parameterproblem) -> [0]rt;
dt0[1] -> ICMPError(10.0.1.1, timeexceeded) -> [0]rt;
fr0[1] -> ferr0 :: Counter -> ICMPError(10.0.1.1, unreachable, needfrag, PMTU $MTU0) -> [0]rt;

rt[2] -> $EXTRA DropBroadcasts -> cp1 :: PaintTee(2) -> gio1 :: IPGWOptions(10.0.2.1) -> FixIPSrc(10.0.2.1)
  -> dt1 :: DecIPTTL -> fin1 :: Counter -> fr1 :: IPFragmenter($MTU1) -> fout1 :: Counter -> [0]arpq1;
cp1[1] -> redirects1 :: Counter -> ICMPError(10.0.2.1, redirect, host) -> [0]rt;
gio1[1] -> ICMPError(10.0.2.1, parameterproblem) -> [0]rt;
dt1[1] -> ICMPError(10.0.2.1, timeexceeded) -> [0]rt;
fr1[1] -> ferr1 :: Counter -> ICMPError(10.0.2.1, unreachable, needfrag, PMTU $MTU1) -> [0]rt;
