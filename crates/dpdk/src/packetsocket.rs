//! Packet sockets (AF_PACKET), by which a router receives and sends the frames of a Linux interface.
//!
//! The kernel copies frames into a ring that it shares with the router ([`Ring`]): receiving needs no system
//! call. A frame of the ring has 2 KB. What is longer (a large TCP segment, a jumbo frame) the kernel puts
//! into the socket's queue too, where `recvmsg` takes it from, straight into the buffers of the packets that
//! it is cut into ([`crate::segment`]).
//!
//! Sending is one system call for many packets: `sendmmsg`, or `sendmsg` for packets that make one large
//! segment. These calls copy. The other ring, for sending, is not used: as soon as a veth's peer has taken a
//! frame, the kernel would say that it may be written again, although the peer still reads it.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use locks::IgnorePoison;

use crate::batch::Batch;
use crate::buffer::DEFAULT_HEADROOM;
use crate::mempool::Mempool;
use crate::packet::Packet;
use crate::segment::{Cut, Gathered, HEADERS_MAX, Tag, VnetHeader, put_tag};
use crate::status::PortStats;

/// Bytes of a frame in the ring, the kernel's header included.
const FRAME: usize = 2048;
/// Bytes in a block of the ring, which is one piece of the kernel's memory if it has such.
const BLOCK: usize = 64 << 10;
/// Where the kernel's header ends and the link-layer address begins.
const ADDRESS: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// The most bytes of long frames that wait in a socket's queue.
const QUEUE_BYTES: c_int = 16 << 20;
/// The most bytes that wait to be sent.
const SEND_BYTES: c_int = 8 << 20;
/// Buffers that are taken from the pool at a time.
const STASH: usize = 64;
/// Packets that are sent by one system call.
const SENT_AT_ONCE: usize = 64;
/// Bytes of a VLAN tag.
const TAG: usize = 4;

// The options of linux/if_packet.h that the libc crate does not have.
const PACKET_RX_RING: c_int = 5;
const PACKET_STATISTICS: c_int = 6;
const PACKET_COPY_THRESH: c_int = 7;
const PACKET_VERSION: c_int = 10;
const PACKET_VNET_HDR: c_int = 15;
const TPACKET_V2: c_int = 1;

/// The settings of a packet socket that receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    /// Frames in the ring.
    pub(crate) frames: usize,
    /// Where the packets' buffers come from.
    pub(crate) pool: Mempool,
    pub(crate) promisc: bool,
}

/// A socket on an interface. One thread at a time receives, and one sends.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    if_index: u32,
    receiving: Option<Mutex<Receiving>>,
    /// Whether the kernel has lost frames since it was last asked how many.
    losing: AtomicBool,
    promisc: Mutex<bool>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    rx_missed: AtomicU64,
    rx_errors: AtomicU64,
    rx_no_buffer: AtomicU64,
    rx_segments: AtomicU64,
    completed: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_errors: AtomicU64,
    tx_segments: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// The receiving side.
#[derive(Debug)]
struct Receiving {
    ring: Ring,
    pool: Mempool,
    /// Buffers for packets to come.
    stash: Batch,
    /// The rest of a segment that was cut into more packets than were requested.
    rest: Batch,
}

