//! What limits a running router, from readings of its counters.
//!
//! A [`Reading`] is what the handler `load.json` of a router says. Two or more of them make an [`Interval`]:
//! what each worker, element, port and pool did between the first and the last. [`Diagnosis::of`] finds what
//! limits the router in it, with the numbers that show it and what to change. Nothing here connects to a
//! router, reads a clock or knows a class of elements.
//!
//! # Layers
//!
//! From bottom to top; a module uses its own layer and those before it, which `make test` checks.
//!
//! 1. `reading`: the handler's JSON.
//! 2. `interval`: the difference between readings.
//! 3. `finding`, `words`: a limit, its evidence, and what to change; numbers for people.
//! 4. `losses`, `workers`, `waiting`: the rules, by what they look at.
//! 5. `busy`: workers that are busy all the time, and why.
//! 6. `verdict`: the finding that counts, and the others.
//! 7. `report`: as text and as JSON.
#![forbid(unsafe_code)]

mod busy;
mod finding;
mod interval;
mod losses;
mod reading;
mod report;
mod verdict;
mod waiting;
mod words;
mod workers;

pub use finding::{Finding, Kind};
pub use interval::{Interval, NotComparable};
pub use reading::Reading;
pub use verdict::Diagnosis;

#[cfg(test)]
mod tests;
