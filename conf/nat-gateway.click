// A gateway with NAT44 between an inside and an outside network: hosts inside share the gateway's outside address.
//
// Run:     valiant run conf/nat-gateway.click INSIDE=eth0 OUTSIDE=eth1 OUTSIDE_IP=192.0.2.1 OUTSIDE_NET=192.0.2.0/24 GATEWAY=192.0.2.254
//          Hosts inside use INSIDE_IP as their gateway.
// Expect:  TCP, UDP and ping from the inside reach the outside with OUTSIDE_IP as their source, and only replies come back. SERVER can
//          be reached from the outside at port 8080 of OUTSIDE_IP, as its port 80. Both addresses of the gateway answer ping and ARP.
// Counters: the handlers tcp_table, udp_table, size, patterns and mapping_failures of nat; table of pings; valiant drops.
// Note:    a hot swap (valiant write hotconfig) keeps the connections. ICMP errors from the outside are not translated.

define(
  $INSIDE eth0, $INSIDE_IP 10.0.1.1, $INSIDE_NET 10.0.1.0/24, $INSIDE_MAC 02:00:00:00:01:01,
  $OUTSIDE eth1, $OUTSIDE_IP 192.0.2.1, $OUTSIDE_NET 192.0.2.0/24, $OUTSIDE_MAC 02:00:00:00:01:02, $GATEWAY 192.0.2.254,
  $SERVER 10.0.1.2, $CAPACITY 4000000
);

// TCP and UDP. Input 0: new flows from the inside; 1: what comes from the outside; 2: from the outside to the server.
nat :: IPRewriter(pattern $OUTSIDE_IP 1024-65535 - - 0 1, drop, pattern - - $SERVER 80 1 0, MAPPING_CAPACITY $CAPACITY);
pings :: ICMPPingRewriter(pattern $OUTSIDE_IP 0-65535 - - 0 1, drop);

FromDevice($INSIDE) -> HostEtherFilter($INSIDE_MAC) -> in :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
to_inside :: Queue(4000) -> ToDevice($INSIDE);
in [0] -> ARPResponder($INSIDE_IP $INSIDE_MAC) -> to_inside;
inside_arp :: ARPQuerier($INSIDE_IP, $INSIDE_MAC) -> to_inside;
in [1] -> [1] inside_arp;
in [3] -> Discard;

FromDevice($OUTSIDE) -> HostEtherFilter($OUTSIDE_MAC) -> out :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
to_outside :: Queue(4000) -> ToDevice($OUTSIDE);
out [0] -> ARPResponder($OUTSIDE_IP $OUTSIDE_MAC) -> to_outside;
outside_arp :: ARPQuerier($OUTSIDE_IP, $OUTSIDE_MAC) -> to_outside;
out [1] -> [1] outside_arp;
out [3] -> Discard;

// What leaves on the outside: to a neighbor, or to the gateway.
forward :: DecIPTTL -> way :: StaticIPLookup($OUTSIDE_NET 0, 0.0.0.0/0 $GATEWAY 0) -> outside_arp;
// What reaches a host inside.
back :: DecIPTTL -> inside_arp;
nat [0], pings [0] -> forward;
nat [1], pings [1] -> back;

// From the inside: for the gateway itself, for others.
in [2] -> Strip(14) -> CheckIPHeader -> from_inside :: IPClassifier(
    dst host $INSIDE_IP and icmp type echo,
    dst host $INSIDE_IP,
    src net $INSIDE_NET and icmp type echo,
    src net $INSIDE_NET and (tcp or udp),
    -);
from_inside [0] -> ICMPPingResponder -> inside_arp;
from_inside [1] -> Discard;
from_inside [2] -> pings;
from_inside [3] -> nat;
from_inside [4] -> Discard;

// From the outside: pings, the server's port, replies.
out [2] -> Strip(14) -> CheckIPHeader -> from_outside :: IPClassifier(
    dst host $OUTSIDE_IP and icmp type echo,
    dst host $OUTSIDE_IP and icmp type echo-reply,
    dst host $OUTSIDE_IP and tcp dst port 8080,
    dst host $OUTSIDE_IP and (tcp or udp),
    -);
from_outside [0] -> ICMPPingResponder -> way;
from_outside [1] -> [1] pings;
from_outside [2] -> [2] nat;
from_outside [3] -> [1] nat;
from_outside [4] -> Discard;
