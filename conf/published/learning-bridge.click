// learning-bridge.click: a three-port Ethernet bridge that learns where hosts are. Frames to the reserved group addresses of
// 802.1D are not forwarded.

define($DEV0 eth0, $DEV1 eth1, $DEV2 eth2);

elementclass Port { $dev |
  FromDevice($dev, PROMISC true) -> bpdu :: Classifier(0/0180c2000000%fffffffffff0, -);
  bpdu[0] -> Discard;
  bpdu[1] -> output;
  input -> Queue(100) -> ToDevice($dev);
}

bridge :: EtherSwitch;
p0 :: Port($DEV0); p1 :: Port($DEV1); p2 :: Port($DEV2);
p0 -> [0] bridge [0] -> p0;
p1 -> [1] bridge [1] -> p1;
p2 -> [2] bridge [2] -> p2;