fn check(status: c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl PacketSocket {
    /// Opens a socket on an interface that does not receive yet.
    pub(crate) fn open(if_index: u32, receive: Option<Receive>) -> io::Result<PacketSocket> {
        // SAFETY: no pointers; a new descriptor is ours.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        check(fd)?;
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut socket = PacketSocket {
            fd,
            if_index,
            receiving: None,
            losing: AtomicBool::new(false),
            promisc: Mutex::new(false),
            counters: Counters::default(),
        };
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1)?;
        // With CAP_NET_ADMIN the limits of the system do not count.
        if socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BYTES).is_err() {
            socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BYTES)?;
        }
        if let Some(receive) = receive {
            socket.receiving = Some(Mutex::new(socket.prepare(receive)?));
        }
        // Nothing is received until the protocol is known.
        socket.bind(0)?;
        Ok(socket)
    }

    fn prepare(&self, receive: Receive) -> io::Result<Receiving> {
        if self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &QUEUE_BYTES).is_err() {
            self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &QUEUE_BYTES)?;
        }
        self.set(libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)?;
        self.set(libc::SOL_PACKET, PACKET_COPY_THRESH, &1)?;
        // Kernels before 4.20 do not know it: what is sent is then recognized by its packet type.
        let _ = self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        if receive.promisc {
            self.set_promisc(true)?;
        }
        Ok(Receiving {
            ring: Ring::map(self, receive.frames)?,
            pool: receive.pool,
            stash: Batch::with_capacity(STASH),
            rest: Batch::new(),
        })
    }

    /// Begins to receive, if it is a socket that does.
    pub(crate) fn start(&self) -> io::Result<()> {
        if self.receiving.is_none() {
            return Ok(());
        }
        self.bind(libc::ETH_P_ALL as u16)
    }

    fn bind(&self, protocol: u16) -> io::Result<()> {
        // SAFETY: plain data.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.if_index as c_int;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: an address of that length.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let value = ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the kernel reads at most `len` bytes.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, value, len) })
    }

    fn get<T: Copy>(&self, level: c_int, option: c_int, mut value: T) -> io::Result<T> {
        let mut len = size_of::<T>() as libc::socklen_t;
        let place = (&raw mut value).cast::<c_void>();
        // SAFETY: the kernel writes at most `len` bytes; `T` is an integer or plain data, by the callers.
        check(unsafe { libc::getsockopt(self.fd.as_raw_fd(), level, option, place, &mut len) })?;
        Ok(value)
    }

    /// Makes the sockets of an interface share its frames by flow: all frames of a connection reach one.
    pub(crate) fn share(sockets: &[Arc<PacketSocket>]) -> io::Result<()> {
        let kind = libc::PACKET_FANOUT_HASH;
        let [first, others @ ..] = sockets else { return Ok(()) };
        if others.is_empty() {
            return Ok(());
        }
        let ignore = libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        let unique = libc::PACKET_FANOUT_FLAG_UNIQUEID;
        let join = |socket: &Arc<PacketSocket>, id: c_uint, flags: c_uint| {
            socket.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &(id | (kind | flags) << 16))
        };
        // Kernels before 5.15 do not know the flag.
        let flags = if join(first, 0, unique | ignore).is_ok() { ignore } else { 0 };
        if flags == 0 {
            join(first, 0, unique)?;
        }
        let id = first.get::<c_uint>(libc::SOL_PACKET, libc::PACKET_FANOUT, 0)? & 0xffff;
        others.iter().try_for_each(|socket| join(socket, id, flags))
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
        self.set(libc::SOL_PACKET, option, &request)?;
        *is = on;
        Ok(())
    }

    /// Readable while frames wait.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Adds its counters to those of the port.
    pub(crate) fn add_stats(&self, sum: &mut PortStats) {
        self.look_for_losses();
        let counters = &self.counters;
        let places = [
            (&mut sum.rx_packets, &counters.rx_packets),
            (&mut sum.rx_bytes, &counters.rx_bytes),
            (&mut sum.rx_missed, &counters.rx_missed),
            (&mut sum.rx_errors, &counters.rx_errors),
            (&mut sum.rx_no_buffer, &counters.rx_no_buffer),
            (&mut sum.tx_packets, &counters.tx_packets),
            (&mut sum.tx_bytes, &counters.tx_bytes),
            (&mut sum.tx_errors, &counters.tx_errors),
        ];
        for (to, from) in places {
            *to += from.load(Ordering::Relaxed);
        }
    }

    /// All counters, by the names that DPDK's drivers have for them where they have one.
    pub(crate) fn xstats(&self) -> [(&'static str, u64); 11] {
        self.look_for_losses();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        [
            ("rx_good_packets", get(&counters.rx_packets)),
            ("tx_good_packets", get(&counters.tx_packets)),
            ("rx_good_bytes", get(&counters.rx_bytes)),
            ("tx_good_bytes", get(&counters.tx_bytes)),
            ("rx_missed_errors", get(&counters.rx_missed)),
            ("rx_errors", get(&counters.rx_errors)),
            ("tx_errors", get(&counters.tx_errors)),
            ("rx_mbuf_allocation_errors", get(&counters.rx_no_buffer)),
            ("rx_large_segments", get(&counters.rx_segments)),
            ("tx_large_segments", get(&counters.tx_segments)),
            ("rx_partial_checksums", get(&counters.completed)),
        ]
    }

    /// Packets whose partial checksum was completed, without those that a segment was cut into.
    pub(crate) fn completed_checksums(&self) -> u64 {
        self.counters.completed.load(Ordering::Relaxed)
    }

    /// Frames that the kernel has lost since the socket was opened because the ring was full. Asks the
    /// kernel only if it has said that there are some.
    pub(crate) fn lost(&self) -> u64 {
        if self.losing.swap(false, Ordering::Relaxed) {
            self.look_for_losses();
        }
        self.counters.rx_missed.load(Ordering::Relaxed)
    }

    fn look_for_losses(&self) {
        let nothing = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        // Reading sets them to zero in the kernel.
        if let Ok(stats) = self.get(libc::SOL_PACKET, PACKET_STATISTICS, nothing) {
            add(&self.counters.rx_missed, stats.tp_drops.into());
        }
    }

    /// Appends up to `max` packets that have arrived, and returns how many. They have no annotations, and
    /// their checksums are complete.
    ///
    /// The packets of a large segment are not split over two calls if they are at most `max`: so they are sent
    /// together again.
    pub(crate) fn receive(&self, max: usize, batch: &mut Batch) -> usize {
        let Some(receiving) = &self.receiving else { return 0 };
        let before = batch.len();
        receiving.lock().ignore_poison().receive(self, max, batch);
        let received = &batch[before..];
        if !received.is_empty() {
            add(&self.counters.rx_packets, received.len() as u64);
            add(&self.counters.rx_bytes, received.iter().map(|packet| packet.len() as u64).sum());
        }
        received.len()
    }

    /// Takes a frame of the queue into these places; returns its length, vnet header included.
    fn take(&self, places: &mut [libc::iovec]) -> Option<usize> {
        // An interface that was switched off leaves an error behind, which is reported once.
        for _ in 0..2 {
            // SAFETY: plain data.
            let mut message: libc::msghdr = unsafe { mem::zeroed() };
            message.msg_iov = places.as_mut_ptr();
            message.msg_iovlen = places.len() as _;
            let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
            // SAFETY: the places are memory of the caller, which nobody else reads or writes meanwhile.
            let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, flags) };
            if let Ok(len) = usize::try_from(len) {
                return Some(len);
            }
        }
        None
    }

    /// Sends packets from the front and returns how many are done with: sent, or refused by the kernel and
    /// counted. Fewer than there are: the kernel takes no more at the moment.
    pub(crate) fn send(&self, packets: &[Packet]) -> usize {
        let (mut done, mut at) = (0, 0);
        while at < packets.len() {
            let Some(segment) = Gathered::from_front(&packets[at..]) else {
                at += 1;
                continue;
            };
            let singles = self.send_singles(&packets[done..at]);
            done += singles;
            if done < at {
                return done;
            }
            match self.send_segment(&segment, &packets[at..at + segment.packets]) {
                Outcome::Sent => add(&self.counters.tx_segments, 1),
                Outcome::Full => return done,
                Outcome::Refused => {
                    let sent = self.send_singles(&packets[at..at + segment.packets]);
                    if sent < segment.packets {
                        return done + sent;
                    }
                }
            }
            at += segment.packets;
            done = at;
        }
        done + self.send_singles(&packets[done..])
    }

    fn send_segment(&self, segment: &Gathered, packets: &[Packet]) -> Outcome {
        let vnet = segment.vnet.bytes();
        let n = 2 + packets.len();
        let (mut few, mut many) = ([NOWHERE; FEW], Vec::new());
        let parts = parts(n, &mut few, &mut many);
        let all = [&vnet[..], segment.headers()].into_iter();
        let all = all.chain(packets.iter().map(|packet| segment.payload(packet)));
        let mut bytes = 0;
        for (part, from) in parts.iter_mut().zip(all) {
            *part = readable(from);
            bytes += from.len();
        }
        // SAFETY: plain data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = n as _;
        // SAFETY: the kernel only reads the parts, which live until the end of this function.
        let status = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, libc::MSG_DONTWAIT) };
        if status < 0 {
            return Outcome::of_error();
        }
        add(&self.counters.tx_packets, packets.len() as u64);
        let headers = segment.headers().len() * (packets.len() - 1);
        add(&self.counters.tx_bytes, (bytes - VnetHeader::LEN + headers) as u64);
        Outcome::Sent
    }

    /// Sends packets one by one, as `send`.
    fn send_singles(&self, packets: &[Packet]) -> usize {
        const PLAIN: [u8; VnetHeader::LEN] = [0; VnetHeader::LEN];
        let mut done = 0;
        while done < packets.len() {
            let some = &packets[done..packets.len().min(done + SENT_AT_ONCE)];
            let mut parts = [[NOWHERE; 2]; SENT_AT_ONCE];
            // SAFETY: plain data.
            let mut messages: [libc::mmsghdr; SENT_AT_ONCE] = unsafe { mem::zeroed() };
            for ((packet, parts), message) in some.iter().zip(&mut parts).zip(&mut messages) {
                *parts = [readable(&PLAIN), readable(packet.data())];
                message.msg_hdr.msg_iov = parts.as_mut_ptr();
                message.msg_hdr.msg_iovlen = 2;
            }
            let n = some.len() as c_uint;
            // SAFETY: `n` messages, whose parts the kernel only reads, and which live until then.
            let sent = unsafe {
                libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), n, libc::MSG_DONTWAIT as _)
            };
            if let Ok(sent) = usize::try_from(sent) {
                let sent = &some[..sent.min(some.len())];
                add(&self.counters.tx_packets, sent.len() as u64);
                add(&self.counters.tx_bytes, sent.iter().map(|packet| packet.len() as u64).sum());
                done += sent.len();
                if sent.is_empty() {
                    return done;
                }
                continue;
            }
            match Outcome::of_error() {
                Outcome::Full => return done,
                // The first of them: too long for the interface, or too short, or the interface is down.
                _ => {
                    add(&self.counters.tx_errors, 1);
                    done += 1;
                }
            }
        }
        done
    }
}

