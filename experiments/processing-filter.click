// A device for experiments: a filter of 32 rules, none of which matches but the last (RouteBricks, section 8). It makes its
// traffic itself, UDP packets of SIZE bytes without FCS.
//
// Run:     valiant bench run experiments/routebricks-processing.toml
// Expect:  out.packets grows; nothing is dropped.

define($SIZE 60);

FastUDPSource(0, -1, $SIZE, 2:0:0:0:0:1, 198.18.0.1, 1024, 2:0:0:0:0:2, 198.19.0.1, 2000) -> in :: Unqueue(BURST 32)
	-> MarkIPHeader(14)
	-> IPFilter(
		deny src net 10.0.0.0/8, deny src net 172.16.0.0/12, deny src net 192.168.0.0/16, deny src net 127.0.0.0/8,
		deny src net 224.0.0.0/4, deny src net 169.254.0.0/16, deny src net 192.0.2.0/24, deny src net 203.0.113.0/24,
		deny dst host 198.19.0.2, deny dst host 198.19.0.3, deny dst host 198.19.0.4, deny dst host 198.19.0.5,
		deny dst net 198.19.1.0/24, deny dst net 198.19.2.0/24, deny dst net 198.19.3.0/24, deny dst net 198.19.4.0/24,
		deny ip ttl < 2, deny ip frag, deny icmp type 5, deny tcp dst port 23,
		deny tcp dst port 135, deny tcp dst port 139, deny tcp dst port 445, deny tcp opt syn and tcp opt fin,
		deny udp dst port 53, deny udp dst port 123, deny udp dst port 161, deny udp dst port 389,
		deny udp dst port 1434, deny udp dst port 1900, deny udp src port 11211,
		allow all)
	-> out :: Counter -> Discard;
