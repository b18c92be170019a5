//! Packet sockets (AF_PACKET), by which a router receives and sends the frames of a Linux interface.
//!
//! The kernel copies frames into a ring that it shares with the router (`ring`): receiving needs no system
//! call. A frame of the ring has 2 KB. What is longer (a large TCP segment, a jumbo frame) the kernel puts
//! into the socket's queue too, where `recvmsg` takes it from, straight into the buffers of the packets that
//! it is cut into ([`crate::segment`]).
//!
//! Sending is one system call for many packets: `sendmmsg`, or `sendmsg` for packets that make one large
//! segment. These calls copy. The other ring, for sending, is not used: as soon as a veth's peer has taken a
//! frame, the kernel would say that it may be written again, although the peer still reads it.

use std::ffi::{c_int, c_uint};
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use locks::IgnorePoison;

use crate::batch::Batch;
use crate::fanout::Fanout;
use crate::mempool::Mempool;
use crate::packet::Packet;
use crate::status::PortStats;
use crate::steering::Steering;
use counters::{Counters, add};
use descriptor::Descriptor;
use receive::{Load, Quiet, Receiving, STASH};
use ring::Ring;
use send::Sending;

mod counters;
mod descriptor;
mod receive;
mod ring;
mod send;
#[cfg(test)]
#[cfg(not(miri))]
mod tests;

/// The most bytes of long frames that wait in a socket's queue.
const QUEUE_BYTES: c_int = 16 << 20;
/// The most bytes that wait to be sent.
const SEND_BYTES: c_int = 8 << 20;

// The options of linux/if_packet.h that the libc crate does not have.
const PACKET_COPY_THRESH: c_int = 7;
const PACKET_VERSION: c_int = 10;
const PACKET_VNET_HDR: c_int = 15;
const PACKET_FANOUT_DATA: c_int = 22;
const TPACKET_V2: c_int = 1;

/// The settings of a packet socket that receives.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    /// Frames in the ring.
    pub(crate) frames: usize,
    /// Where the packets' buffers come from.
    pub(crate) pool: Mempool,
    pub(crate) promisc: bool,
    /// What has other processors fill the ring while many frames come.
    pub(crate) steering: Option<Arc<Steering>>,
}

/// A socket on an interface. One thread at a time receives, and one sends.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: Descriptor,
    if_index: u32,
    receiving: Option<Mutex<Receiving>>,
    promisc: Mutex<bool>,
    /// The interface's MTU, by which segments are refused: the kernel checks it for other packets only.
    mtu: AtomicU32,
    counters: Counters,
}

