// direct-return-balancer.click: a layer 2 load balancer. All servers have the virtual address on their loopback and answer
// directly; the balancer only changes the Ethernet destination, by a hash of the client's address.

define($VIP 192.0.2.1)

elementclass Server { $mac | input -> c :: Counter -> EtherRewrite(02:00:00:00:00:aa, $mac) -> output }

FromDevice(eth0, PROMISC true)
  -> Classifier(12/0800)
  -> CheckIPHeader(14)
  -> f :: IPFilter(allow dst host $VIP, drop all)
  -> hs :: HashSwitch(29, 1);       // the last byte of the source address

s0 :: Server(02:00:00:00:01:00);
s1 :: Server(02:00:00:00:01:01);
s2 :: Server(02:00:00:00:01:02);
hs[0] -> s0; hs[1] -> s1; hs[2] -> s2;
s0, s1, s2 -> out :: ThreadSafeQueue(512) -> ToDevice(eth0);

Script(TYPE ACTIVE, wait 0.5s, print "servers: $(s0/c.count) $(s1/c.count) $(s2/c.count)");
