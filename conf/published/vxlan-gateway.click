// vxlan-gateway.click: a VXLAN tunnel end point (RFC 7348) for two virtual networks, from general-purpose elements. Each network has
// an Ethernet interface here, and the other end point is fixed.

define($LOCAL 10.255.0.1, $REMOTE 10.255.0.2);

// Input: payload of UDP port 4789. Output 0: IP packets to the other end; output 1: payload of other networks.
elementclass Vnet { $dev, $header, $match |
  FromDevice($dev, PROMISC true) -> Unstrip(8) -> StoreData(0, $header)
    -> UDPIPEncap($LOCAL, 49152, $REMOTE, 4789, CHECKSUM false) -> [0] output;
  input -> c :: Classifier($match, -);
  c[0] -> Strip(8) -> Queue(200) -> ToDevice($dev);
  c[1] -> [1] output;
}

red :: Vnet(eth1, \<08000000 00006400>, 0/08%08 4/000064);
blue :: Vnet(eth2, \<08000000 0000c800>, 0/08%08 4/0000c8);

red[0], blue[0] -> EtherEncap(0x0800, 02:00:00:00:ff:01, 02:00:00:00:ff:02) -> Queue(1000) -> ToDevice(eth0);

FromDevice(eth0) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
  -> IPClassifier(src host $REMOTE and dst host $LOCAL and dst udp port 4789)
  -> Strip(28) -> red;
red[1] -> blue;
blue[1] -> nobody :: Counter -> Discard;
