// A device for experiments: IPsec in 16 stages, one after another through rings, as forward.click. Each stage encrypts a packet
// with AES-128-CBC and HMAC-SHA1 in ESP tunnel mode, and takes it out of the tunnel again, so that the sink knows it.
//
// Run:     valiant bench run experiments/routebricks-figure8-applications.toml
// Expect:  every packet leaves as it came.
// Counters: in.count, out.count.
// Note:    ipsec.sad has the keys, which are no secret: for measurements only.

define($SOCKET valiant-experiment);

sad :: IPsecSAD(FILE ipsec.sad);

elementclass Gateway {
	input -> Strip(14) -> CheckIPHeader -> ESPEncap(sad, 0x1001) -> CheckIPHeader -> ESPDecap(sad) -> CheckIPHeader
		-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> output;
}

in :: FromDPDKDevice("net_memif0,role=server,id=0,socket=$SOCKET") -> Gateway -> ToDPDKDevice(net_ring1);
FromDPDKDevice(net_ring1) -> Gateway -> ToDPDKDevice(net_ring2);
FromDPDKDevice(net_ring2) -> Gateway -> ToDPDKDevice(net_ring3);
FromDPDKDevice(net_ring3) -> Gateway -> ToDPDKDevice(net_ring4);
FromDPDKDevice(net_ring4) -> Gateway -> ToDPDKDevice(net_ring5);
FromDPDKDevice(net_ring5) -> Gateway -> ToDPDKDevice(net_ring6);
FromDPDKDevice(net_ring6) -> Gateway -> ToDPDKDevice(net_ring7);
FromDPDKDevice(net_ring7) -> Gateway -> ToDPDKDevice(net_ring8);
FromDPDKDevice(net_ring8) -> Gateway -> ToDPDKDevice(net_ring9);
FromDPDKDevice(net_ring9) -> Gateway -> ToDPDKDevice(net_ring10);
FromDPDKDevice(net_ring10) -> Gateway -> ToDPDKDevice(net_ring11);
FromDPDKDevice(net_ring11) -> Gateway -> ToDPDKDevice(net_ring12);
FromDPDKDevice(net_ring12) -> Gateway -> ToDPDKDevice(net_ring13);
FromDPDKDevice(net_ring13) -> Gateway -> ToDPDKDevice(net_ring14);
FromDPDKDevice(net_ring14) -> Gateway -> ToDPDKDevice(net_ring15);
FromDPDKDevice(net_ring15) -> Gateway -> out :: ToDPDKDevice("net_memif1,role=server,id=1,socket=$SOCKET");
