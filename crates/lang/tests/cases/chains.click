a, b, c :: Idle;
p, q :: Null;
a, a[1] -> b -> p, q;
p -> [0]c, [1]c; q -> [2]c;
x :: Idle [1] -> [0] Null [0] -> [3] c
