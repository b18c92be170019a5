elementclass X {
  a :: Null -> Discard;
  -> a;
  [1] -> b :: Null -> [1];
  b -> [2], [3];
  -> a [1] -> ;
}
Idle -> X
