//! The engine of the classifying elements: it compiles their patterns, with the names that the configuration
//! defines, and runs the program over batches. The pattern languages are in the crate `classify`.
//!
//! Read first: `program.rs`; `flowrules.rs` has the rules of FlowClassifier, whose table is in the crate
//! `rules`.

pub(super) mod flowrules;
pub(super) mod program;
