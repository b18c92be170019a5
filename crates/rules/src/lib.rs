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
//! 3. `syntax`, `headers`, `reference`, `verdict`, `ports`, `expand`: rules as text; the fields of a packet;
//!    the plain table; what a rule does, in two words; ranges of ports; other ranges as prefixes.
//! 4. `tuple`, `coarse`, `bits`, `counters`, `lists`, `slab`: rules that look at the same bits; which bits
//!    these are; few rules of any kind; what rules have counted; lists of actions; values at numbers.
//! 5. `columns`, `tree`: the bits that some rules look at, side by side; decision trees for rules that stay.
//! 6. `chains`, `kept`: which groups are looked up together; what the writer knows of rules with one mask and
//!    of a hash table.
//! 7. `reader`, `control`, `table`: what readers have; the writer's side; both together, in versions.
#![forbid(unsafe_code)]

mod bits;
mod chains;
mod coarse;
mod columns;
mod control;
mod counters;
mod expand;
pub mod headers;
mod kept;
mod key;
mod lists;
mod ports;
mod reader;
mod reference;
mod rule;
mod slab;
pub mod syntax;
mod table;
mod tree;
mod tuple;
mod verdict;

pub use control::{Refused, Tuning};
pub use expand::MOST_PREFIXES;
pub use key::{Field, Key, Layer, WORDS};
pub use reader::{Hit, Reader, View};
pub use reference::Reference;
pub use rule::{Action, Pattern, Range, Rule};
pub use table::Table;
pub use verdict::{Fate, Verdict};
