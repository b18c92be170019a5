// proxy-arp.click: two halves of one IP network on two wires (RFC 1027). The router answers ARP for the hosts of the other half, and forwards
// packets without decreasing the TTL, so that nobody sees it.

elementclass Half { $dev, $mac, $mine, $other |
  FromDevice($dev) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  out :: Queue -> ToDevice($dev);
  c[0] -> ARPResponder($other $mac) -> out;
  arpq :: ARPQuerier($mine, $mac) -> out;
  c[1] -> [1] arpq;
  c[2] -> HostEtherFilter($mac) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> output;
  c[3] -> Discard;
  input -> arpq;
}

left :: Half(eth0, 02:00:00:00:00:10, 10.7.0.126, 10.7.0.128/25);
right :: Half(eth1, 02:00:00:00:00:11, 10.7.0.254, 10.7.0.0/25);
left -> IPClassifier(dst net 10.7.0.128/25) -> right;
right -> IPClassifier(dst net 10.7.0.0/25) -> left;
