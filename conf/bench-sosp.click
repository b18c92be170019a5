// An RFC 1812 router for benchmarks in the form of the Click paper (Kohler et al.), element by element, its queues
// included, as conf/ip-router-2.click: packets come in by one port and leave by the other, through a gateway.
//
// Run:     valiant run --cpus 1 conf/bench-sosp.click IN='"net_pcap0,rx_pcap=FILE,infinite_rx=1"';
//          scripts/bench makes the packets, to 02:00:00:00:00:01 and to random addresses
// Expect:  what a complete router forwards. The gateway's address is put into the ARP table at the start, as nobody
//          answers ARP behind a null device.
// Counters: in.count, out.count, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1",
	$IP0 10.0.1.1, $NET0 10.0.1.0/24, $BASE0 10.0.1.0, $BCAST0 10.0.1.255, $MAC0 02:00:00:00:00:01,
	$IP1 10.0.2.1, $NET1 10.0.2.0/24, $BASE1 10.0.2.0, $BCAST1 10.0.2.255, $MAC1 02:00:00:00:00:02,
	$GATEWAY 10.0.2.2, $GATEWAY_MAC 02:00:00:00:00:03, $MTU 1500);

rt :: LookupIPRoute(
	$IP0/32 0, $IP1/32 0,
	$BASE0/32 3, $BCAST0/32 3, $BASE1/32 3, $BCAST1/32 3,
	255.255.255.255/32 3, 0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/3 3,
	$NET0 1, $NET1 2,
	0.0.0.0/0 $GATEWAY 2);

ip :: Strip(14) -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 $BCAST0 $BCAST1)
	-> GetIPAddress(16) -> [0]rt;

in :: FromDevice($IN) -> HostEtherFilter($MAC0) -> c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0 :: Queue(1000) -> ToDevice($IN);
c0[0] -> ARPResponder($IP0 $MAC0) -> out0;
arpq0 :: ARPQuerier($IP0, $MAC0) -> out0;
c0[1] -> [1]arpq0;
c0[2] -> Paint(1) -> ip;
c0[3] -> Discard;

FromDevice($OUT) -> HostEtherFilter($MAC1) -> c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out1 :: Queue(1000) -> out :: ToDevice($OUT);
c1[0] -> ARPResponder($IP1 $MAC1) -> out1;
arpq1 :: ARPQuerier($IP1, $MAC1) -> out1;
c1[1] -> [1]arpq1;
c1[2] -> Paint(2) -> ip;
c1[3] -> Discard;

rt[0] -> local :: IPClassifier(icmp type echo, icmp, udp or tcp, -);
local[0] -> ICMPPingResponder -> Paint(0) -> [0]rt;
local[1] -> Discard;
local[2] -> ICMPError($IP0, unreachable, port) -> [0]rt;
local[3] -> ICMPError($IP0, unreachable, protocol) -> [0]rt;
rt[3] -> Discard;

rt[1] -> DropBroadcasts -> cp0 :: PaintTee(1) -> gio0 :: IPGWOptions($IP0) -> FixIPSrc($IP0)
	-> dt0 :: DecIPTTL -> fr0 :: IPFragmenter($MTU) -> [0]arpq0;
cp0[1] -> ICMPError($IP0, redirect, host) -> [0]rt;
gio0[1] -> ICMPError($IP0, parameterproblem) -> [0]rt;
dt0[1] -> ICMPError($IP0, timeexceeded) -> [0]rt;
fr0[1] -> ICMPError($IP0, unreachable, needfrag, PMTU $MTU) -> [0]rt;

rt[2] -> DropBroadcasts -> cp1 :: PaintTee(2) -> gio1 :: IPGWOptions($IP1) -> FixIPSrc($IP1)
	-> dt1 :: DecIPTTL -> fr1 :: IPFragmenter($MTU) -> [0]arpq1;
cp1[1] -> ICMPError($IP1, redirect, host) -> [0]rt;
gio1[1] -> ICMPError($IP1, parameterproblem) -> [0]rt;
dt1[1] -> ICMPError($IP1, timeexceeded) -> [0]rt;
fr1[1] -> ICMPError($IP1, unreachable, needfrag, PMTU $MTU) -> [0]rt;

Script(write arpq1.insert $GATEWAY $GATEWAY_MAC);
