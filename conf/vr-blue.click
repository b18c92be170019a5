// A department's IP router with a line to the provider: one of the virtual routers in conf/virtual-routers.toml, which sets
// DEV0, MAC0, DEV1 and MAC1. Alone it is an ordinary router.
//
// Run:     valiant run conf/vr-blue.click DEV0=ens1f0 DEV1=ens1f1 MAC0=... MAC1=...
// Expect:  192.168.10.1 and 203.0.113.2 answer ping; hosts in 192.168.10.0/24 that use it as their gateway reach the
//          provider's 203.0.113.1 and what is behind it; traceroute names the router.

define(
  $DEV0 eth0, $IP0 203.0.113.2, $NET0 203.0.113.0/30, $BCAST0 203.0.113.3, $MAC0 02:00:00:00:10:00, $UPLINK 203.0.113.1,
  $DEV1 eth1, $IP1 192.168.10.1, $NET1 192.168.10.0/24, $BCAST1 192.168.10.255, $MAC1 02:00:00:00:10:01
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

wan :: Interface($DEV0, $IP0, $MAC0);
lan :: Interface($DEV1, $IP1, $MAC1);

wan, lan -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 $BCAST0 $BCAST1)
  -> GetIPAddress(16)
  -> rt :: RadixIPLookup(
       $IP0/32 0, $IP1/32 0,
       $BCAST0/32 3, $BCAST1/32 3, 255.255.255.255/32 3, 127.0.0.0/8 3, 224.0.0.0/3 3,
       $NET0 1, $NET1 2,
       0.0.0.0/0 $UPLINK 1);

rt[0] -> local :: IPClassifier(icmp type echo, -);
local[0] -> ICMPPingResponder -> rt;
local[1] -> Discard;
rt[1] -> wan;
rt[2] -> lan;
rt[3] -> Discard;
