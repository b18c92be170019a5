# 100 "foobar.click"
m :: Mesage("test");
# 7
n :: Mesage(
# 20 "other.click"
x);
o :: Mesage;
#line 2 ""
p :: Mesage;
# bad
