// An IP router whose routes, neighbors and addresses are those of a Linux network namespace: FRR, BIRD or `ip route` in that
// namespace control it, and Valiant forwards. Each interface has a TAP in the namespace. Frames for the router itself go
// there through a policer (ARP, OSPF, BGP, ping, packets that need an answer or a fragment), and what Linux sends by the
// TAP is sent by the interface. IPv6 goes through Linux, at the policer's rate.
//
// Virtual: conf/virtual-routers.toml has the lines; [router.NAME.control] defines NETNS, TAP0, TAP1.
// Alone:   ip netns add blue; ip netns exec blue sysctl -w net.ipv4.ip_forward=1
//          valiant run conf/vr-frr.click DEV0=ens1f0 MAC0=... DEV1=ens1f1 MAC1=... NETNS=blue
// Then:    ip -n blue addr add 203.0.113.2/30 dev DEV0; ip -n blue addr add 192.168.10.1/24 dev DEV1
//          and FRR in the namespace: ip netns exec blue /usr/lib/frr/frrinit.sh start
// Expect:  valiant read kernel.json shows what Linux has told; kernel.drift is 0; rt.table has the routes of `ip -n blue route`.

define(
  $NETNS blue,
  $DEV0 eth0, $MAC0 02:00:00:00:10:00, $TAP0 DEV0,
  $DEV1 eth1, $MAC1 02:00:00:00:10:01, $TAP1 DEV1,
  $ROUTING 5000, $BGP 20000, $NEIGHBORS 1000, $ICMP 1000, $OTHER 1000    // packets a second, each class of each interface
);

// Control plane policing: a rate and a queue for each class, so that none takes the room of another.
// Input 0: frames for the router itself. Input 1: frames that it cannot forward, whatever is in them.
elementclass Policer {
  $routing, $bgp, $neighbors, $icmp, $other |
  input[0] -> frame :: Classifier(12/0806, 12/0800, 12/86dd 20/3a, 12/86dd 20/59, -);
  frame[1] -> MarkIPHeader(14) -> ip :: IPClassifier(
    ip proto 89 or ip proto 2 or ip proto 103 or ip proto 112 or udp port 3784 or udp port 520 or udp port 646,
    tcp port 179 or tcp port 646,
    icmp,
    -);

  classes :: PrioSched -> output;
  frame[3], ip[0] -> routing   :: RatedSplitter($routing)   -> Queue(1000) -> [0]classes;   // OSPF, IGMP, PIM, VRRP, BFD, RIP, LDP
  ip[1]           -> bgp       :: RatedSplitter($bgp)       -> Queue(1000) -> [1]classes;   // BGP, LDP sessions
  frame[0,2]      -> neighbors :: RatedSplitter($neighbors) -> Queue(1000) -> [2]classes;   // ARP, ICMPv6
  ip[2]           -> icmp      :: RatedSplitter($icmp)      -> Queue(1000) -> [3]classes;
  frame[4], ip[3] -> other     :: RatedSplitter($other)     -> Queue(1000) -> [4]classes;
  input[1]        -> exception :: RatedSplitter($other)     -> Queue(1000) -> [5]classes;   // TTL expired, too big
}

// One interface. Input 0: packets to send, with the next hop in the destination annotation. Input 1: packets that came here
// and are for the router itself. Input 2: those that cannot be forwarded. Output 0: packets to route. Output 1: as input 2,
// for the interface where they came.
elementclass Interface {
  $dev, $mac, $tap, $netns, $color |
  FromDevice($dev) -> HostEtherFilter($mac) -> Paint($color)
    -> kind :: Classifier(12/0806 20/0002, 12/0800 0/00%01, -);
  out :: Queue(1000) -> ToDevice($dev);

  host :: Policer($ROUTING, $BGP, $NEIGHBORS, $ICMP, $OTHER) -> ToHost($tap, NETNS $netns);
  linux :: FromHost($tap, ETHER $mac, NETNS $netns) -> out;

  kind[0] -> replies :: Tee -> host;
  replies[1] -> [1]arp :: ARPQuerier(0.0.0.0, $mac) -> out;      // LinuxRoutes sets the address
  kind[1] -> Strip(14) -> output;
  kind[2] -> host;                                               // ARP requests, multicast, broadcasts, IPv6

  input[0] -> fragment :: IPFragmenter(1500) -> ttl :: DecIPTTL -> [0]arp;
  input[1] -> Unstrip(14) -> [0]host;
  input[2] -> Unstrip(14) -> [1]host;
  fragment[1], ttl[1] -> [1]output;
}

if0 :: Interface($DEV0, $MAC0, $TAP0, $NETNS, 0);
if1 :: Interface($DEV1, $MAC1, $TAP1, $NETNS, 1);

if0, if1 -> CheckIPHeader -> GetIPAddress(16) -> rt :: RadixIPLookup;

kernel :: LinuxRoutes(rt, $TAP0 1 if0/arp, $TAP1 2 if1/arp, HOST 0, UNREACHABLE 3, PROHIBIT 3, NETNS $NETNS);

rt[0] -> mine :: PaintSwitch;      // to the TAP of the interface where it came
mine[0] -> [1]if0;
mine[1] -> [1]if1;
rt[1] -> if0;
rt[2] -> if1;
rt[3], if0[1], if1[1] -> back :: PaintSwitch;
back[0] -> [2]if0;
back[1] -> [2]if1;
