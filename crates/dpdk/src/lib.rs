//! The safe door to DPDK: environment, ports, queues, packets.

mod anno;
mod batch;
mod mempool;
mod packet;
mod tsc;

pub use anno::{Anno, PacketType, offset};
pub use batch::Batch;
pub use mempool::Mempool;
pub use packet::{DEFAULT_DATA_ROOM, DEFAULT_HEADROOM, MAX_BUFFER, Packet, set_thread_pool};
pub use tsc::cycles;
