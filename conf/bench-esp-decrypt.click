// IPsec for benchmarks, the way back: ESP packets are checked and decrypted, and what was in them is routed.
//
// Run:     valiant run --cpus 1 conf/bench-esp-decrypt.click SAD="FILE PATH" IN='"net_pcap0,rx_pcap=FILE,infinite_rx=1"';
//          scripts/bench makes the packets and the file with the security association (without a window, as the packets
//          repeat), and compares with ipsec-secgw
// Expect:  every packet leaves as it was before encryption, but for its TTL.
// Counters: in.count, out.count, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $SAD CAPACITY 16, $DEVICE crypto_aesni_mb);

sad :: IPsecSAD($SAD, DEVICE $DEVICE);

in :: FromDPDKDevice($IN)
	-> Strip(14)
	-> CheckIPHeader
	-> ESPDecap(sad)
	-> CheckIPHeader
	-> rt :: LookupIPRoute(0.0.0.0/0 0)
	-> DecIPTTL
	-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice($OUT);
