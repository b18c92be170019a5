//! The engine of the classifying elements: it compiles their patterns, with the names that the configuration
//! defines, and runs the program over batches. The pattern languages are in the crate `classify`.
//!
//! Read first: `program.rs`.

pub(super) mod program;
