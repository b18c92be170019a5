// A device for experiments: IP routing: the header is checked, the route looked up, the TTL lowered and a new Ethernet header written (RouteBricks, section 5.1), once for each packet. It makes its
// traffic itself: every EVERY it receives 32 packets of 64 flows from a file, over and over.
//
// Run:     valiant bench run experiments/routebricks-figures9-10.toml
// Expect:  out.packets grows by 32 in each EVERY; nothing is dropped.

define($EVERY 0);

in :: FromDPDKDevice("net_pcap0,rx_pcap=udp64.pcap,infinite_rx=1", BURST 32, POLL_INTERVAL $EVERY)
	-> Strip(14)
	-> CheckIPHeader
	-> LookupIPRoute(0.0.0.0/0 0, 10.0.0.0/8 0, 10.1.0.0/16 0, 10.1.2.0/24 0, 192.168.0.0/16 0, 198.18.0.0/15 0)
	-> DecIPTTL
	-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice("net_null1,size=60,no-rx=1");
