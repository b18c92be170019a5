//! The engine of device elements: both sides of a DPDK port, and Linux's TUN and TAP devices.
//!
//! Read first: `rx.rs`, the receiving side of a port; then `tx.rs`, the sending side, and `exchange.rs`, the
//! rings over which the receiving side passes packets between workers. How workers share transmit queues is
//! in `sharing.rs`, `member.rs` (what each does), `line.rs` (what goes from worker to worker) and `owners.rs`
//! (who should have a queue).
//! `indirection.rs` is the table by which flows are spread in software, `devicetable.rs` that of a device
//! which spreads them; `rebalancer.rs` and `parker.rs` change them while packets flow. `portrules.rs` has the
//! flow rules in front of a port, `hardware.rs` those that its device carries out. `host.rs` is for Linux's
//! TUN and TAP devices, `socket.rs` for sockets.

pub(super) mod arguments;
mod batches;
mod buckets;
mod devicecontrol;
mod devicemoves;
mod devicetable;
mod division;
mod doze;
mod exchange;
mod flowkey;
mod handover;
pub(super) mod hardware;
mod history;
pub(super) mod host;
mod indirection;
pub(super) mod kernel;
mod line;
mod member;
pub(super) mod namedring;
mod owners;
mod packettype;
mod parker;
mod parkstate;
mod pause;
pub(super) mod port;
pub(super) mod portrules;
mod prefixsteer;
pub(super) mod queues;
mod rebalancer;
pub(super) mod receives;
mod reta;
pub(crate) mod rss;
pub(super) mod rx;
pub(super) mod screen;
mod sharing;
pub(super) mod socket;
mod spread;
mod steering;
pub(super) mod tx;
mod watch;
