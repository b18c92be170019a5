// A switch with a trunk and three access ports: frames of an access port leave the trunk with that port's VLAN tag, and
// the other way round. For hosts whose kernel knows no VLANs.
//
// Run:     valiant run conf/vlan-access.click TRUNK=eth0 PORT10=eth1 PORT20=eth2 PORT30=eth3
// Expect:  hosts behind eth1 reach what is in VLAN 10 behind eth0, and nothing else; frames of other VLANs are dropped.
// Counters: other.count: frames of the trunk without a tag or with that of another VLAN.

define($TRUNK eth0, $PORT10 eth1, $PORT20 eth2, $PORT30 eth3);

elementclass Access { $device, $vlan |
  FromDevice($device) -> VLANEncap($vlan) -> output;
  input -> VLANDecap -> Queue(1000) -> ToDevice($device);
}

p10 :: Access($PORT10, 10);
p20 :: Access($PORT20, 20);
p30 :: Access($PORT30, 30);

FromDevice($TRUNK) -> vlan :: Classifier(12/8100 14/000a%0fff, 12/8100 14/0014%0fff, 12/8100 14/001e%0fff, -);
vlan[0] -> p10;
vlan[1] -> p20;
vlan[2] -> p30;
vlan[3] -> other :: Counter -> Discard;

p10, p20, p30 -> Queue(1000) -> ToDevice($TRUNK);
