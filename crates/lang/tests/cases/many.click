a, b, c, d :: Idle;
a => b, c, [0,1] d;
c [0,1,2] => b, [1] b, [2] b;
c [] => [5,6,7] d;
b [0,1] => Null, Null -> d
