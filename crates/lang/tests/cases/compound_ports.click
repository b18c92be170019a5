elementclass Gap { input -> Null -> output; input [2] -> Discard }
elementclass Wrong { Null -> input; output -> Null }
elementclass Two { input -> output; input [1] -> [1] output }
i :: Idle; d :: Discard;
i -> Two -> d;
i -> t :: Two; t [1] -> d; i -> [2] t;
u :: Two;
i -> ( [0] -> [0]; [2] -> Discard ) -> d;
i => [0] ( [0] -> [0]; [1] -> Discard ) -> d;
loop :: { -> }; loop -> loop;
