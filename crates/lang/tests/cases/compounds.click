compound :: {
  input -> X :: Null -> output;
  input [1] -> y :: Paint(1) -> [1] output;
};
a, b, c, d :: Idle;
a -> compound -> b;
c -> [1] compound [1] -> d;
a -> { -> Counter -> } -> { input -> output } -> d;
elementclass MyQueue { $cap, RATE $rate |
  define($twice "$cap$cap");
  input -> q :: Queue($cap) -> inner :: { input -> Shaper($rate, ${twice}) -> output } -> output
}
a -> MyQueue(10, RATE 20) -> b;
elementclass Queue { -> Counter -> Queue -> }
a -> Queue -> b;
elementclass Q2 Queue;
a -> q2 :: Q2 -> b;
