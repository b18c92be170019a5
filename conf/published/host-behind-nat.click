// host-behind-nat.click: this machine's own traffic through Click. The kernel sends into a tunnel interface; packets leave on
// eth0 with eth0's address, and replies go back to the kernel. Run as root.

AddressInfo(eth0_addr 198.51.100.33 02:00:00:00:00:33, gw 198.51.100.1);

tun :: KernelTun(10.99.0.1/24, HEADROOM 64);
rw :: IPRewriter(pattern eth0_addr:ip 1024-65535# - - 0 1, drop);
pings :: ICMPPingRewriter(pattern eth0_addr:ip 0-65535# - - 0 1, drop);
arpq :: ARPQuerier(eth0_addr:ip, eth0_addr:eth);

tun -> CheckIPHeader -> IPPrint(kernel, TIMESTAMP false) -> k :: IPClassifier(tcp or udp, icmp type echo, -);
k[0] -> [0] rw;
k[1] -> [0] pings;
k[2] -> Discard;
rw[0], pings[0] -> SetIPAddress(gw) -> arpq;

FromDevice(eth0) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
c[0] -> ARPResponder(eth0_addr) -> q :: Queue;
arpq -> q -> ToDevice(eth0);
c[1] -> [1] arpq;
c[2] -> Strip(14) -> CheckIPHeader -> IPClassifier(dst host eth0_addr) -> d :: IPClassifier(tcp or udp, icmp type echo-reply, -);
c[3] -> Discard;
d[0] -> [1] rw;
d[1] -> [1] pings;
d[2] -> Discard;
rw[1], pings[1] -> CheckIPHeader -> IPPrint(back, TIMESTAMP false) -> tun;
