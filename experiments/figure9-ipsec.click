// A device for experiments: IPsec: AES-128-CBC and HMAC-SHA1 in ESP tunnel mode (RouteBricks, section 5.1), once for each packet. It makes its
// traffic itself: every EVERY it receives 32 packets of 64 flows from a file, over and over.
//
// Run:     valiant bench run experiments/routebricks-figures9-10.toml
// Expect:  out.packets grows by 32 in each EVERY; nothing is dropped.
// Note:    ipsec.sad has the keys, which are no secret: for measurements only.

define($EVERY 0);

sad :: IPsecSAD(FILE ipsec.sad);

in :: FromDPDKDevice("net_pcap0,rx_pcap=udp64.pcap,infinite_rx=1", BURST 32, POLL_INTERVAL $EVERY)
	-> Strip(14)
	-> CheckIPHeader
	-> ESPEncap(sad, 0x1001)
	-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice("net_null1,size=60,no-rx=1");