/// What became of a segment.
enum Outcome {
    Sent,
    /// Nothing can be sent at the moment.
    Full,
    /// It cannot be sent.
    Refused,
}

impl Outcome {
    /// By the calling thread's error number.
    fn of_error() -> Outcome {
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Outcome::Full,
            _ => Outcome::Refused,
        }
    }
}

const NOWHERE: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

/// Parts of a frame that a system call takes without allocation: those of a segment of 64 KB.
const FEW: usize = 66;

/// `n` places for parts, of one of these.
fn parts<'a>(
    n: usize,
    few: &'a mut [libc::iovec; FEW],
    many: &'a mut Vec<libc::iovec>,
) -> &'a mut [libc::iovec] {
    if n > FEW {
        many.resize(n, NOWHERE);
        return many;
    }
    &mut few[..n]
}

/// A place that the kernel only reads.
fn readable(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn writable(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// What became of a frame.
enum Taken {
    /// It has been received, or it is lost and counted.
    Done,
    /// It has more packets than are requested now.
    Later,
}

impl Receiving {
    fn receive(&mut self, socket: &PacketSocket, max: usize, batch: &mut Batch) {
        let end = batch.len() + max;
        let kept = self.rest.len().min(max);
        batch.packets_mut().extend(self.rest.packets_mut().drain(..kept));
        while batch.len() < end {
            let Some(frame) = self.ring.next() else { return };
            let started = batch.len() + max > end;
            let taken = take_frame(
                socket,
                &frame,
                &mut Places {
                    pool: self.pool,
                    stash: &mut self.stash,
                    rest: &mut self.rest,
                    batch,
                    room: end,
                    started,
                },
            );
            if matches!(taken, Taken::Later) {
                return;
            }
            if frame.status & libc::TP_STATUS_LOSING != 0 {
                socket.losing.store(true, Ordering::Relaxed);
            }
            self.ring.release();
        }
    }
}

/// Where the packets of a frame go.
struct Places<'a> {
    pool: Mempool,
    stash: &'a mut Batch,
    rest: &'a mut Batch,
    batch: &'a mut Batch,
    /// The length up to which the batch may grow.
    room: usize,
    /// Whether this call has received packets already.
    started: bool,
}

impl Places<'_> {
    /// A packet of `len` bytes whose content is yet to be written; `None`: there is no buffer.
    fn packet(&mut self, len: usize) -> Option<Packet> {
        if self.stash.is_empty() {
            let mbufs = self.stash.spare_mbufs(STASH);
            // SAFETY: there is room for as many; what the pool gives has one segment, one reference and no
            // annotations.
            unsafe {
                if self.pool.alloc_bulk(mbufs, STASH as u32) {
                    self.stash.grow_raw(STASH);
                } else if let Some(mbuf) = self.pool.alloc() {
                    self.stash.push(Packet::from_raw(mbuf));
                }
            }
        }
        let mut packet = self.stash.pop()?;
        packet.put_in_place(len).then_some(packet)
    }

    /// Gives up the packets after the first `kept`.
    fn take_back(&mut self, kept: usize) {
        for mut packet in self.batch.drain(kept..) {
            let len = packet.len();
            packet.take(len);
            self.stash.push(packet);
        }
    }

    fn give(&mut self, packet: Packet) {
        if self.batch.len() < self.room { self.batch.push(packet) } else { self.rest.push(packet) }
    }
}

