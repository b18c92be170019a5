//! Which virtual interface a frame belongs to.
//!
//! **What it is.** Several virtual routers share a physical port. A frame on it is told by its [`Tag`] (VLAN,
//! QinQ, MPLS label, VNI, or none), or by its tag and its destination address. A [`Table`], one for each
//! port, says who has claimed what; it is changed while workers use it. A [`Reader`], one for each worker,
//! splits a batch that was received by owner, and takes the tags off. An [`Encap`] puts a tag on what an
//! owner sends.
//!
//! **What it must not know.** Routers, elements, queues, I/O, clocks: an owner is a number.
//!
//! **Read first.** `tag.rs`: what can be claimed. `table.rs`: how a table is changed while it is read.
//! `split.rs`: what happens to a batch.
//!
//! # Who gets a frame
//!
//! 1. If all claims of the frame's tag have one owner, that owner gets it, whatever its destination.
//! 2. If there are several owners, the one whose claim has the frame's destination address gets it. A
//!    broadcast or multicast frame goes to each of them.
//! 3. What nobody has claimed goes to the default owner, with its tag on. Without a default owner it is
//!    dropped and counted.
//!
//! A table without claims but with a default owner hands every batch on as it is: the whole port is that
//! owner's.
//!
//! # What the tag of a frame is
//!
//! - EtherType 0x8100: the VLAN; that of VLAN 0, a frame with a priority and without a VLAN, is none.
//! - EtherType 0x88a8 (or 0x9100, or 0x8100 if any QinQ tag is claimed), then 0x8100: QinQ.
//! - EtherType 0x8847, if any label is claimed: the label, if it is the only one. A stack of labels is
//!   nobody's.
//! - A UDP datagram over IPv4 between the ends of the port's [`Tunnel`], if any VNI is claimed: the VNI.
//! - Any other frame has no tag.
//!
//! # Example
//!
//! ```
//! use demux::{Claim, Encap, Sorted, Table, Tag};
//! use dpdk::{Batch, Packet};
//!
//! let table = Table::new(); // one for each port
//! table.claim(Claim { tag: Tag::Vlan(10), mac: None }, 7)?;
//! let (mut reader, mut sorted) = (table.reader(), Sorted::new()); // one for each worker and port
//!
//! let mut received: Batch = Packet::from_bytes(&[2; 60]).into_iter().collect();
//! Encap::new(Tag::Vlan(10), None)?.put_on(&mut received);
//! reader.split(&mut received, &mut sorted);
//! for (owner, packets) in sorted.iter_mut() {
//!     assert_eq!((owner, packets.len(), packets[0].data()), (7, 1, &[2; 60][..]));
//! }
//! # Ok::<(), demux::Error>(())
//! ```
//!
//! # Layers
//!
//! 1. `tag`, `tunnel`, `lookup`: tags and claims; the addresses of a VXLAN tunnel; an exact-match table.
//! 2. `claims`, `counts`: who has claimed what, as it is looked up; frames that reached no owner.
//! 3. `frame`, `encap`: the owner of one frame, its tag taken off; a tag put on.
//! 4. `sorted`: packets by owner.
//! 5. `table`, `split`: what writer and readers share; a batch split by owner.
#![forbid(unsafe_code)]

mod claims;
mod counts;
mod encap;
mod frame;
mod lookup;
mod sorted;
mod split;
mod table;
mod tag;
mod tunnel;

pub use claims::Change;
pub use counts::Counts;
pub use encap::{Encap, Unsent};
pub use sorted::Sorted;
pub use table::{Reader, Table};
pub use tag::{Claim, Error, Tag};
pub use tunnel::Tunnel;
