// A device for experiments: IP routing in 16 stages, one after another through rings, as forward.click. Each stage checks the
// header, looks up the route, lowers the TTL and writes a new Ethernet header (RouteBricks, section 5.1).
//
// Run:     valiant bench run experiments/routebricks-figure8-applications.toml
// Expect:  every packet leaves with a TTL that is 16 lower.
// Counters: in.count, out.count.

define($SOCKET valiant-experiment);

elementclass Route {
	input -> Strip(14) -> CheckIPHeader
		-> LookupIPRoute(0.0.0.0/0 0, 10.0.0.0/8 0, 10.1.0.0/16 0, 10.1.2.0/24 0, 192.168.0.0/16 0, 198.18.0.0/15 0)
		-> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> output;
}

in :: FromDPDKDevice("net_memif0,role=server,id=0,socket=$SOCKET") -> Route -> ToDPDKDevice(net_ring1);
FromDPDKDevice(net_ring1) -> Route -> ToDPDKDevice(net_ring2);
FromDPDKDevice(net_ring2) -> Route -> ToDPDKDevice(net_ring3);
FromDPDKDevice(net_ring3) -> Route -> ToDPDKDevice(net_ring4);
FromDPDKDevice(net_ring4) -> Route -> ToDPDKDevice(net_ring5);
FromDPDKDevice(net_ring5) -> Route -> ToDPDKDevice(net_ring6);
FromDPDKDevice(net_ring6) -> Route -> ToDPDKDevice(net_ring7);
FromDPDKDevice(net_ring7) -> Route -> ToDPDKDevice(net_ring8);
FromDPDKDevice(net_ring8) -> Route -> ToDPDKDevice(net_ring9);
FromDPDKDevice(net_ring9) -> Route -> ToDPDKDevice(net_ring10);
FromDPDKDevice(net_ring10) -> Route -> ToDPDKDevice(net_ring11);
FromDPDKDevice(net_ring11) -> Route -> ToDPDKDevice(net_ring12);
FromDPDKDevice(net_ring12) -> Route -> ToDPDKDevice(net_ring13);
FromDPDKDevice(net_ring13) -> Route -> ToDPDKDevice(net_ring14);
FromDPDKDevice(net_ring14) -> Route -> ToDPDKDevice(net_ring15);
FromDPDKDevice(net_ring15) -> Route -> out :: ToDPDKDevice("net_memif1,role=server,id=1,socket=$SOCKET");
