//! Rules for packets, in the syntax of testpmd's flow commands, and a classifier for many of them.
//!
//! **What it is.** A [`Rule`] has a match, a priority, a group and actions, with the semantics of DPDK's
//! rte_flow. Rules are read from text and printed as text ([`syntax`]), a packet's headers become a [`Key`]
//! ([`headers`]), and a table finds the rule of a key: [`Reference`] looks at one rule after the other, and
//! says what is right; [`Table`] is for very many rules that change while packets flow.
//!
//! **What it must not know.** Elements, ports, DPDK, clocks: a packet is a slice of bytes.
//!
//! # Layers
//!
//! 1. `key`: the fields that rules match on.
//! 2. `rule`: a rule.
//! 3. `syntax`, `headers`, `reference`, `verdict`, `expand`: rules as text; the fields of a packet; the plain
//!    table; what a rule does, in two words; ranges as prefixes.
//! 4. `tuple`, `counters`: the rules that look at the same bits; what rules have counted.
//! 5. `table`: all of them, in versions.
#![forbid(unsafe_code)]

mod counters;
mod expand;
pub mod headers;
mod key;
mod reference;
mod rule;
pub mod syntax;
mod table;
mod tuple;
mod verdict;

pub use key::{Field, Key, Layer, WORDS};
pub use reference::Reference;
pub use rule::{Action, Pattern, Range, Rule};
pub use table::{Hit, Reader, Refused, Table, View};
pub use verdict::{Fate, Verdict};
