// A gateway with NAT44 between an inside and an outside network: hosts inside share the gateway's outside address.
//
// Run:     valiant run conf/nat-gateway.click INSIDE=eth0 OUTSIDE=eth1 OUTSIDE_IP=192.0.2.1 OUTSIDE_NET=192.0.2.0/24 GATEWAY=192.0.2.254
//          Hosts inside use INSIDE_IP as their gateway.
// Expect:  TCP, UDP and ping from the inside reach the outside with OUTSIDE_IP as their source, and only replies come back, with ICMP
//          errors about them, so that traceroute works. FTP works in both modes. SERVER can be reached from the outside at port 8080 of
//          OUTSIDE_IP, as its port 80. Both addresses of the gateway answer ping and ARP.
// Counters: the handlers tcp_table, udp_table, size, patterns and mapping_failures of nat; table of pings; valiant drops.
// Note:    a hot swap (valiant write hotconfig) keeps the connections.

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
way :: StaticIPLookup($OUTSIDE_NET 0, 0.0.0.0/0 $GATEWAY 0) -> outside_arp;
nat [0], pings [0] -> way;
nat [1], pings [1] -> inside_arp;

// From the inside: for the gateway itself, for others. Lifetimes end before anything is translated, so that the gateway's own errors
// are about what the hosts have sent.
in [2] -> Strip(14) -> CheckIPHeader -> to_gateway :: IPClassifier(
    dst host $INSIDE_IP and icmp type echo,
    dst host $INSIDE_IP,
    src net $INSIDE_NET,
    -);
to_gateway [0] -> ICMPPingResponder -> inside_arp;
to_gateway [1], to_gateway [3] -> Discard;
to_gateway [2] -> leaving :: DecIPTTL -> from_inside :: IPClassifier(icmp type echo, tcp dst port 21, tcp or udp, icmp, -);
leaving [1] -> ICMPError($INSIDE_IP, timeexceeded, transit) -> inside_arp;
from_inside [0] -> pings;
// FTP in active mode: the server is told where the client can be reached.
from_inside [1] -> FTPPortMapper(nat, nat, 0) -> nat;
from_inside [2] -> nat;
// Errors about packets that came in.
from_inside [3] -> CheckICMPHeader -> ICMPRewriter(nat pings) -> way;
from_inside [4] -> Discard;

// From the outside: pings, the server's port, replies, errors about packets that have left.
out [2] -> Strip(14) -> CheckIPHeader -> to_us :: IPClassifier(
    dst host $OUTSIDE_IP and icmp type echo,
    dst host $OUTSIDE_IP,
    -);
to_us [0] -> ICMPPingResponder -> way;
to_us [1] -> arriving :: DecIPTTL -> from_outside :: IPClassifier(icmp type echo-reply, tcp dst port 8080, tcp or udp, icmp, -);
to_us [2] -> Discard;
arriving [1] -> ICMPError($OUTSIDE_IP, timeexceeded, transit) -> way;
from_outside [0] -> [1] pings;
from_outside [1] -> [2] nat;
from_outside [2] -> [1] nat;
from_outside [3] -> CheckICMPHeader -> ICMPRewriter(nat pings) -> inside_arp;
from_outside [4] -> Discard;
