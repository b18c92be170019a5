// provider-bridge.click: 802.1ad. Frames of two customers, with whatever tags they have, travel through the provider's network inside
// a service tag of type 0x88a8.

elementclass Customer { $dev, $svid |
  FromDevice($dev, PROMISC true) -> VLANEncap(VLAN_ID $svid, ETHERTYPE 0x88a8) -> output;
  input -> VLANDecap(ETHERTYPE 0x88a8) -> Queue(100) -> ToDevice($dev);
}

alice :: Customer(eth1, 101);
bob :: Customer(eth2, 102);
alice, bob -> Queue(1000) -> ToDevice(eth0);

FromDevice(eth0, PROMISC true) -> s :: Classifier(12/88a8 14/0065%0fff, 12/88a8 14/0066%0fff, -);
s[0] -> alice;
s[1] -> bob;
s[2] -> Print(unknown, 18) -> Discard;
