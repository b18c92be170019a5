//! Which buckets of an indirection table should go to another worker, so that all workers have as many
//! packets.
//!
//! **What it is.** A [`Policy`] gets, interval by interval, the packets of each bucket and the worker that
//! has it, and says which buckets are to move, or why none is. As RSS++ does (Barbette, Katsikas, Maguire and
//! Kostic, CoNEXT 2019), it makes the sum of the squared differences from the mean small with few moves: a
//! move has a price, and is made only if what it saves is worth more.
//!
//! **When nothing moves.** Flows of similar size are even enough without moves, and what differs then is
//! chance: a difference counts only if it is larger than chance makes it and lasts for two intervals. A
//! bucket is never divided: what one large flow alone has above the mean cannot be moved away, and is no
//! reason for moves. If no worker is busy, nobody would gain. After moves the policy waits, longer each time
//! if the load keeps changing.
//!
//! **How many workers.** At low load few workers have all buckets, and the others are parked: a [`Parking`]
//! says how many are needed.
//!
//! **What it must not know.** Packets, tables of ports, DPDK, clocks, I/O: the caller counts and says when an
//! interval is over.
//!
//! # Layers
//!
//! 1. `loads`: what each worker has.
//! 2. `plan`: the moves that are worth their price.
//! 3. `policy`: when to plan.
//! 4. `parking`: how many workers are needed.
#![forbid(unsafe_code)]

mod loads;
mod parking;
mod plan;
mod policy;

pub use loads::imbalance;
pub use parking::{Change, Limits, Parking, more, overload};
pub use plan::Move;
pub use policy::{Interval, Policy, Round, Settings, Stay, Verdict};
