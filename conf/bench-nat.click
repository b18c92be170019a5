// Translation of addresses for benchmarks: packets of known flows, in both directions, and new flows beside them if wanted.
//
// Run:     scripts/bench-nat, which makes the packets
// Expect:  each packet leaves with another source or destination; with CHURN, so many new flows a second are made and removed,
//          or with WHERE=1 their packets are discarded.
// Counters: in.count, out.count, the handlers size, mapping_failures and memory of nat.

define($IN "net_null0,size=60", $OUT "net_null1,size=60,no-rx=1", $CHURN false, $PART 83333, $WHERE 0);

in :: FromDPDKDevice($IN)
	-> Strip(14)
	-> CheckIPHeader
	-> nat :: IPRewriter(pattern 192.0.2.1 - - - 0 1, pattern - - 192.0.2.2 - 2 2, MAPPING_CAPACITY 8388608, UDP_TIMEOUT 8)
	-> encap :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
	-> out :: ToDPDKDevice($OUT);
nat [1] -> encap;

// Six parts of a million flows each: a flow comes again after twelve seconds, when it has been removed (after nine to eleven),
// and each packet begins a flow. About 32 packets come at a time, as from a device.
elementclass New { $NET |
	MeasureSource(RATE $PART, FLOWS 1048576, SRC $NET, DST 203.0.113.9, SPORT 1024-65535, RANDOM true, UNIQUE true, ACTIVE $CHURN)
		-> TimedUnqueue(384us, 64) -> Strip(14) -> CheckIPHeader -> output
}
// What the packets of new flows cost by themselves is measured with those that nat never sees.
new :: StaticSwitch($WHERE) -> [1] nat;
nat [2] -> gone :: Counter -> Discard;
new [1] -> gone;
New(172.16.0.0/16) -> new;
New(172.17.0.0/16) -> new;
New(172.18.0.0/16) -> new;
New(172.19.0.0/16) -> new;
New(172.20.0.0/16) -> new;
New(172.21.0.0/16) -> new;
