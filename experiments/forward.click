// A device for experiments: minimal forwarding in 16 stages, one after another through rings, on one worker. Each stage polls up
// to KP packets and sends up to KN at a time (RouteBricks, section 4.2). A packet costs 16 times what it costs to be forwarded
// once: so the device is the limit, and not the generator, which has one processor too.
//
// Run:     valiant bench run experiments/routebricks-table1.toml
// Expect:  every packet leaves unchanged.
// Counters: in.batches, out.batches.

define($SOCKET valiant-experiment, $KP 32, $KN 32);

in :: FromDPDKDevice("net_memif0,role=server,id=0,socket=$SOCKET", BURST $KP) -> ToDPDKDevice(net_ring1, BURST $KN);
FromDPDKDevice(net_ring1, BURST $KP) -> ToDPDKDevice(net_ring2, BURST $KN);
FromDPDKDevice(net_ring2, BURST $KP) -> ToDPDKDevice(net_ring3, BURST $KN);
FromDPDKDevice(net_ring3, BURST $KP) -> ToDPDKDevice(net_ring4, BURST $KN);
FromDPDKDevice(net_ring4, BURST $KP) -> ToDPDKDevice(net_ring5, BURST $KN);
FromDPDKDevice(net_ring5, BURST $KP) -> ToDPDKDevice(net_ring6, BURST $KN);
FromDPDKDevice(net_ring6, BURST $KP) -> ToDPDKDevice(net_ring7, BURST $KN);
FromDPDKDevice(net_ring7, BURST $KP) -> ToDPDKDevice(net_ring8, BURST $KN);
FromDPDKDevice(net_ring8, BURST $KP) -> ToDPDKDevice(net_ring9, BURST $KN);
FromDPDKDevice(net_ring9, BURST $KP) -> ToDPDKDevice(net_ring10, BURST $KN);
FromDPDKDevice(net_ring10, BURST $KP) -> ToDPDKDevice(net_ring11, BURST $KN);
FromDPDKDevice(net_ring11, BURST $KP) -> ToDPDKDevice(net_ring12, BURST $KN);
FromDPDKDevice(net_ring12, BURST $KP) -> ToDPDKDevice(net_ring13, BURST $KN);
FromDPDKDevice(net_ring13, BURST $KP) -> ToDPDKDevice(net_ring14, BURST $KN);
FromDPDKDevice(net_ring14, BURST $KP) -> ToDPDKDevice(net_ring15, BURST $KN);
FromDPDKDevice(net_ring15, BURST $KP) -> out :: ToDPDKDevice("net_memif1,role=server,id=1,socket=$SOCKET", BURST $KN);
