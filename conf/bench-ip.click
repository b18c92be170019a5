// IP routing for benchmarks: header check, route look-up, TTL, a new Ethernet header; one port in, one out.
//
// Run:     valiant run --cpus 1 conf/bench-ip.click IN='"net_pcap0,rx_pcap=FILE,infinite_rx=1"' ROUTES="FILE PATH";
//          scripts/bench-first makes the packets and a quarter of a million routes
// Expect:  what a router does to every packet, without what it does to some.
// Counters: in.count, out.count, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $ROUTES 0.0.0.0/0 10.255.0.1 0);

in :: FromDPDKDevice($IN)
	-> Strip(14)
	-> CheckIPHeader
	-> rt :: LookupIPRoute($ROUTES)
	-> DecIPTTL
	-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice($OUT);
