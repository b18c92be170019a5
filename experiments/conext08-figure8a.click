// A device for experiments: two paths, all of both on one worker
// (Egi et al., CoNEXT 2008, Figure 8 (a)).
//
// Run:     valiant bench run experiments/conext08-figure8.toml
// Expect:  path0/out.packets and path1/out.packets grow.
// Note:    conext08-path.click has the path.

require(library conext08-path.click);
path0 :: Path(0, 2);
path1 :: Path(1, 3);
StaticThreadSched(path0/in 0, path0/send 0, path1/in 0, path1/send 0);
