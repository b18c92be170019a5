analyzer, x1, x2 :: Idle;
x1 -> analyzer -> x2;
c :: Idle =>
         [1] analyzer [1],
         (-> c2 :: Idle => (->), Paint(1) ->)
-> post_classification :: Idle;
x :: Idle; y :: Idle; x -> ( [0]->[0]; [1]->[1] ) => ( [0]->[0]; [1]->[1] ) -> y;
