//! The safe door to DPDK: environment, ports, queues, packets.

mod anno;
mod batch;
mod bell;
mod claim;
pub mod crash;
pub mod crypto;
mod eal;
mod error;
mod fault;
pub mod helper;
mod log;
mod mempool;
mod netdev;
mod open;
mod packet;
mod partial;
mod port;
pub mod probe;
mod queue;
pub mod rights;
mod rundir;
mod spec;
mod table;
mod topology;
mod tsc;
mod tun;
mod watch;
mod xsk;

pub use anno::{Anno, PacketType, offset};
pub use batch::Batch;
pub use bell::Bell;
pub use claim::{claim_interfaces, interface_owner};
pub use eal::{
    Eal, EalOptions, HugepageSize, Hugepages, OnNode, WorkerThread, dpdk_version, hugepage_sizes,
    set_affinity,
};
pub use error::Error;
#[cfg(any(test, feature = "testing"))]
pub use fault::Fault;
pub use log::{recent_log, set_log_sink};
pub use mempool::Mempool;
pub use netdev::{Interface, interface, interfaces};
pub use packet::{DEFAULT_DATA_ROOM, DEFAULT_HEADROOM, MAX_BUFFER, Packet, count_freed, set_thread_pool};
pub use partial::complete_partial_checksums;
pub use port::{Link, Method, Port, PortConfig, PortKind, PortState, PortStats};
pub use queue::{RxQueue, TxQueue};
pub use spec::PortSpec;
pub use table::{PortTable, all_ports, open};
pub use topology::{Seat, Topology};
pub use tsc::cycles;
pub use tun::{Tun, TunConfig, TunMode, TunStats};
