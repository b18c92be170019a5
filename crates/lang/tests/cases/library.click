require(library lib.click, package extra, "library" lib.click);
require(library missing.click);
Idle -> FromLib -> Discard;
{ require(library lib.click) } -> Discard;
