// IPsec for benchmarks: header check, route look-up, TTL, ESP in tunnel mode; one port in, one out.
//
// Run:     valiant run --cpus 1 conf/bench-esp-encrypt.click SAD="FILE PATH" IN='"net_pcap0,rx_pcap=FILE,infinite_rx=1"';
//          scripts/bench makes the packets and the file with the security association, and compares with ipsec-secgw
// Expect:  every packet leaves encrypted, in a tunnel of its own Ethernet header and outer IP header.
// Counters: in.count, out.count, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $SAD CAPACITY 16, $DEVICE crypto_aesni_mb, $SPI 5);

sad :: IPsecSAD($SAD, DEVICE $DEVICE);

in :: FromDPDKDevice($IN)
	-> Strip(14)
	-> CheckIPHeader
	-> rt :: LookupIPRoute(0.0.0.0/0 0)
	-> DecIPTTL
	-> ESPEncap(sad, $SPI)
	-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice($OUT);
