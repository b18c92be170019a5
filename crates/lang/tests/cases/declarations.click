// Declarations in all their forms.
a :: Idle;
b, c :: Counter(COUNT_CALL 10 d.stop)
d :: Discard();
Idle;			// an anonymous element
Message("a, (b)", /* comment ) */ 'c)' \<29>);
a -> b -> c -> d
