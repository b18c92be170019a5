src :: InfiniteSuorce(LIMIT 3);
src -> quue -> Discrad;
src -> Queue(10) -> scr;
x :: NoSuchThingAnywhere -> Discard;
input -> Discard;
src2 -> Discard; src2 -> Discard;
