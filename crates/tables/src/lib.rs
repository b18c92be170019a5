//! Route lookup, flow tables, rings and hashing.
//!
//! - [`Lpm`]: IPv4 longest prefix match, looked up in vectors while it is changed.
//!
//! # What is absent
//!
//! This crate does no I/O and never reads a clock: callers pass the time in. `unsafe` is denied but in two modules that
//! are read as a whole: `mem` (zeroed pages from the kernel) and `ring` (slots that change hands).
#![deny(unsafe_code)]

mod epoch;
pub mod lpm;
#[allow(unsafe_code)]
mod mem;
pub mod prefix;
mod sync;

pub use lpm::{Lpm, LpmError, LpmReader, NO_ROUTE};
pub use prefix::Prefix;
