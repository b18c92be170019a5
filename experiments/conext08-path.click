// For the devices of experiments/conext08-figure8.toml: the two halves of a path, which are tasks of their own: what
// comes in is routed (a header that is checked, a look-up) and waits in a queue; what goes out gets a lower TTL and a new header.
// Packets are those of udp64.pcap, over and over.

elementclass Path { $FROM, $TO |
	in :: FromDPDKDevice("net_pcap$FROM,rx_pcap=udp64.pcap,infinite_rx=1", QUEUE 0)
		-> Strip(14)
		-> CheckIPHeader
		-> LookupIPRoute(0.0.0.0/0 0, 10.0.0.0/8 0, 10.1.0.0/16 0, 10.1.2.0/24 0, 192.168.0.0/16 0, 198.18.0.0/15 0)
		-> Queue(1024)
		-> send :: Unqueue(BURST 64)
		-> DecIPTTL
		-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
		-> out :: ToDPDKDevice("net_null$TO,size=60,no-rx=1");
}
