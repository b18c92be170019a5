// packet-filter.click: a bridge that filters: rules from the first to the last, as in a firewall's table. What goes to output 1 is
// logged and dropped.
// ARP passes; IPv6 does not.

elementclass Filter { $name |
  input -> c :: Classifier(12/0806, 12/0800, -);
  c[0] -> [0] output;
  c[1] -> CheckIPHeader(14) -> f :: IPFilter(
      1 src net 10.0.0.0/8 or src net 127.0.0.0/8,           // spoofed
      allow tcp opt ack,                                        // established
      allow dst host 192.0.2.25 && tcp dst port 25,
      allow dst host 192.0.2.53 && dst port 53,
      allow icmp type echo or icmp type echo-reply or icmp type unreachable,
      1 tcp dst port >= 137 and tcp dst port <= 139,
      allow src net 192.0.2.0/24,
      1 all);
  f[0] -> [0] output;
  f[1] -> IPPrint($name, TIMESTAMP false) -> dropped :: Counter -> Discard;
  c[2] -> Discard;
}

FromDevice(eth0, PROMISC true) -> in :: Filter(in) -> Queue(1000) -> ToDevice(eth1);
FromDevice(eth1, PROMISC true) -> out :: Filter(out) -> Queue(1000) -> ToDevice(eth0);
