// nat-address-pool.click: a carrier's NAT. Customers of 100.64.0.0/10 (RFC 6598) share four addresses; a customer always
// gets the same one, because the address is chosen by a hash of the source.

pool :: SourceIPHashMapper(6 0xbadbeef,
  203.0.113.1 1024-65535# - - 0 1 1,
  203.0.113.2 1024-65535# - - 0 1 2,
  203.0.113.3 1024-65535# - - 0 1 3,
  203.0.113.4 1024-65535# - - 0 1 4);

cgn :: IPRewriter(pool, drop, UDP_TIMEOUT 60, TCP_TIMEOUT 3600, MAPPING_CAPACITY 100000);

elementclass Access { $dev |
  FromDevice($dev) -> MarkMACHeader -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader(OFFSET 0) -> output;
}
elementclass Egress { $dev, $src, $dst |
  input -> EtherEncap(0x0800, $src, $dst) -> Queue(1024) -> ToDevice($dev);
}

Access(eth2) -> IPFilter(allow src net 100.64.0.0/10 && (tcp || udp), deny all) -> [0] cgn;
Access(eth3) -> IPFilter(allow dst net 203.0.113.0/29, deny all) -> [1] cgn;
cgn[0] -> Egress(eth3, 2:0:0:0:3:1, 2:0:0:0:3:2);
cgn[1] -> Egress(eth2, 2:0:0:0:2:1, 2:0:0:0:2:2);
