// An IPsec gateway: what goes to the other site leaves encrypted in a tunnel, what comes out of the tunnel is checked and
// goes to the hosts here. The third application of the RouteBricks paper (section 5), with another such gateway as its peer.
//
// Run:     valiant run conf/ipsec.click INSIDE=eth0 OUTSIDE=eth1 SAD="FILE here.sad" ...
//          where here.sad holds two lines (`valiant element IPsecSAD` explains them; make keys of your own, 20 random
//          bytes: openssl rand -hex 20), and the peer has the same with `in` and `out` exchanged:
//              out 0x1001 192.0.2.1 192.0.2.2 aes-gcm KEY
//              in  0x1002 192.0.2.2 192.0.2.1 aes-gcm KEY from 10.2.0.0/24 to 10.1.0.0/24
//          The peer runs with INSIDE_IP, INSIDE_NET, OUTSIDE_IP and FAR_NET exchanged likewise, and SPI=0x1002. The file is
//          for its owner only (chmod 600).
// Expect:  hosts of the two sites reach each other with this gateway as their router; between the gateways there is only ESP.
//          `from` and `to` are what the peer may send: with several peers, each has an `in` line with the `from` of its own
//          site, and none can send in another one's name (RFC 4301 section 5.2). FAR_NET is then what all sites lie in.
// Counters: encrypt.count, decrypt.count, decrypt.drops, sad.table.
// Note:    keys come from the file or over a control socket (sad.add), never from this text.

define(
  $INSIDE eth0, $INSIDE_IP 10.1.0.1, $INSIDE_NET 10.1.0.0/24, $INSIDE_MAC 02:00:00:00:01:01,
  $OUTSIDE eth1, $OUTSIDE_IP 192.0.2.1, $OUTSIDE_MAC 02:00:00:00:01:02,
  $FAR_NET 10.2.0.0/24, $SPI 0x1001, $SAD CAPACITY 1024, $MTU 1420
);

sad :: IPsecSAD($SAD);

// One interface. Input: packets to send, the destination annotation holds the next hop. Output: IP packets received.
elementclass Interface { $dev, $ip, $mac |
  FromDevice($dev) -> HostEtherFilter($mac)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  out :: Queue(1000) -> ToDevice($dev);
  kind[0] -> ARPResponder($ip $mac) -> out;
  kind[1] -> [1]arp :: ARPQuerier($ip, $mac) -> out;
  kind[2] -> Strip(14) -> CheckIPHeader -> output;
  kind[3] -> Discard;
  input -> [0]arp;
}

inside :: Interface($INSIDE, $INSIDE_IP, $INSIDE_MAC);
outside :: Interface($OUTSIDE, $OUTSIDE_IP, $OUTSIDE_MAC);

// From here to there.
inside -> there :: IPClassifier(src net $INSIDE_NET and dst net $FAR_NET, -);
there[0] -> ttl :: DecIPTTL -> fit :: IPFragmenter($MTU) -> encrypt :: ESPEncap(sad, $SPI) -> outside;
there[1] -> Discard;
ttl[1] -> ICMPError($INSIDE_IP, timeexceeded) -> inside;
fit[1] -> ICMPError($INSIDE_IP, unreachable, needfrag, PMTU $MTU) -> inside;

// From there to here: nothing but what is in the tunnel, and of that nothing but what its association allows (ESPDecap) and
// what is said to come from there.
outside -> esp :: IPClassifier(dst host $OUTSIDE_IP and ip proto 50, -);
esp[0] -> IPReassembler -> decrypt :: ESPDecap(sad)
  -> CheckIPHeader -> GetIPAddress(16) -> here :: IPClassifier(src net $FAR_NET and dst net $INSIDE_NET, -);
esp[1] -> Discard;
here[0] -> DecIPTTL -> inside;
here[1] -> Discard;
