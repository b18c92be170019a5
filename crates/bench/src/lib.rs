//! What a machine allows: its processors, caches, memory, system calls and links, as they are said to be and
//! as they are measured (RouteBricks, section 5.3 and table 2).
//!
//! Nothing here needs DPDK's environment, ports or hugepages. Times are wall-clock times of threads that are
//! bound to one processor each; on a machine that others use too, they are what is left over.
//!
//! # Layers
//!
//! 1. `figure`, `machine`: a measured number; what the system says of processors, caches and network cards.
//! 2. `memory`, `calls`: lines, streams; system calls, other threads.
//! 3. `packet`: what that means for a packet.
//! 4. `host`: all of it, as text and as JSON.
#![forbid(unsafe_code)]

mod calls;
mod figure;
mod host;
mod machine;
mod memory;
mod packet;

pub use figure::Figure;
pub use host::{Host, Options};
pub use machine::{Cache, Card, Link, Machine};
