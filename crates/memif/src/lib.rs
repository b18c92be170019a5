//! One side of memif, a packet interface between two processes by shared memory
//! (<https://s3-docs.fd.io/vpp/24.02/interfacing/libmemif/>), for a peer that is not trusted.
//!
//! This side is the *client*: it makes the memory and says where rings and buffers are in it. The peer, the
//! *server*, is any implementation, as DPDK's driver `net_memif`. Frames are copied into the memory and out
//! of it.
//!
//! # What a hostile peer can do
//!
//! It can write whatever it likes anywhere into the memory, at any time. So nothing is taken from there that
//! decides where this side reads or writes:
//!
//! - The memory cannot be made shorter or longer (it is sealed), so that no access faults.
//! - Where rings and buffers are is computed from the [`Layout`]. What descriptors say of regions and
//!   offsets is written for the peer, and never read.
//! - Of a ring's two positions, the own one is kept outside of the memory. The peer's is read once in a
//!   burst, and must lie between where it was and the own one; else the peer is broken ([`Broken`]).
//! - The length of a frame is read once, and must fit a buffer.
//! - A frame is copied before anyone looks at it.
//!
//! The peer can still send nothing, or frames with any content, and not take what it is sent: then there is
//! no room.
//!
//! # Layers
//!
//! 1. `layout`, `lines`: where everything is in the memory, and how it is written past the caches.
//! 2. `region`: the memory.
//! 3. `ring`: sending and receiving.
//! 4. `control`: the messages by which the peer gets the memory.
//!
//! `unsafe` is in `lines` and `region` alone.

mod control;
mod layout;
mod lines;
mod region;
mod ring;

pub use control::{Connection, connect};
pub use layout::{BUFFER, Layout};
pub use region::Region;
pub use ring::{Broken, Receiver, Sender};
