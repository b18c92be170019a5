// Numbers of anonymous elements: every element counts, and names in use are skipped.
Idle@3 :: Idle;
Idle -> Discard;
Idle -> Discard;
Idle@5 :: Idle;
Idle -> { Idle -> output; input -> Discard } -> Discard;
x/y :: Idle;