/// Receives one frame. A frame that is lost is counted.
fn take_frame(socket: &PacketSocket, frame: &Frame<'_>, places: &mut Places<'_>) -> Taken {
    let counters = &socket.counters;
    let long = frame.status & libc::TP_STATUS_COPY != 0;
    // One that is lost may still be in the queue.
    let lose = |counter: &AtomicU64| {
        if long {
            socket.take(&mut []);
        }
        add(counter, 1);
        Taken::Done
    };
    if frame.outgoing {
        if long {
            socket.take(&mut []);
        }
        return Taken::Done;
    }
    // A frame that is longer than its place and is not in the queue, which was full.
    if !long && frame.len > frame.data.len() {
        return lose(&counters.rx_missed);
    }
    let tag = if frame.tag.is_some() { TAG } else { 0 };
    if !frame.vnet.is_one_packet() {
        let Some(cut) = Cut::plan(frame.vnet, frame.data, frame.len, frame.tag) else {
            return lose(&counters.rx_errors);
        };
        if places.started && places.batch.len() + cut.packets() > places.room {
            return Taken::Later;
        }
        if DEFAULT_HEADROOM + cut.longest() > places.pool.buffer_len() {
            return lose(&counters.rx_errors);
        }
        return match cut_frame(socket, frame, &cut, places) {
            Ok(()) => {
                add(&counters.rx_segments, 1);
                Taken::Done
            }
            Err(Lost::NoBuffer) => lose(&counters.rx_no_buffer),
            Err(Lost::Taken) => {
                add(&counters.rx_errors, 1);
                Taken::Done
            }
        };
    }
    if DEFAULT_HEADROOM + tag + frame.len > places.pool.buffer_len() {
        return lose(&counters.rx_errors);
    }
    let Some(mut packet) = places.packet(tag + frame.len) else {
        return lose(&counters.rx_no_buffer);
    };
    let data = packet.data_mut();
    if long {
        let mut vnet = [0; VnetHeader::LEN];
        let taken = socket.take(&mut [writable(&mut vnet), writable(&mut data[tag..])]);
        if taken != Some(VnetHeader::LEN + frame.len) {
            add(&counters.rx_errors, 1);
            return Taken::Done;
        }
    } else {
        data[tag..].copy_from_slice(&frame.data[..frame.len]);
    }
    if frame.vnet.complete(&mut data[tag..]) {
        add(&counters.completed, 1);
    }
    if let Some(tag) = frame.tag {
        put_tag(data, tag);
    }
    places.give(packet);
    Taken::Done
}

