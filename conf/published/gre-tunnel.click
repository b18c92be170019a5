// gre-tunnel.click: a GRE tunnel (RFC 2784) for IPv4 and IPv6 from general-purpose elements: four bytes are put in front of the
// packet, then an IP header of protocol 47.

elementclass GREEncap { $type, $src, $dst |
  input -> Unstrip(4) -> StoreData(0, $type) -> IPEncap(47, $src, $dst) -> output;
}
elementclass GREDecap {
  // output 0: IPv4, output 1: IPv6, output 2: other
  input -> StripIPHeader -> c :: Classifier(0/0000 2/0800, 0/0000 2/86dd, -);
  c[0] -> Strip(4) -> CheckIPHeader -> [0] output;
  c[1] -> Strip(4) -> CheckIP6Header -> [1] output;
  c[2] -> [2] output;
}

FromDevice(eth1) -> lan :: Classifier(12/0800, 12/86dd, -);
lan[0] -> Strip(14) -> CheckIPHeader -> GREEncap(\<0000 0800>, 192.0.2.1, 192.0.2.2) -> wan :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2);
lan[1] -> Strip(14) -> CheckIP6Header -> GREEncap(\<0000 86dd>, 192.0.2.1, 192.0.2.2) -> wan;
lan[2] -> Discard;
wan -> Queue(256) -> ToDevice(eth0);

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> IPClassifier(ip proto 47 and src host 192.0.2.2) -> d :: GREDecap;
out :: Queue(256) -> ToDevice(eth1);
d[0] -> EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2) -> out;
d[1] -> EtherEncap(0x86dd, 2:0:0:0:1:1, 2:0:0:0:1:2) -> out;
d[2] -> unknown :: Counter -> Discard;
