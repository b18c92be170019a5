// A load balancer for TCP and UDP: connections to one address are distributed over several servers by consistent hashing.
//
// Run:     valiant run conf/load-balancer.click CLIENTS=eth0 SERVERS=eth1 SERVER1=10.0.2.11 SERVER2=10.0.2.12 SERVER3=10.0.2.13
//          Clients reach VIP by way of CLIENTS_IP, or are on its network; servers use SERVERS_IP as their gateway.
// Expect:  each connection to VIP stays with one server; a server that is taken out gets no new ones:
//          valiant write pool.down 10.0.2.12; nor does one that answers no pings.
// Counters: pool.servers: state of each server, and how often it has been chosen; health.state; the handlers size, tcp_table and patterns of balancer; valiant drops.

define(
  $CLIENTS eth0, $CLIENTS_IP 10.0.1.1, $CLIENTS_MAC 02:00:00:00:02:01, $VIP 10.0.1.100,
  $SERVERS eth1, $SERVERS_IP 10.0.2.1, $SERVERS_MAC 02:00:00:00:02:02,
  $SERVER1 10.0.2.11, $SERVER2 10.0.2.12, $SERVER3 10.0.2.13, $INTERVAL 1
);

pool :: MaglevIPMapper($SERVER1, $SERVER2, $SERVER3);
balancer :: IPRewriter(pool, drop);
health :: HealthCheck(pool, $SERVERS_IP, INTERVAL $INTERVAL);

FromDevice($CLIENTS) -> HostEtherFilter($CLIENTS_MAC) -> in :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
to_clients :: Queue(4000) -> ToDevice($CLIENTS);
in [0] -> ARPResponder($CLIENTS_IP $CLIENTS_MAC, $VIP $CLIENTS_MAC) -> to_clients;
clients_arp :: ARPQuerier($CLIENTS_IP, $CLIENTS_MAC) -> to_clients;
in [1] -> [1] clients_arp;
in [3] -> Discard;

FromDevice($SERVERS) -> HostEtherFilter($SERVERS_MAC) -> out :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
to_servers :: Queue(4000) -> ToDevice($SERVERS);
out [0] -> ARPResponder($SERVERS_IP $SERVERS_MAC) -> to_servers;
servers_arp :: ARPQuerier($SERVERS_IP, $SERVERS_MAC) -> to_servers;
out [1] -> [1] servers_arp;
out [3] -> Discard;

in [2] -> Strip(14) -> CheckIPHeader -> from_clients :: IPClassifier(
    dst host $VIP and (tcp or udp),
    (dst host $VIP or dst host $CLIENTS_IP) and icmp type echo,
    -);
from_clients [0] -> balancer [0] -> DecIPTTL -> servers_arp;
from_clients [1] -> ICMPPingResponder -> clients_arp;
from_clients [2] -> Discard;

out [2] -> Strip(14) -> CheckIPHeader -> from_servers :: IPClassifier(
    dst host $SERVERS_IP and icmp type echo,
    dst host $SERVERS_IP and icmp type echo-reply,
    tcp or udp,
    -);
from_servers [0] -> ICMPPingResponder -> servers_arp;
from_servers [1] -> health -> servers_arp;
from_servers [2] -> [1] balancer [1] -> DecIPTTL -> clients_arp;
from_servers [3] -> Discard;
