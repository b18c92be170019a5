//! Route lookup, flow tables, rings and hashing.
//!
//! **What it is.** The data structures that workers share or use for every packet:
//!
//! - [`Lpm`]: IPv4 longest prefix match, looked up in batches while it is changed.
//! - [`Lpm6`]: the same for IPv6.
//! - [`ring`]: bounded lock-free rings between threads.
//! - [`ExactMap`]: a bounded hash table whose entries age.
//! - [`flows`]: flows of packets in both directions, found by all workers without a lock.
//! - [`toeplitz`]: the hash of receive-side scaling.
//! - [`maglev`]: which of several servers a flow goes to, by consistent hashing.
//! - [`epoch`]: when memory that readers may still use can be used again.
//!
//! **What it must not know.** Packets, elements, I/O, clocks: callers pass the time in. `unsafe` is denied
//! except in six small modules: `mem` (zeroed pages from the kernel), `huge` (slices in huge pages),
//! `gather`, `search` and `lpm6::runs` (wide instructions) and `ring` (slots that are passed between
//! threads).
//!
//! **Read first.** `lpm.rs`: how a route table is looked up in batches while one writer changes it.
//! `epoch.rs` explains when memory that readers may still use can be reused, and `sync.rs` how loom checks
//! that.
#![deny(unsafe_code)]

pub mod epoch;
pub mod exact;
pub mod flows;
#[allow(unsafe_code, reason = "wide instructions, and loads whose indices fit the table")]
mod gather;
#[allow(unsafe_code, reason = "memory of its own, aligned to a huge page")]
mod huge;
pub mod lpm;
pub mod lpm6;
pub mod maglev;
#[allow(unsafe_code, reason = "memory by mmap that is zero until it is touched")]
mod mem;
pub mod prefix;
pub mod prefix6;
#[allow(unsafe_code, reason = "slots that one side alone reads or writes at a time")]
pub mod ring;
#[allow(unsafe_code, reason = "wide instructions, and loads whose indices fit the table")]
mod search;
mod seed;
mod sync;
pub mod toeplitz;

pub use exact::{Displaced, ExactMap};
pub use gather::Kernel;
pub use huge::Huge;
pub use lpm::{Lpm, LpmError, LpmReader, NO_ROUTE};
pub use lpm6::{Lpm6, Lpm6Reader};
pub use prefix::Prefix;
pub use prefix6::Prefix6;
pub use ring::Ring;
pub use toeplitz::Toeplitz;
