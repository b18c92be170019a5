// A device for experiments: as conext08-forward.click, with the look-up of a route and a lower TTL for each packet (Egi et al., CoNEXT
// 2008, section 2.1).
//
// Run:     valiant bench run experiments/conext08-figures2-4.toml
// Expect:  out.packets grows; nothing is dropped.

define($GBPS 12, $SIZE 60);

MeasureSource(RATE ${GBPS}Gbps-l1, SIZE $SIZE, FLOWS 64, CATCHUP 100us) -> in :: Unqueue(BURST 32)
	-> Strip(14)
	-> CheckIPHeader
	-> LookupIPRoute(0.0.0.0/0 0, 10.0.0.0/8 0, 10.1.0.0/16 0, 10.1.2.0/24 0, 192.168.0.0/16 0, 198.18.0.0/15 0)
	-> DecIPTTL
	-> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: Counter -> Discard;
