x :: Idle;
y :: Idle; x :: Counter;
Idle :: Counter;
elementclass A { x :: Idle; x :: Idle }
f :: { x :: Idle };
f/x :: Idle;
1 :: Idle; f/2 :: Idle;
y(config) -> Discard;
