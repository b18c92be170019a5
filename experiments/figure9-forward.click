// A device for experiments: minimal forwarding (RouteBricks, section 5.1), once for each packet. It makes its
// traffic itself: every EVERY it receives 32 packets of 64 flows from a file, over and over.
//
// Run:     valiant bench run experiments/routebricks-figures9-10.toml
// Expect:  out.packets grows by 32 in each EVERY; nothing is dropped.

define($EVERY 0);

in :: FromDPDKDevice("net_pcap0,rx_pcap=udp64.pcap,infinite_rx=1", BURST 32, POLL_INTERVAL $EVERY)
	-> out :: ToDPDKDevice("net_null1,size=60,no-rx=1");
