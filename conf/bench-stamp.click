// Minimal forwarding that makes each frame an IP packet first: what conf/bench-ip-null.click does besides routing.
//
// Run:     valiant run --cpus 1 --burst 32 conf/bench-stamp.click; scripts/bench-first compares it with dpdk-testpmd
// Expect:  fewer packets a second than conf/bench-min.click; the difference is what the stamping costs.
// Counters: in.count, out.count, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $NET 0.0.0.0/0, $DESTINATIONS 65536);

in :: FromDPDKDevice($IN)
	// Ethernet, then UDP from 10.9.9.9 port 1000 to 0.0.0.0 port 2000 in 46 bytes of IP; its checksum is right.
	-> StoreData(0, \<020000000001 020000000002 0800
		4500002e 00000000 401167ae 0a090909 00000000 03e807d0 001a0000>)
	-> MarkIPHeader(14)
	-> SetRandIPAddress($NET, $DESTINATIONS)
	-> StoreIPAddress(dst)
	-> out :: ToDPDKDevice($OUT);
