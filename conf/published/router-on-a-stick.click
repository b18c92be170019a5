// router-on-a-stick.click: a router with one trunk port. Three VLANs meet on eth0; packets are routed between them, and frames
// leave with the tag of the VLAN that they go to. VLAN 30 is for guests, who reach nothing but the Internet (VLAN 99).

elementclass Vlan { $id, $ip, $mac |
  // input 0: tagged frames of this VLAN; input 1: IP packets to send here; output 0: IP packets to route; output 1: frames to send
  input [0] -> VLANDecap -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  tag :: VLANEncap(VLAN_ID $id) -> [1] output;
  c[0] -> ARPResponder($ip $mac) -> tag;
  c[1] -> [1] arpq :: ARPQuerier($ip, $mac) -> tag;
  c[2] -> Strip(14) -> CheckIPHeader -> Paint($id) -> [0] output;
  c[3] -> Discard;
  input [1] -> arpq;
}

v10 :: Vlan(10, 10.0.10.1, 02:00:00:00:00:10);
v30 :: Vlan(30, 10.0.30.1, 02:00:00:00:00:30);
v99 :: Vlan(99, 10.0.99.1, 02:00:00:00:00:99);

FromDevice(eth0, PROMISC true)
  -> vlans :: Classifier(12/8100 14/000a%0fff, 12/8100 14/001e%0fff, 12/8100 14/0063%0fff, -);
vlans[0] -> v10; vlans[1] -> v30; vlans[2] -> v99;
vlans[3] -> untagged :: Counter -> Discard;

rt :: RadixIPLookup(10.0.10.1/32 3, 10.0.30.1/32 3, 10.0.99.1/32 3,
                    10.0.10.0/24 0, 10.0.30.0/24 1, 10.0.99.0/24 2, 0.0.0.0/0 10.0.99.254 2);
v10, v30, v99 -> GetIPAddress(16) -> rt;

// Guests may not go to VLAN 10, nor to the router's other addresses.
rt[0] -> guest :: CheckPaint(30);
guest[0] -> denied :: Discard;
guest[1] -> DecIPTTL -> [1] v10;
rt[1] -> DecIPTTL -> [1] v30;
rt[2] -> DecIPTTL -> [1] v99;
rt[3] -> IPClassifier(icmp type echo) -> ICMPPingResponder -> rt;

trunk :: Queue(1000) -> ToDevice(eth0);
v10[1], v30[1], v99[1] -> trunk;
