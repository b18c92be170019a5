a :: Idle -> { input -> ( -> b :: Counter("unclosed) -> output };
/* never closed
c :: Idle;
