// An RFC 1812 IPv4 router with 2 interfaces, in the form of the Click paper (Kohler et al., TOCS 18(3), figure 8):
// every element is written out, so the whole graph can be read from top to bottom.
// conf/ip-router.click says the same with one compound element.
//
// Run:     valiant run conf/ip-router-2.click DEV0=ens1f0 DEV1=ens1f1 ...
//          Each $-variable below can be set on the command line. A device is a Linux interface, a PCI address or
//          DPDK devargs.
// Expect:  every router address (10.0.1.1 to 10.0.2.1) answers ping; hosts that use it as their gateway reach each
//          other; traceroute names the router; packets that are too big, have run out of TTL or have nowhere to go
//          come back as ICMP errors.
// Counters: valiant drops, or the handlers of any element below.
//
// Written by scripts/make-ip-router; change that and run it with --all.

define(
  $DEV0 eth0, $IP0 10.0.1.1, $NET0 10.0.1.0/24, $BASE0 10.0.1.0, $BCAST0 10.0.1.255,
  $MAC0 02:00:00:00:00:01, $MTU0 1500,
  $DEV1 eth1, $IP1 10.0.2.1, $NET1 10.0.2.0/24, $BASE1 10.0.2.0, $BCAST1 10.0.2.255,
  $MAC1 02:00:00:00:00:02, $MTU1 1500
);

// The routing table: first what ends here, then what is dropped, then the attached networks.

rt :: LookupIPRoute(
  // addresses of the router itself
  $IP0/32 0,
  $IP1/32 0,
  // broadcast and multicast and host-only addresses are not forwarded
  $BASE0/32 3, $BCAST0/32 3,
  $BASE1/32 3, $BCAST1/32 3,
  255.255.255.255/32 3, 0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/3 3,
  // the attached networks
  $NET0 1,
  $NET1 2,
  // everything else
  0.0.0.0/0 4);

// Checks that do not depend on the interface.

ip :: Strip(14) -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255
    $BCAST0
    $BCAST1)
  -> GetIPAddress(16) -> [0]rt;

// The way in: one classifier and one color per interface.

FromDevice($DEV0) -> HostEtherFilter($MAC0) -> c0 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0 :: Queue(1000) -> ToDevice($DEV0);
c0[0] -> ARPResponder($IP0 $MAC0) -> out0;
arpq0 :: ARPQuerier($IP0, $MAC0) -> out0;
c0[1] -> [1]arpq0;
c0[2] -> Paint(1) -> ip;
c0[3] -> Discard;

FromDevice($DEV1) -> HostEtherFilter($MAC1) -> c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out1 :: Queue(1000) -> ToDevice($DEV1);
c1[0] -> ARPResponder($IP1 $MAC1) -> out1;
arpq1 :: ARPQuerier($IP1, $MAC1) -> out1;
c1[1] -> [1]arpq1;
c1[2] -> Paint(2) -> ip;
c1[3] -> Discard;

// Port 0: packets for the router itself. Answers are not colored, so they never cause a redirect.
rt[0] -> local :: IPClassifier(icmp type echo, icmp, udp or tcp, -);
local[0] -> ICMPPingResponder -> Paint(0) -> [0]rt;
local[1] -> Discard;
local[2] -> ICMPError($IP0, unreachable, port) -> [0]rt;
local[3] -> ICMPError($IP0, unreachable, protocol) -> [0]rt;
rt[3] -> Discard;
rt[4] -> ICMPError($IP0, unreachable, net) -> [0]rt;

// The way out: RFC 1812 forwarding, with an ICMP error for each thing that can go wrong.

rt[1] -> DropBroadcasts -> cp0 :: PaintTee(1) -> gio0 :: IPGWOptions($IP0) -> FixIPSrc($IP0)
  -> dt0 :: DecIPTTL -> fr0 :: IPFragmenter($MTU0) -> [0]arpq0;
cp0[1] -> ICMPError($IP0, redirect, host) -> [0]rt;
gio0[1] -> ICMPError($IP0, parameterproblem) -> [0]rt;
dt0[1] -> ICMPError($IP0, timeexceeded) -> [0]rt;
fr0[1] -> ICMPError($IP0, unreachable, needfrag, PMTU $MTU0) -> [0]rt;

rt[2] -> DropBroadcasts -> cp1 :: PaintTee(2) -> gio1 :: IPGWOptions($IP1) -> FixIPSrc($IP1)
  -> dt1 :: DecIPTTL -> fr1 :: IPFragmenter($MTU1) -> [0]arpq1;
cp1[1] -> ICMPError($IP1, redirect, host) -> [0]rt;
gio1[1] -> ICMPError($IP1, parameterproblem) -> [0]rt;
dt1[1] -> ICMPError($IP1, timeexceeded) -> [0]rt;
fr1[1] -> ICMPError($IP1, unreachable, needfrag, PMTU $MTU1) -> [0]rt;
