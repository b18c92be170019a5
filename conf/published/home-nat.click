// home-nat.click: a home gateway. Everybody behind eth1 shares the one address of eth0.
// TCP and UDP go through an IPRewriter, pings through an ICMPPingRewriter, and ICMP errors find their way back.
// The gateway answers ARP and ping on both sides and has a default router outside.

AddressInfo(
  extern 203.0.113.7 203.0.113.0/24 00:50:ba:85:84:a9,
  intern 192.168.1.1 192.168.1.0/24 00:50:ba:85:84:b1,
  extern_next_hop 203.0.113.1
);

elementclass Gateway { $me |
  // input 0: Ethernet frames, output 0: IP packets, output 1: ARP replies received, output 2: ARP answers to send
  input -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  c[0] -> ARPResponder($me) -> [2] output;
  c[1] -> [1] output;
  c[2] -> Strip(14) -> CheckIPHeader -> [0] output;
  c[3] -> Discard;
}

rw :: IPRewriter(pattern extern:ip 1024-65535# - - 0 1, drop);
ping_rw :: ICMPPingRewriter(pattern extern:ip 0-65535# - - 0 1, drop);
icmp_rw :: ICMPRewriter(rw ping_rw);

ext_arp :: ARPQuerier(extern);
int_arp :: ARPQuerier(intern);
to_ext :: Queue(200) -> ToDevice(eth0);
to_int :: Queue(200) -> ToDevice(eth1);
ext_arp -> to_ext;
int_arp -> to_int;

FromDevice(eth0, PROMISC false) -> ext :: Gateway(extern);
FromDevice(eth1, PROMISC false) -> int :: Gateway(intern);
ext[1] -> [1] ext_arp;
int[1] -> [1] int_arp;
ext[2] -> to_ext;
int[2] -> to_int;

// To the Internet: by the default router, unless it is on the same network.
out :: StaticIPLookup(extern:ipnet 0, 0.0.0.0/0 extern_next_hop 0) -> ext_arp;

int[0] -> int_cl :: IPClassifier(dst host intern and icmp type echo, dst host intern, icmp type echo, tcp or udp, -);
int_cl[0] -> ICMPPingResponder -> int_arp;
int_cl[1] -> Discard;
int_cl[2] -> ping_rw;
int_cl[3] -> rw;
int_cl[4] -> Discard;

ext[0] -> ext_cl :: IPClassifier(dst host extern and icmp type echo, icmp type echo-reply, icmp, tcp or udp, -);
ext_cl[0] -> ICMPPingResponder -> out;
ext_cl[1] -> [1] ping_rw;
ext_cl[2] -> icmp_rw -> int_arp;
ext_cl[3] -> [1] rw;
ext_cl[4] -> Discard;

rw[0], ping_rw[0] -> out;
rw[1], ping_rw[1] -> int_arp;
