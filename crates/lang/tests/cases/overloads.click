require(compact_config)
elementclass Foo {
   $a, $b | input -> Print(1) -> output
|| $a, __REST__ $b | input -> Print(2, $b) -> output
|| $a, TWO $b, __REST__ $c | input -> Print(3) -> output
}
InfiniteSource(DATA "", LIMIT 1, STOP true)
  -> Foo(A)
  -> f::Foo(A, TWO B)
elementclass Foo {
   $a, $b | input -> Print(4) -> output
|| ...
}
f -> Foo(A, B) -> Foo(A, B, C) -> Discard;
elementclass Queue { $cap, $rate | input -> Queue($cap) -> Shaper($rate) -> output || ... }
Idle -> Queue(1, 2) -> Queue(3) -> Queue -> Discard
