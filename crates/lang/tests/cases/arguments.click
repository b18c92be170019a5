elementclass Two { $a, $b | input -> output }
elementclass Key { COUNT $count | input -> output }
elementclass Over { $a | input -> output || $a, $b | input -> output || COUNT $n, __REST__ $r | input -> Discard }
elementclass Bad { COUNT $a, $b | }
elementclass Bad2 { $a, $a, K $b, K $c, __REST__ $r, L $l | define($a 1) }
Idle -> Two(1) -> Two(1, 2, 3) -> Key(1) -> Key -> Key(COUNT 3) -> Discard;
Idle -> Over(1, 2, 3) -> Over -> Discard;
Idle -> Over(COUNT 1, 2);
elementclass None { ... }
elementclass NoBase { -> || ... }
