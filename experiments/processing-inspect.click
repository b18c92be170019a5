// A device for experiments: all bytes of the payload are read (the checksum of UDP), and those at its beginning compared with eight
// signatures, none of which matches (RouteBricks, section 8). It makes its traffic itself, UDP packets of SIZE bytes without FCS.
//
// Run:     valiant bench run experiments/routebricks-processing.toml
// Expect:  out.packets grows; nothing is dropped.
// Note:    a search for a text anywhere in the payload would be an element of its own; there is none.

define($SIZE 60);

FastUDPSource(0, -1, $SIZE, 2:0:0:0:0:1, 198.18.0.1, 1024, 2:0:0:0:0:2, 198.19.0.1, 2000) -> in :: Unqueue(BURST 32)
	-> MarkIPHeader(14)
	-> CheckUDPHeader
	-> signatures :: Classifier(42/04010101, 42/474554, 42/504f5354, 42/7f454c46, 42/4d5a, 42/25504446, 42/ffd8ffe0, 42/504b0304, -);
signatures [0], signatures [1], signatures [2], signatures [3], signatures [4], signatures [5], signatures [6], signatures [7] -> Discard;
signatures [8] -> out :: Counter -> Discard;