/// Why a segment was lost.
enum Lost {
    /// There were not enough buffers; it is where it was.
    NoBuffer,
    /// It was not as the ring says; it has been taken from the queue.
    Taken,
}

/// Cuts a segment into packets.
fn cut_frame(
    socket: &PacketSocket,
    frame: &Frame<'_>,
    cut: &Cut,
    places: &mut Places<'_>,
) -> Result<(), Lost> {
    let headers = cut.headers_len();
    let untagged = headers - if frame.tag.is_some() { TAG } else { 0 };
    let before = places.batch.len();
    for i in 0..cut.packets() {
        match places.packet(headers + cut.part(i).len()) {
            Some(packet) => places.batch.push(packet),
            None => {
                places.take_back(before);
                return Err(Lost::NoBuffer);
            }
        }
    }
    let packets = &mut places.batch[before..];
    if frame.status & libc::TP_STATUS_COPY != 0 {
        let (mut vnet, mut unused) = ([0; VnetHeader::LEN], [0; HEADERS_MAX]);
        let (mut few, mut many) = ([NOWHERE; FEW], Vec::new());
        let parts = parts(2 + packets.len(), &mut few, &mut many);
        parts[0] = writable(&mut vnet);
        parts[1] = writable(&mut unused[..untagged]);
        for (part, packet) in parts[2..].iter_mut().zip(&mut *packets) {
            *part = writable(&mut packet.data_mut()[headers..]);
        }
        if socket.take(parts) != Some(VnetHeader::LEN + frame.len) {
            places.take_back(before);
            return Err(Lost::Taken);
        }
    } else {
        for (i, packet) in packets.iter_mut().enumerate() {
            let part = cut.part(i);
            packet.data_mut()[headers..]
                .copy_from_slice(&frame.data[untagged + part.start..untagged + part.end]);
        }
    }
    for (i, packet) in packets.iter_mut().enumerate() {
        cut.finish(i, packet.data_mut());
    }
    if places.batch.len() > places.room {
        places.rest.packets_mut().extend(places.batch.drain(places.room..));
    }
    Ok(())
}

