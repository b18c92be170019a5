// A device for experiments: packets pass from one side to the other and are not looked at (Egi et al., CoNEXT 2008, section 2.1). It makes
// its traffic itself, of 64 flows, as much as GBPS gigabits a second on lines can have (L1) of frames of SIZE bytes without FCS.
//
// Run:     valiant bench run experiments/conext08-figures2-4.toml
// Expect:  out.packets grows; nothing is dropped.

define($GBPS 12, $SIZE 60);

MeasureSource(RATE ${GBPS}Gbps-l1, SIZE $SIZE, FLOWS 64, CATCHUP 100us) -> in :: Unqueue(BURST 32)
	-> out :: Counter -> Discard;
