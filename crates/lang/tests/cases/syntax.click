->Null;
a :: Idle -> ;
b :: Idle [x] -> Discard;
c :: Idle [0 -> Discard;
d ::;
e :: Idle | f :: Idle;
g :: Idle, -> Discard
} || )
$x
h => i :: Idle;
elementclass;
elementclass 5 { $a $b | }
define(x 1, $ 2, $y 3, $y 4);
require(package, library x, a b c);
