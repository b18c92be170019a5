// A department's IP router with a line to the provider and a network of guests behind another router: one of the virtual
// routers in conf/virtual-routers.toml, which sets DEV0, MAC0, DEV1, MAC1, GUESTS, GUESTS_MAC and UPLINK. Alone it is an ordinary
// router.
//
// Run:     valiant run conf/vr-red.click DEV0=ens1f0 DEV1=ens1f1 GUESTS=ens1f2 MAC0=... MAC1=... GUESTS_MAC=...
// Expect:  192.168.20.1 answers ping; hosts in 192.168.20.0/24 and guests in 192.168.30.0/24 reach the provider, and guests
//          do not reach the department: what they send there is counted at refused.

define(
  $DEV0 eth0, $IP0 203.0.113.5, $NET0 203.0.113.4/30, $BCAST0 203.0.113.7, $MAC0 02:00:00:00:20:00, $UPLINK 203.0.113.6,
  $DEV1 eth1, $IP1 192.168.20.1, $NET1 192.168.20.0/24, $BCAST1 192.168.20.255, $MAC1 02:00:00:00:20:01,
  $GUESTS eth2, $IP2 10.20.30.1, $NET2 10.20.30.0/30, $BCAST2 10.20.30.3, $GUESTS_MAC 02:00:00:00:20:02,
  $GREEN 10.20.30.2, $GUESTNET 192.168.30.0/24
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
guests :: Interface($GUESTS, $IP2, $GUESTS_MAC);

wan, lan -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 $BCAST0 $BCAST1 $BCAST2)
  -> to :: GetIPAddress(16)
  -> rt :: RadixIPLookup(
       $IP0/32 0, $IP1/32 0, $IP2/32 0,
       $BCAST0/32 4, $BCAST1/32 4, $BCAST2/32 4, 255.255.255.255/32 4, 127.0.0.0/8 4, 224.0.0.0/3 4,
       $NET0 1, $NET1 2, $NET2 3,
       $GUESTNET $GREEN 3,
       0.0.0.0/0 $UPLINK 1);

guests -> CheckIPHeader(BADSRC 0.0.0.0 127.0.0.1 255.255.255.255 $BCAST0 $BCAST1 $BCAST2)
  -> visitors :: IPClassifier(dst net $NET1, -);
visitors[0] -> refused :: Counter -> Discard;
visitors[1] -> to;

rt[0] -> local :: IPClassifier(icmp type echo, -);
local[0] -> ICMPPingResponder -> rt;
local[1] -> Discard;
rt[1] -> wan;
rt[2] -> lan;
rt[3] -> guests;
rt[4] -> Discard;
