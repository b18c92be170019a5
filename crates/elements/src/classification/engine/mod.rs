//! The engine of the classifying elements: it compiles their patterns, with the names and places of the
//! configuration, and runs the program over batches. The languages themselves are the crate `classify`.
//!
//! Read first: `program.rs`, which is all of it.

pub(super) mod program;
