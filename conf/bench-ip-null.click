// IP routing for benchmarks, as conf/bench-ip.click, from a port whose frames are empty: each is made an IP packet to a
// random destination first.
//
// Run:     valiant run --cpus 1 conf/bench-ip-null.click ROUTES="FILE PATH"; scripts/bench-first compares it with
//          dpdk-testpmd, and with conf/bench-stamp.click, which does the same without routing
// Expect:  as many packets a second as one core can make and route.
// Counters: in.count, out.count, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $NET 0.0.0.0/0, $DESTINATIONS 65536,
	$ROUTES 0.0.0.0/0 10.255.0.1 0);

in :: FromDPDKDevice($IN)
	// Ethernet, then UDP from 10.9.9.9 port 1000 to 0.0.0.0 port 2000 in 46 bytes of IP; its checksum is right.
	-> StoreData(0, \<020000000001 020000000002 0800
		4500002e 00000000 401167ae 0a090909 00000000 03e807d0 001a0000>)
	-> MarkIPHeader(14)
	-> SetRandIPAddress($NET, $DESTINATIONS)
	-> StoreIPAddress(dst)
	-> Strip(14)
	-> CheckIPHeader
	-> rt :: LookupIPRoute($ROUTES)
	-> DecIPTTL
	-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice($OUT);
