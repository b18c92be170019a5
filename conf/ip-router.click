// An RFC 1812 IPv4 router with three interfaces, written with one compound element for an interface.
// conf/ip-router-3.click is the same router in the flat form of the Click paper.
//
// Run:     valiant run conf/ip-router.click DEV0=ens1f0 DEV1=ens1f1 DEV2=ens2f0 ...
// Expect:  10.0.1.1, 10.0.2.1 and 10.0.3.1 answer ping; hosts that use them as gateways reach each other; ICMP errors
//          as RFC 1812 asks for.
// Change:  for another interface, add one IPInterface, its routes and its two connections.

define(
  $DEV0 eth0, $IP0 10.0.1.1, $NET0 10.0.1.0/24, $BCAST0 10.0.1.255, $MAC0 02:00:00:00:00:01, $MTU0 1500,
  $DEV1 eth1, $IP1 10.0.2.1, $NET1 10.0.2.0/24, $BCAST1 10.0.2.255, $MAC1 02:00:00:00:00:02, $MTU1 1500,
  $DEV2 eth2, $IP2 10.0.3.1, $NET2 10.0.3.0/24, $BCAST2 10.0.3.255, $MAC2 02:00:00:00:00:03, $MTU2 1500
);

// One interface. Input: routed packets to send; the destination annotation holds the next hop.
// Output: packets for the routing table, both those received here and the ICMP errors made here.
elementclass IPInterface { $dev, $ip, $mac, $mtu, $color |
  FromDevice($dev) -> HostEtherFilter($mac)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  out :: Queue(1000) -> ToDevice($dev);

  kind[0] -> ARPResponder($ip $mac) -> out;
  kind[1] -> [1]arp :: ARPQuerier($ip, $mac) -> out;
  kind[2] -> Paint($color) -> Strip(14) -> output;
  kind[3] -> Discard;

  input -> DropBroadcasts -> redirect :: PaintTee($color) -> options :: IPGWOptions($ip) -> FixIPSrc($ip)
    -> ttl :: DecIPTTL -> fragment :: IPFragmenter($mtu) -> [0]arp;
  redirect[1] -> ICMPError($ip, redirect, host) -> output;
  options[1] -> ICMPError($ip, parameterproblem) -> output;
  ttl[1] -> ICMPError($ip, timeexceeded) -> output;
  fragment[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu) -> output;
}

if0 :: IPInterface($DEV0, $IP0, $MAC0, $MTU0, 1);
if1 :: IPInterface($DEV1, $IP1, $MAC1, $MTU1, 2);
if2 :: IPInterface($DEV2, $IP2, $MAC2, $MTU2, 3);

check :: CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 $BCAST0 $BCAST1 $BCAST2)
  -> GetIPAddress(16)
  -> rt :: RadixIPLookup(
       $IP0/32 0, $IP1/32 0, $IP2/32 0,
       $BCAST0/32 4, $BCAST1/32 4, $BCAST2/32 4,
       255.255.255.255/32 4, 0.0.0.0/8 4, 127.0.0.0/8 4, 224.0.0.0/3 4,
       $NET0 1, $NET1 2, $NET2 3,
       0.0.0.0/0 5);

if0, if1, if2 -> check;
rt[1] -> if0;
rt[2] -> if1;
rt[3] -> if2;

// Packets for the router itself. Answers lose their color, so that they never cause a redirect.
rt[0] -> local :: IPClassifier(icmp type echo, icmp, udp or tcp, -);
local[0] -> ICMPPingResponder -> Paint(0) -> rt;
local[1] -> Discard;
local[2] -> ICMPError($IP0, unreachable, port) -> rt;
local[3] -> ICMPError($IP0, unreachable, protocol) -> rt;

rt[4] -> Discard;
rt[5] -> ICMPError($IP0, unreachable, net) -> rt;
