define($a 2, $l "A B C");
elementclass Foo {
   $a | input -> Print("$a") -> Print("${a[0]}") -> Print("${a[2]}") -> Print("${a[3]}") -> output
}
elementclass Bar { $a, $n | input -> Print("${a[$n]}") -> output }
elementclass Baz { $a | input -> Bar(${a[1]} ${a[0]}, ${a[2]}) -> output }
Idle -> Foo(A B C) -> Bar(D E F, 2) -> Baz(G H 1) -> Baz(I J 0) -> Discard;
Message($a ${a}b ${nope-5} ${nope} '$a' "$q" $unset);
define($q say "x");
elementclass Scoped { define($a inner); Message($a $outer) }
Scoped;
define($outer 1);
