// A router for IPv4 (RFC 1812) and IPv6 (RFC 8200) with two interfaces, with one compound element for an interface.
//
// Run:     valiant run conf/dual-stack-router.click DEV0=ens1f0 DEV1=ens1f1 MAC0=... MAC1=...
// Expect:  10.0.1.1, 10.0.2.1, 2001:db8:1::1 and 2001:db8:2::1 answer ping; hosts that use them, or fe80::1, as gateways
//          reach each other by both versions; errors as RFC 1812 and RFC 4443 ask for.
// Change:  for another interface, add one Interface, its routes in both tables and its connections.

define(
  $DEV0 eth0, $MAC0 02:00:00:00:00:01, $MTU0 1500, $IP0 10.0.1.1, $NET0 10.0.1.0/24, $BCAST0 10.0.1.255,
  $DEV1 eth1, $MAC1 02:00:00:00:00:02, $MTU1 1500, $IP1 10.0.2.1, $NET1 10.0.2.0/24, $BCAST1 10.0.2.255,
  $SIX0 2001:db8:1::1, $SIXNET0 2001:db8:1::/64, $SIX1 2001:db8:2::1, $SIXNET1 2001:db8:2::/64,
  $LINKLOCAL fe80::1
);

// One interface. Inputs: routed packets to send, of IPv4 and of IPv6; the destination annotation holds the next hop.
// Outputs: packets for the routing tables, both those received here and the errors made here.
elementclass Interface { $dev, $mac, $mtu, $ip, $six, $color |
  FromDevice($dev) -> HostEtherFilter($mac)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, 12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
  out :: Queue(1000) -> ToDevice($dev);

  kind[0] -> ARPResponder($ip $mac) -> out;
  kind[1] -> [1]arp :: ARPQuerier($ip, $mac) -> out;
  kind[2] -> Paint($color) -> Strip(14) -> [0]output;
  kind[3] -> IP6NDAdvertiser($LINKLOCAL $six $mac) -> out;
  kind[4] -> [1]nd :: IP6NDSolicitor($LINKLOCAL, $mac) -> out;
  kind[5] -> Paint($color) -> Strip(14) -> [1]output;
  kind[6] -> Discard;

  input[0] -> DropBroadcasts -> redirect :: PaintTee($color) -> options :: IPGWOptions($ip) -> FixIPSrc($ip)
    -> ttl :: DecIPTTL -> fragment :: IPFragmenter($mtu) -> [0]arp;
  redirect[1] -> ICMPError($ip, redirect, host) -> [0]output;
  options[1] -> ICMPError($ip, parameterproblem) -> [0]output;
  ttl[1] -> ICMPError($ip, timeexceeded) -> [0]output;
  fragment[1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu) -> [0]output;

  input[1] -> DropBroadcasts -> hops :: DecIP6HLIM -> fits :: IP6Fragmenter($mtu) -> [0]nd;
  hops[1] -> ICMP6Error($six, timeexceeded, 0) -> [1]output;
  fits[1] -> ICMP6Error($six, pkttoobig, 0, PMTU $mtu) -> [1]output;
}

if0 :: Interface($DEV0, $MAC0, $MTU0, $IP0, $SIX0, 1);
if1 :: Interface($DEV1, $MAC1, $MTU1, $IP1, $SIX1, 2);

// IPv4.

check :: CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 $BCAST0 $BCAST1)
  -> GetIPAddress(16)
  -> rt :: RadixIPLookup(
       $IP0/32 0, $IP1/32 0,
       $BCAST0/32 3, $BCAST1/32 3,
       255.255.255.255/32 3, 0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/3 3,
       $NET0 1, $NET1 2,
       0.0.0.0/0 4);

if0, if1 -> check;
rt[1] -> if0;
rt[2] -> if1;

// Packets for the router itself. Answers lose their color, so that they never cause a redirect.
rt[0] -> local :: IPClassifier(icmp type echo, icmp, udp or tcp, -);
local[0] -> ICMPPingResponder -> Paint(0) -> rt;
local[1] -> Discard;
local[2] -> ICMPError($IP0, unreachable, port) -> rt;
local[3] -> ICMPError($IP0, unreachable, protocol) -> rt;
rt[3] -> Discard;
rt[4] -> ICMPError($IP0, unreachable, net) -> rt;

// IPv6. Packets from and to link-local addresses stay on their link, and so do all groups here.

six :: Classifier(8/fe80%ffc0, -);
six[0] -> Discard;
six[1] -> CheckIP6Header(:: ::1)
  -> GetIP6Address(24)
  -> rt6 :: LookupIP6Route(
       $SIX0/128 0, $SIX1/128 0,
       ::/128 3, ::1/128 3, fe80::/10 3, ff00::/8 3,
       $SIXNET0 1, $SIXNET1 2,
       ::/0 4);

if0[1], if1[1] -> six;
rt6[1] -> [1]if0;
rt6[2] -> [1]if1;

// Packets for the router itself: echo requests, other ICMPv6, and what has no port here.
rt6[0] -> local6 :: Classifier(6/3a 40/80, 6/3a, -);
local6[0] -> ICMP6PingResponder -> rt6;
local6[1] -> Discard;
local6[2] -> ICMP6Error($SIX0, unreachable, 4) -> rt6;
rt6[3] -> Discard;
rt6[4] -> ICMP6Error($SIX0, unreachable, 0) -> rt6;
