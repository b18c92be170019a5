//! The safe interface to DPDK: EAL, ports, queues, packets.
//!
//! # Layers
//!
//! From bottom to top; a module uses its own layer and those before it, which `make test` checks.
//!
//! 1. `error`, `fault`, `log`, `tsc`, `sum`, `rundir`, `spec`, `anno`, `buffer`, `status`, `needs`: errors,
//!    log, names and counters; buffer sizes; what a port is and what its users need of it.
//! 2. `prefault`, `prefetch`, `eal`, `mempool`, `packet`, `batch`, `partial`, `segment`, `worker`, `bell`:
//!    the environment, buffers, packets, and the threads that handle them.
//! 3. `bpf`, `assembler`, `fanout`: BPF programs in the kernel, for what an interface receives.
//! 4. `claim`, `netdev`, `ingress`, `division`, `steering`, `packetsocket`, `rights`, `watch`, `xsk`: the
//!    kernel's side: interfaces, sockets, the rights of this process, link events.
//! 5. `removal`, `lent`, `virtualport`, `memifport`, `open`, `port`, `flow`, `queue`, `table`: ports, from
//!    the device to the table of all that are open; devices that are unplugged; flow rules that devices carry
//!    out.
//! 6. `netns`, `crypto`, `tundevice`, `descriptor`, `helper`, `tun`: work in another network namespace;
//!    crypto devices; TUN and TAP devices, opened by the helper if rights are given up; descriptors that pass
//!    between processes.
//! 7. `topology`, `probe`, `nic`, `crash`: what the machine offers; what a port offers; crash reports.

mod anno;
mod assembler;
mod batch;
mod bell;
mod bpf;
mod buffer;
mod claim;
pub mod crash;
pub mod crypto;
pub mod descriptor;
pub mod division;
mod eal;
mod error;
mod fanout;
mod fault;
pub mod flow;
pub mod helper;
mod ingress;
mod lent;
mod log;
mod memifport;
mod mempool;
mod needs;
mod netdev;
mod netns;
pub mod nic;
mod open;
mod packet;
mod packetsocket;
mod partial;
mod port;
mod prefault;
mod prefetch;
pub mod probe;
mod queue;
mod removal;
pub mod rights;
mod rundir;
mod segment;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;
mod spec;
mod status;
mod steering;
mod sum;
mod table;
mod topology;
mod tsc;
mod tun;
mod tundevice;
mod virtualport;
mod watch;
mod worker;
mod xsk;

pub use anno::{Anno, PacketType, offset};
pub use batch::Batch;
pub use bell::Bell;
pub use buffer::{DEFAULT_DATA_ROOM, DEFAULT_HEADROOM, MAX_BUFFER};
pub use claim::{claim_interfaces, interface_owner};
pub use eal::{
    Eal, EalOptions, HugepageSize, Hugepages, OnNode, cpu_list, dpdk_version, hugepage_sizes,
    run_before_others, set_affinity, set_worker_cpus,
};
pub use error::Error;
pub use fanout::{SteerRule, SteerTag};
#[cfg(any(test, feature = "testing"))]
pub use fault::Fault;
pub use lent::{Sink, Source};
pub use log::{LogLevel, LogLine, recent_log, set_log_sink};
pub use memifport::MemifPort;
pub use mempool::Mempool;
pub use needs::{Method, PortConfig};
pub use netdev::{Interface, firmware, interface, interfaces};
pub use packet::{KeptPacket, Packet, count_freed, set_thread_pool};
pub use partial::complete_partial_checksums;
pub use port::Port;
pub use prefetch::prefetch;
pub use queue::{Returned, RxQueue, TxQueue};
pub use spec::PortSpec;
pub use status::{Link, PortKind, PortState, PortStats};
pub use table::{PortTable, all_ports, capabilities_in_use, open};
pub use topology::{Seat, Topology};
pub use tsc::{cycles, cycles_per_second};
pub use tun::{Tun, TunStats};
pub use tundevice::{TunConfig, TunMode};
pub use virtualport::{Queues, VirtualPort, VirtualQueues};
pub use worker::WorkerThread;
