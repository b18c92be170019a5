//! What a machine allows: its processors, caches, memory, system calls and links, as they are said to be and
//! as they are measured (RouteBricks, section 5.3 and table 2).
//!
//! Nothing here needs DPDK's environment, ports or hugepages. Times are wall-clock times of threads that are
//! bound to one processor each; on a machine that others use too, they are what is left over.
//!
//! # Layers
//!
//! 1. `figure`, `link`, `counters`, `energy`: a measured number; what a PCI Express link carries; counters of
//!    the processor for other processes (`unsafe`), and the energy that it has used.
//! 2. `machine`: what the system says of processors, caches, memory and NICs. `simulated` is one for tests.
//! 3. `memory`: lines and streams.
//! 4. `calls`, `packet`: system calls, other processors; what memory allows for a packet.
//! 5. `host`: all that is measured.
//! 6. `report`: that as text and as JSON.
#![deny(unsafe_code)]

mod calls;
#[allow(unsafe_code, reason = "a system call that no library here wraps")]
mod counters;
mod energy;
mod figure;
mod host;
mod link;
mod machine;
mod memory;
mod packet;
mod report;
#[cfg(test)]
#[path = "../../dpdk/tests/machine/mod.rs"]
mod simulated;

pub use counters::{Counters, Counts};
pub use energy::Energy;
pub use figure::Figure;
pub use host::{Host, Options};
pub use link::Link;
pub use machine::{Cache, Machine, Nic};