/// A frame in the ring.
struct Frame<'a> {
    status: u32,
    /// Bytes of the whole frame.
    len: usize,
    /// As much of it as is in the ring.
    data: &'a [u8],
    vnet: VnetHeader,
    tag: Option<Tag>,
    /// Whether this machine has sent it.
    outgoing: bool,
}

/// The frames that the kernel fills, in turn: each belongs to the kernel or to the router, as its status says.
#[derive(Debug)]
struct Ring {
    map: NonNull<u8>,
    frames: usize,
    /// The frame that the kernel fills next, or has filled.
    at: usize,
}

// SAFETY: the mapping is reached through this alone.
unsafe impl Send for Ring {}

impl Ring {
    fn map(socket: &PacketSocket, frames: usize) -> io::Result<Ring> {
        let blocks = (frames * FRAME).div_ceil(BLOCK).max(1);
        let frames = blocks * (BLOCK / FRAME);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as c_uint,
            tp_block_nr: blocks as c_uint,
            tp_frame_size: FRAME as c_uint,
            tp_frame_nr: frames as c_uint,
        };
        socket.set(libc::SOL_PACKET, PACKET_RX_RING, &request)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let fd = socket.fd.as_raw_fd();
        // SAFETY: a mapping at an address of the kernel's choice.
        let map = unsafe { libc::mmap(ptr::null_mut(), blocks * BLOCK, access, flags, fd, 0) };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { map, frames, at: 0 })
    }

    fn place(&self) -> NonNull<u8> {
        // SAFETY: `at` is below the number of frames, all of which are mapped.
        unsafe { self.map.add(self.at * FRAME) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a frame begins with its status, aligned, which both sides access atomically.
        unsafe { self.place().cast::<AtomicU32>().as_ref() }
    }

    /// The next frame, if the kernel has filled it. It is the router's until [`Ring::release`].
    fn next(&self) -> Option<Frame<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the frame is the router's, so that nobody writes it but for its status, which is not read
        // here; what `self` lends ends before `release`.
        let frame = unsafe { slice::from_raw_parts(self.place().as_ptr().add(4), FRAME - 4) };
        Some(Frame::read(status, frame))
    }

    /// Gives the frame back to the kernel and goes on to the next.
    fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at = if self.at + 1 == self.frames { 0 } else { self.at + 1 };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing of it is lent.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.frames * FRAME) };
    }
}

impl<'a> Frame<'a> {
    /// Reads a frame without its first word, the status: `tpacket2_hdr`, then `sockaddr_ll`, then the data at
    /// the place that the header states, right behind the vnet header.
    fn read(status: u32, frame: &'a [u8]) -> Frame<'a> {
        const STATUS: usize = 4;
        const PACKET_TYPE: usize = ADDRESS + 10 - STATUS;
        let long = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let short = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
        let (len, here, data) = (long(4 - STATUS), long(8 - STATUS), usize::from(short(12 - STATUS)));
        let (content, protocol) = (short(24 - STATUS), short(26 - STATUS));
        let begin = data.saturating_sub(STATUS).clamp(VnetHeader::LEN, frame.len());
        let vnet =
            frame[begin - VnetHeader::LEN..].first_chunk().map_or(VnetHeader::default(), VnetHeader::read);
        let data = &frame[begin..];
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            (if known { protocol } else { wire::ethernet::ETHERTYPE_VLAN }, content)
        });
        Frame {
            status,
            len: len as usize,
            data: &data[..data.len().min(here as usize)],
            vnet,
            tag,
            outgoing: frame[PACKET_TYPE] == libc::PACKET_OUTGOING,
        }
    }
}
