//! What the tests of several files of the section need.

pub(super) mod testfile;
