// The IP router of a network of guests, behind another router: one of the virtual routers in conf/virtual-routers.toml, which
// sets DEV0, MAC0, DEV1 and MAC1. Alone it is an ordinary router.
//
// Run:     valiant run conf/vr-green.click DEV0=ens1f0 DEV1=ens1f1 MAC0=... MAC1=...
// Expect:  192.168.30.1 and 10.20.30.2 answer ping; guests that use it as their gateway send through 10.20.30.1, together at
//          most 10,000 packets in a second: more wait, and then are dropped at patience.

define(
  $DEV0 eth0, $IP0 192.168.30.1, $NET0 192.168.30.0/24, $BCAST0 192.168.30.255, $MAC0 02:00:00:00:30:00,
  $DEV1 eth1, $IP1 10.20.30.2, $NET1 10.20.30.0/30, $BCAST1 10.20.30.3, $MAC1 02:00:00:00:30:01, $UPLINK 10.20.30.1
);

// One interface. Input: packets to send, with the next hop in the destination annotation. Output: packets to route.
elementclass Interface { $dev, $ip, $mac |
  FromDevice($dev) -> HostEtherFilter($mac)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  out :: Queue(1000) -> ToDevice($dev);

  kind[0] -> ARPResponder($ip $mac) -> out;
  kind[1] -> [1]arp :: ARPQuerier($ip, $mac) -> out;
  kind[2] -> Strip(14) -> output;
  kind[3] -> Discard;

  input -> DropBroadcasts -> FixIPSrc($ip) -> ttl :: DecIPTTL -> fragment :: IPFragmenter(1500) -> [0]arp;
  ttl[1] -> ICMPError($ip, timeexceeded) -> output;
  fragment[1] -> ICMPError($ip, unreachable, needfrag) -> output;
}

guests :: Interface($DEV0, $IP0, $MAC0);
up :: Interface($DEV1, $IP1, $MAC1);

guests, up -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 $BCAST0 $BCAST1)
  -> GetIPAddress(16)
  -> rt :: RadixIPLookup(
       $IP0/32 0, $IP1/32 0,
       $BCAST0/32 3, $BCAST1/32 3, 255.255.255.255/32 3, 127.0.0.0/8 3, 224.0.0.0/3 3,
       $NET0 1, $NET1 2,
       0.0.0.0/0 $UPLINK 2);

rt[0] -> local :: IPClassifier(icmp type echo, -);
local[0] -> ICMPPingResponder -> rt;
local[1] -> Discard;
rt[1] -> guests;
rt[2] -> patience :: Queue(500) -> RatedUnqueue(10000) -> up;
rt[3] -> Discard;
