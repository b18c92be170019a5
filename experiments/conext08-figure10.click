// A device for experiments: two paths, each of half of the packets of its own worker's port and half of those of the other one's with CROSS 1
// (Egi et al., CoNEXT 2008, Figures 9 (a) and 10), or of the own one's alone with CROSS 0. The two queues and their two senders are the same.
//
// Run:     valiant bench run experiments/conext08-figure10.toml
// Expect:  out0/out.packets and out1/out.packets grow; with CROSS 1 each packet costs more.

define($CROSS 1);

elementclass In { $FROM |
	from :: FromDPDKDevice("net_pcap$FROM,rx_pcap=udp64.pcap,infinite_rx=1", QUEUE 0)
		-> Strip(14)
		-> CheckIPHeader
		-> LookupIPRoute(0.0.0.0/0 0, 10.0.0.0/8 0, 10.1.0.0/16 0, 10.1.2.0/24 0, 192.168.0.0/16 0, 198.18.0.0/15 0)
		-> flows :: RoundRobinSwitch;
	flows [0] -> [0] output;
	flows [1] -> [1] output;
}

elementclass Out { $TO |
	input -> ThreadSafeQueue(1024)
		-> send :: Unqueue(BURST 64)
		-> DecIPTTL
		-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
		-> out :: ToDPDKDevice("net_null$TO,size=60,no-rx=1");
}

in0 :: In(0);
in1 :: In(1);
out0 :: Out(2);
out1 :: Out(3);
in0 [0] -> out0;
in1 [0] -> out1;
in0 [1] -> second0 :: Switch($CROSS) -> out0;
in1 [1] -> second1 :: Switch($CROSS) -> out1;
second0 [1] -> out1;
second1 [1] -> out0;
StaticThreadSched(in0/from 0, out0/send 0, in1/from 1, out1/send 1);
