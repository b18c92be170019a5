//! Valiant's element library.
//!
//! **What it is.** The element classes that configurations use by name. Each class has one file,
//! `src/SECTION/CLASS.rs`, whose head comment is its manual. To add one, write the file and add one line to
//! the section's `mod.rs`, which has nothing else. What the classes of a section share is in
//! `src/SECTION/engine/`.
//!
//! **What it must not know.** `dpdk-sys`: it uses DPDK through the crate `dpdk` only. The runtime does not
//! know any class of this crate.
//!
//! **Read first.** `plumbing/null.rs`, the shortest element; then `ip/decipttl.rs`. `doc/elements.md` has the
//! rules, and `doc/custom-elements.md` explains the traits, also for elements outside this repository.
#![forbid(unsafe_code)]

#[macro_use]
mod manual;

mod drops;
mod flowrules;
mod hex;
mod infile;
mod lines;
mod llrpc;
mod missing;
mod outfile;
mod prelude;
mod secret;
mod splitter;

pub mod analysis;
pub mod classification;
pub mod cluster;
pub mod control;
pub mod devices;
pub mod ethernet;
pub mod files;
pub mod ip;
pub mod ip6;
pub mod ipsec;
pub mod lookup;
pub mod measure;
pub mod nat;
pub mod plumbing;
pub mod queues;
pub mod transport;

#[cfg(test)]
mod fastpath_tests;
#[cfg(test)]
mod testing;

use runtime::Registry;

/// Registers all element classes of the library.
pub fn register(registry: &mut Registry) {
    plumbing::register(registry);
    queues::register(registry);
    classification::register(registry);
    ethernet::register(registry);
    ip::register(registry);
    ip6::register(registry);
    ipsec::register(registry);
    transport::register(registry);
    cluster::register(registry);
    lookup::register(registry);
    analysis::register(registry);
    measure::register(registry);
    nat::register(registry);
    devices::register(registry);
    files::register(registry);
    control::register(registry);
    missing::register(registry);
    PACKAGES.iter().for_each(|package| registry.provide(package));
}

/// Click's packages (the directories of its elements, and what its user-level driver provides) whose elements
/// are here.
const PACKAGES: [&str; 15] = [
    "analysis",
    "app",
    "aqm",
    "click",
    "ethernet",
    "etherswitch",
    "icmp",
    "int64",
    "ip",
    "ip6",
    "standard",
    "tcpudp",
    "threads",
    "umultithread",
    "userlevel",
];

/// A registry with all element classes of the library.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    register(&mut registry);
    registry
}
