// IPv6 routing for benchmarks: header check, route look-up, hop limit, a new Ethernet header; one port in, one out.
//
// Run:     valiant run --cpus 1 conf/bench-ip6.click IN='"net_pcap0,rx_pcap=FILE,infinite_rx=1"' ROUTES="FILE PATH";
//          scripts/bench --only ip6 makes the packets and 200,000 routes
// Expect:  what a router does to every packet, without what it does to some.
// Counters: in.count, out.count, the global handlers cycles and drops.

define($IN "net_null0,size=62", $OUT "net_null1,size=62,no-rx=1", $ROUTES ::/0 fe80::1 0);

in :: FromDPDKDevice($IN)
	-> Strip(14)
	-> CheckIP6Header
	-> GetIP6Address(24)
	-> rt :: LookupIP6Route($ROUTES)
	-> DecIP6HLIM
	-> EtherEncap(0x86dd, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice($OUT);
