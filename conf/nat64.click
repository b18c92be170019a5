// A gateway with stateful NAT64 (RFC 6146) between a network that has only IPv6 and one that has only IPv4.
//
// Run:     valiant run conf/nat64.click INSIDE=eth0 OUTSIDE=eth1 OUTSIDE_IP=192.0.2.1 OUTSIDE_NET=192.0.2.0/24 GATEWAY=192.0.2.254
//          Hosts inside use fe80::1 as their gateway, and reach an IPv4 host as PREFIX with its address, such as 64:ff9b::192.0.2.9. A
//          DNS server with DNS64 gives them such addresses for names. As 192.0.2.9 is no global address, it needs NON_GLOBAL=true.
// Expect:  TCP, UDP and ping from the inside reach the outside with OUTSIDE_IP as their source, and replies come back, with ICMP errors
//          about them, so that traceroute and path MTU discovery work. INSIDE_SIX and OUTSIDE_IP answer ping.
// Counters: the handlers sessions, mappings, nsessions, nmappings, nhosts and mapping_failures of nat; valiant drops.
// Note:    pings from outside to OUTSIDE_IP are answered by the gateway. A hot swap (valiant write hotconfig) keeps the sessions.

define(
  $INSIDE eth0, $INSIDE_SIX 2001:db8:1::1, $INSIDE_SIXNET 2001:db8:1::/64, $INSIDE_MAC 02:00:00:00:01:01, $LINKLOCAL fe80::1,
  $OUTSIDE eth1, $OUTSIDE_IP 192.0.2.1, $OUTSIDE_NET 192.0.2.0/24, $OUTSIDE_MAC 02:00:00:00:01:02, $GATEWAY 192.0.2.254,
  $PREFIX 64:ff9b::/96, $NON_GLOBAL false, $PORTS 1024-65535, $INSIDE_MTU 1500, $OUTSIDE_MTU 1500
);

nat :: NAT64($OUTSIDE_IP $PORTS, PREFIX $PREFIX, MTU $INSIDE_MTU, NON_GLOBAL $NON_GLOBAL);

// The IPv6 side.

FromDevice($INSIDE) -> HostEtherFilter($INSIDE_MAC)
  -> in :: Classifier(12/86dd 20/3aff 54/87, 12/86dd 20/3aff 54/88, 12/86dd, -);
to_inside :: Queue(4000) -> ToDevice($INSIDE);
in [0] -> IP6NDAdvertiser($LINKLOCAL $INSIDE_SIX $INSIDE_MAC) -> to_inside;
neighbors :: IP6NDSolicitor($LINKLOCAL, $INSIDE_MAC) -> to_inside;
in [1] -> [1] neighbors;
in [3] -> Discard;

// What leaves on the inside: translated packets, and answers of the gateway.
fits6 :: IP6Fragmenter($INSIDE_MTU) -> GetIP6Address(24) -> neighbors;
fits6 [1] -> ICMP6Error($INSIDE_SIX, pkttoobig, 0, PMTU $INSIDE_MTU) -> [0] nat;

// Hop limits end before anything is translated, so that the gateway's own errors are about what the hosts have sent.
in [2] -> Strip(14) -> CheckIP6Header(:: ::1) -> GetIP6Address(24)
  -> to :: LookupIP6Route($INSIDE_SIX/128 0, $PREFIX 1, ::/0 2);
to [0] -> own6 :: Classifier(6/3a 40/80, -);
own6 [0] -> ICMP6PingResponder -> fits6;
own6 [1] -> Discard;
to [1] -> hops :: DecIP6HLIM -> [0] nat;
hops [1] -> ICMP6Error($INSIDE_SIX, timeexceeded, 0) -> fits6;
to [2] -> ICMP6Error($INSIDE_SIX, unreachable, 0) -> fits6;

nat [0] -> fits6;

// The IPv4 side.

FromDevice($OUTSIDE) -> HostEtherFilter($OUTSIDE_MAC) -> out :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
to_outside :: Queue(4000) -> ToDevice($OUTSIDE);
out [0] -> ARPResponder($OUTSIDE_IP $OUTSIDE_MAC) -> to_outside;
arp :: ARPQuerier($OUTSIDE_IP, $OUTSIDE_MAC) -> to_outside;
out [1] -> [1] arp;
out [3] -> Discard;

// What leaves on the outside: to a neighbor, or to the gateway.
fits4 :: IPFragmenter($OUTSIDE_MTU) -> way :: StaticIPLookup($OUTSIDE_NET 0, 0.0.0.0/0 $GATEWAY 0) -> arp;
fits4 [1] -> ICMPError($OUTSIDE_IP, unreachable, needfrag, PMTU $OUTSIDE_MTU) -> [1] nat;
nat [1] -> fits4;

out [2] -> Strip(14) -> CheckIPHeader -> to_us :: IPClassifier(dst host $OUTSIDE_IP and icmp type echo, dst host $OUTSIDE_IP, -);
to_us [0] -> ICMPPingResponder -> way;
to_us [1] -> ttl :: DecIPTTL -> IPReassembler -> [1] nat;
ttl [1] -> ICMPError($OUTSIDE_IP, timeexceeded, transit) -> way;
to_us [2] -> Discard;
