// The middle node of a cluster, for benchmarks: it moves other nodes' frames from link to link by their Ethernet addresses.
//
// Run:     scripts/bench --only 'pcap-(min|transit)', which makes a capture of internal frames and compares with dpdk-testpmd; or
//          valiant run --cpus 1 --burst 32 conf/bench-transit.click IN='"net_pcap0,rx_pcap=FILE,infinite_rx=1"', where FILE has
//          frames in their first phase for nodes 0, 2 and 3 (destinations c2:10:NODE:0:0:9)
// Expect:  nearly as many packets a second as with conf/bench-min.click if all are for node 2, as with conf/bench-min-3.click if they
//          are for three. Other frames, as net_null's, are dropped.
// Counters: in.count, out.count (to node 2), out0.count, out3.count, cluster.matrix, the global handlers cycles and drops.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $OUT0 "net_null2,size=60,no-rx=1",
       $OUT3 "net_null3,size=60,no-rx=1");

cluster :: ClusterInfo(NODE 1, NODES 4, RATE 100Gbps);
vlb :: ClusterSwitch(cluster);

in :: FromDPDKDevice($IN) -> [1] vlb;
Idle -> [0] vlb;
vlb [0] -> out0 :: ToDPDKDevice($OUT0);
vlb [1] -> Discard;
vlb [2] -> out :: ToDPDKDevice($OUT);
vlb [3] -> out3 :: ToDPDKDevice($OUT3);
