// one-to-one-nat.click: basic NAT (RFC 3022). Each host inside gets an outside address of its own from a pool, whatever
// protocol it speaks, and can be reached by it.

require(package "ip");

nat :: IPAddrRewriter(pattern 198.51.100.10-198.51.100.12# - 0 1, drop);

FromDevice(eth1) -> inside :: Classifier(12/0800, -);
FromDevice(eth0) -> outside :: Classifier(12/0800, -);
inside[1] -> Discard;
outside[1] -> Discard;

inside[0] -> Strip(14) -> CheckIPHeader(INTERFACES 192.168.0.1/24) -> [0] nat;
outside[0] -> Strip(14) -> CheckIPHeader -> [1] nat;

nat[0] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:a0, 2:0:0:0:0:b0) -> Queue(64) -> ToDevice(eth0);
nat[1] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:a1, 2:0:0:0:0:b1) -> Queue(64) -> ToDevice(eth1);