impl PacketSocket {
    /// Opens a socket on an interface that does not receive yet.
    pub(crate) fn open(if_index: u32, mtu: u32, receive: Option<Receive>) -> io::Result<PacketSocket> {
        let mut socket = PacketSocket {
            socket: Descriptor::open()?,
            if_index,
            receiving: None,
            promisc: Mutex::new(false),
            mtu: AtomicU32::new(mtu),
            counters: Counters::default(),
        };
        socket.socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1)?;
        // With CAP_NET_ADMIN the limits of the system do not count.
        if socket.socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BYTES).is_err() {
            socket.socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BYTES)?;
        }
        if let Some(receive) = receive {
            socket.receiving = Some(Mutex::new(socket.prepare(receive)?));
        }
        // Nothing is received until the protocol is known.
        socket.socket.bind(if_index, 0)?;
        Ok(socket)
    }

    fn prepare(&self, receive: Receive) -> io::Result<Receiving> {
        if self.socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &QUEUE_BYTES).is_err() {
            self.socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &QUEUE_BYTES)?;
        }
        self.socket.set(libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)?;
        self.socket.set(libc::SOL_PACKET, PACKET_COPY_THRESH, &1)?;
        // Kernels before 4.20 do not know it: what is sent is then recognized by its packet type.
        let _ = self.socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        if receive.promisc {
            self.set_promisc(true)?;
        }
        Ok(Receiving {
            ring: Ring::map(&self.socket, receive.frames)?,
            frames: receive.frames,
            quiet: Quiet::default(),
            pool: receive.pool,
            stash: Batch::with_capacity(STASH),
            rest: Batch::new(),
            load: Load::new(receive.steering),
        })
    }

    /// Begins to receive, if it is a socket that does.
    pub(crate) fn start(&self) -> io::Result<()> {
        if self.receiving.is_none() {
            return Ok(());
        }
        self.socket.bind(self.if_index, libc::ETH_P_ALL as u16)
    }

    /// Makes the sockets of an interface share its frames by flow, so that all frames of a connection reach
    /// one, or as a program says.
    pub(crate) fn share(sockets: &[Arc<PacketSocket>], fanout: Option<&Fanout>) -> io::Result<()> {
        let kind = if fanout.is_some() { libc::PACKET_FANOUT_EBPF } else { libc::PACKET_FANOUT_HASH };
        let [first, others @ ..] = sockets else { return Ok(()) };
        if others.is_empty() {
            return Ok(());
        }
        let ignore = libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        let unique = libc::PACKET_FANOUT_FLAG_UNIQUEID;
        let join = |socket: &Arc<PacketSocket>, id: c_uint, flags: c_uint| {
            socket.socket.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &(id | (kind | flags) << 16))
        };
        // Kernels before 5.15 do not know the flag.
        let flags = if join(first, 0, unique | ignore).is_ok() { ignore } else { 0 };
        if flags == 0 {
            join(first, 0, unique)?;
        }
        let id = first.socket.get(libc::SOL_PACKET, libc::PACKET_FANOUT)? & 0xffff;
        others.iter().try_for_each(|socket| join(socket, id, flags))?;
        // The kernel numbers them in the order in which they have joined. An interface that was switched off
        // lets them join again in the order in which they were made, which is the same.
        match fanout {
            Some(fanout) => first.socket.set(libc::SOL_PACKET, PACKET_FANOUT_DATA, &fanout.program()),
            None => Ok(()),
        }
    }

    /// Whether frames to other addresses are received. It ends with the socket.
    pub(crate) fn set_promisc(&self, on: bool) -> io::Result<()> {
        let mut is = self.promisc.lock().ignore_poison();
        if *is == on {
            return Ok(());
        }
        // SAFETY: plain data.
        let mut request: libc::packet_mreq = unsafe { mem::zeroed() };
        request.mr_ifindex = self.if_index as c_int;
        request.mr_type = libc::PACKET_MR_PROMISC as _;
        let option = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        self.socket.set(libc::SOL_PACKET, option, &request)?;
        *is = on;
        Ok(())
    }

    /// Tells it that the interface's MTU has changed.
    pub(crate) fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Readable while frames wait.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.number()
    }

    /// Whether a frame waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.receiving.as_ref().is_some_and(|receiving| receiving.lock().ignore_poison().has_waiting())
    }

    /// Adds its counters to those of the port.
    pub(crate) fn add_stats(&self, sum: &mut PortStats) {
        self.look_for_losses();
        self.counters.add_stats(sum);
    }

    /// All counters, by the names that DPDK's drivers have for them where they have one.
    pub(crate) fn xstats(&self) -> [(&'static str, u64); 11] {
        self.look_for_losses();
        self.counters.xstats()
    }

    /// Packets whose partial checksum was completed, without those that a segment was cut into.
    pub(crate) fn completed_checksums(&self) -> u64 {
        self.counters.completed.load(Ordering::Relaxed)
    }

    /// Large segments that were cut into packets.
    pub(crate) fn segments(&self) -> u64 {
        self.counters.rx_segments.load(Ordering::Relaxed)
    }

    /// Frames that the kernel has lost since the socket was opened because the ring was full. Asks the
    /// kernel only if it has said that there are some.
    pub(crate) fn lost(&self) -> u64 {
        if self.counters.losing.swap(false, Ordering::Relaxed) {
            self.look_for_losses();
        }
        self.counters.rx_missed.load(Ordering::Relaxed)
    }

    fn look_for_losses(&self) {
        self.counters.look_for_losses(&self.socket);
    }

    /// Appends up to `max` packets that have arrived, and returns how many. They have no annotations, and
    /// their checksums are complete.
    ///
    /// The packets of a large segment are not split over two calls if they are at most `max`: so they are
    /// sent together again.
    pub(crate) fn receive(&self, max: usize, batch: &mut Batch) -> usize {
        let Some(receiving) = &self.receiving else { return 0 };
        let before = batch.len();
        receiving.lock().ignore_poison().receive(&self.socket, &self.counters, max, batch);
        let received = &batch[before..];
        if !received.is_empty() {
            add(&self.counters.rx_packets, received.len() as u64);
            add(&self.counters.rx_bytes, received.iter().map(|packet| packet.len() as u64).sum());
        }
        received.len()
    }

    /// Sends packets from the front and returns how many are done with: sent, or refused by the kernel,
    /// counted, and their places told to `refused`. Fewer than there are: the kernel takes no more at the
    /// moment.
    pub(crate) fn send(&self, packets: &[Packet], refused: &mut dyn FnMut(usize)) -> usize {
        let mtu = self.mtu.load(Ordering::Relaxed) as usize;
        Sending { socket: &self.socket, counters: &self.counters, mtu }.send(packets, refused)
    }
}
