// twice-nat.click: two companies that both use 10.0.0.0/24 talk to each other. Each sees the other as 172.16.x.0/24; source
// and destination are both translated. Three services are known, one pattern for each.

IPRewriterPatterns(
  mail 172.16.2.1 1024-65535# 10.0.0.25 25,
  db   172.16.2.1 1024-65535# 10.0.0.54 5432,
  dns  172.16.2.1 1024-65535# 10.0.0.53 53);

tw :: IPRewriter(pattern mail 0 1, pattern db 0 1, pattern dns 0 1, drop);

FromDevice(eth0) -> Strip(14) -> CheckIPHeader
  -> a :: IPClassifier(dst host 172.16.1.25 and tcp port 25, dst host 172.16.1.54 and tcp port 5432,
                       dst host 172.16.1.53 and udp port 53, -);
a[0] -> [0] tw;
a[1] -> [1] tw;
a[2] -> [2] tw;
a[3] -> Print(refused, 20) -> Discard;

FromDevice(eth1) -> Strip(14) -> CheckIPHeader -> [3] tw;

tw[0] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(eth1);
tw[1] -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4) -> Queue -> ToDevice(eth0);
