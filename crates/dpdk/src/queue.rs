//! Receive and transmit queues: the parts of a port that a worker owns.

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard};

use locks::lock_counted;

use crate::batch::Batch;
use crate::buffer::{ANNO_VALID, DEFAULT_HEADROOM, FIRST_LINE, MAX_BUFFER, TRACED};
use crate::error::Error;
use crate::fault::Fault;
use crate::lent::{Sink, Source};
use crate::open::{DeviceQueue, PortQueue};
use crate::packet::Packet;
use crate::packetsocket::PacketSocket;
use crate::partial::complete_partial_checksums;
use crate::port::Port;
use crate::removal::Occupied;
use crate::status::PortState;
use crate::watch::State;

impl Port {
    /// Takes a receive queue, of which there are [`Port::rx_queues`]; an error if it is taken.
    pub fn rx_queue(self: &Arc<Port>, queue: u16) -> Result<RxQueue, Error> {
        Ok(RxQueue::new(Arc::clone(self), queue, self.take_rx(queue)?))
    }

    /// Takes a transmit queue, of which there are [`Port::tx_queues`]; an error if it is taken.
    pub fn tx_queue(self: &Arc<Port>, queue: u16) -> Result<TxQueue, Error> {
        Ok(TxQueue::new(Arc::clone(self), queue, self.take_tx(queue)?, None))
    }

    /// Takes a transmit queue that others share, all by this function: each burst takes a lock. An error if
    /// it is taken for exclusive use.
    pub fn share_tx_queue(self: &Arc<Port>, queue: u16) -> Result<TxQueue, Error> {
        let (sink, lock) = self.share_tx(queue)?;
        Ok(TxQueue::new(Arc::clone(self), queue, sink, Some(lock)))
    }
}

/// A receive queue, which one thread at a time polls. When it is dropped, it can be taken again.
#[derive(Debug)]
pub struct RxQueue {
    /// The device queues behind it, polled in turn: an interface may have more queues than there are workers.
    /// Dropped before the port, whose buffers packet sockets hold.
    sources: Box<[PortQueue]>,
    port: Arc<Port>,
    /// The port's, so that a burst touches the port's memory no more than it must.
    state: Arc<State>,
    occupied: Arc<Occupied>,
    completes_checksums: bool,
    index: u16,
    next: usize,
    /// Flags of annotations, to be cleared in what the driver gives; 0: it never sets them, nor makes chains.
    stale_flags: u64,
    lost: u64,
    completed: u64,
    _not_sync: PhantomData<Cell<()>>,
}

impl RxQueue {
    pub(crate) fn new(port: Arc<Port>, index: u16, sources: Box<[PortQueue]>) -> RxQueue {
        let stale_flags = if port.receives_fresh_mbufs() { 0 } else { ANNO_VALID | FIRST_LINE | TRACED };
        RxQueue {
            index,
            sources,
            state: port.watched(),
            occupied: port.occupied(),
            completes_checksums: port.completes_checksums(),
            port,
            next: 0,
            stale_flags,
            lost: 0,
            completed: 0,
            _not_sync: PhantomData,
        }
    }

    /// Asks the processor to fetch what a burst uses beside the queue itself.
    #[inline]
    pub fn prefetch(&self) {
        crate::prefetch(&*self.sources, 1);
        crate::prefetch(&*self.state, 1);
    }

    /// Appends up to `max` packets that have arrived, and returns how many.
    ///
    /// Packets are whole (several segments are put together), without annotations, and with complete
    /// checksums. A port that has gone gives none.
    #[inline]
    pub fn rx_burst(&mut self, max: usize, batch: &mut Batch) -> usize {
        if self.state.get() == PortState::Gone || Fault::Receive.strikes() {
            return 0;
        }
        let before = batch.len();
        for _ in 0..self.sources.len() {
            let at = self.next;
            self.next = if self.next + 1 == self.sources.len() { 0 } else { self.next + 1 };
            let want = max - (batch.len() - before);
            if want == 0 {
                break;
            }
            match &self.sources[at] {
                &PortQueue::Device(queue) => self.receive(queue, want.min(u16::MAX.into()) as u16, batch),
                PortQueue::Socket(socket) => {
                    socket.receive(want, batch);
                }
                PortQueue::Virtual(queue) => queue.receive(want, batch),
                PortQueue::Memif(queue) => {
                    queue.take(want, batch);
                }
            }
        }
        if self.completes_checksums {
            self.completed += complete_partial_checksums(&mut batch[before..]) as u64;
        }
        batch.len() - before
    }

    #[inline]
    fn receive(&mut self, source: DeviceQueue, want: u16, batch: &mut Batch) {
        let Some(_inside) = self.occupied.enter(&self.state) else { return };
        let mbufs = batch.spare_mbufs(want.into());
        let mut chained = 0;
        // SAFETY: the port is started for as long as `self.port` lives and has not gone, and this is the only
        // holder of the queue; there is room for `want` mbufs.
        let received = unsafe {
            dpdk_sys::valiant_rx_burst(source.port, source.queue, mbufs, want, self.stale_flags, &mut chained)
        };
        if chained == 0 {
            // SAFETY: the driver gave these mbufs away: one segment, one reference, memory of a pool that
            // DPDK mapped zeroed, annotations invalid.
            unsafe { batch.grow_raw(received.into()) };
        } else {
            // SAFETY: `received` mbufs, some with several segments, which the driver gave away.
            self.lost += unsafe { linearise(received.into(), batch) };
        }
    }

    /// The port.
    pub fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// The queue's number.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Packets that arrived in several segments and found no memory, or were longer than a packet can be.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Packets whose partial checksum was completed.
    pub fn completed_checksums(&self) -> u64 {
        let of_socket = |source: &PortQueue| match source {
            PortQueue::Device(_) | PortQueue::Virtual(_) | PortQueue::Memif(_) => 0,
            PortQueue::Socket(socket) => socket.completed_checksums(),
        };
        self.completed + self.sources.iter().map(of_socket).sum::<u64>()
    }

    /// Large segments that were cut into packets.
    #[inline]
    pub fn segments(&self) -> u64 {
        self.sources.iter().filter_map(PortQueue::socket).map(PacketSocket::segments).sum()
    }

    /// Descriptors, one for each device queue behind this one (a virtual port has none: whoever puts packets
    /// in runs the worker), to wait for with `poll` or `epoll` while idle:
    /// they are readable when packets have arrived, once [`RxQueue::arm`] has been called. `None` when the
    /// driver offers none, so that an idle worker has to look from time to time.
    ///
    /// They belong to the driver and are valid as long as this queue.
    pub fn wake_fds(&self) -> Option<Vec<RawFd>> {
        let fd = |source: &PortQueue| match source {
            PortQueue::Socket(socket) => Some(socket.descriptor()),
            PortQueue::Device(queue) => queue.socket.or_else(|| {
                let _inside = self.occupied.enter(&self.state)?;
                // SAFETY: the port lives and has not gone.
                let fd = unsafe { dpdk_sys::valiant_rx_fd(queue.port, queue.queue) };
                (fd >= 0).then_some(fd)
            }),
            PortQueue::Virtual(_) | PortQueue::Memif(_) => None,
        };
        let awaited = self.sources.iter().filter(|source| !matches!(source, PortQueue::Virtual(_)));
        awaited.map(fd).collect()
    }

    /// Whether packets may wait here: where that is not known without receiving, they may.
    #[inline]
    pub fn may_have_waiting(&self) -> bool {
        self.sources.iter().any(|source| source.socket().is_none_or(PacketSocket::has_waiting))
    }

    /// Packets that were lost before the queue, because they were not taken in time, since the last call.
    /// Only AF_XDP, where it costs a system call, and AF_PACKET report them.
    pub fn newly_lost(&self) -> u64 {
        self.port.newly_lost(self.index)
    }

    /// Whether it is certain that nothing waits here: of virtual ports without a queue that is lent, whoever
    /// puts packets in runs the worker afterwards.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.sources.iter().all(|source| matches!(source, PortQueue::Virtual(queue) if queue.is_drained()))
    }

    /// Whether the descriptors of [`RxQueue::wake_fds`] are sockets, which are readable as long as packets
    /// wait: they need no [`RxQueue::arm`].
    pub fn has_sockets(&self) -> bool {
        self.sources.iter().all(PortQueue::has_socket)
    }

    /// Takes what the descriptors of [`RxQueue::wake_fds`] have signalled; false if it was nothing. Sockets
    /// are readable as long as packets wait, and keep what they have.
    pub fn hear(&self) -> bool {
        let mut heard = false;
        let Some(_inside) = self.occupied.enter(&self.state) else { return heard };
        for source in &self.sources {
            let PortQueue::Device(DeviceQueue { port, queue, socket: None }) = source else { continue };
            // SAFETY: the port lives.
            let fd = unsafe { dpdk_sys::valiant_rx_fd(*port, *queue) };
            let mut count = [0u8; 8];
            // SAFETY: eight writable bytes. The driver's descriptor does not block.
            heard |= fd >= 0 && unsafe { libc::read(fd, count.as_mut_ptr().cast(), count.len()) } > 0;
        }
        heard
    }

    /// Switches the signal of [`RxQueue::wake_fds`] on or off; false when the driver has none.
    ///
    /// After switching it on, poll once more before sleeping: what arrived before may give no signal. Sockets
    /// (AF_XDP, AF_PACKET) always signal, and this costs nothing there.
    pub fn arm(&mut self, on: bool) -> bool {
        let Some(_inside) = self.occupied.enter(&self.state) else { return false };
        let arm = |source: &PortQueue| match source {
            PortQueue::Device(DeviceQueue { port, queue, socket: None }) => {
                // SAFETY: the port lives and this is the only holder of the queue.
                unsafe { dpdk_sys::valiant_rx_interrupt(*port, *queue, on.into()) == 0 }
            }
            _ => true,
        };
        self.sources.iter().all(arm)
    }
}

/// Makes one-segment packets of the `received` mbufs after the end of the batch; returns how many found no
/// memory, or were longer than a packet can be.
///
/// # Safety
/// There are that many, and nobody else has them.
#[cold]
unsafe fn linearise(received: usize, batch: &mut Batch) -> u64 {
    let mbufs = batch.spare_mbufs(received);
    // SAFETY: by the contract of this function.
    let mbufs: Vec<NonNull<_>> =
        (0..received).filter_map(|i| NonNull::new(unsafe { *mbufs.add(i) })).collect();
    let mut lost = 0;
    for mbuf in mbufs {
        // SAFETY: a live mbuf.
        if unsafe { (*mbuf.as_ptr()).nb_segs } == 1 {
            // SAFETY: as in `receive`.
            batch.push(unsafe { Packet::from_raw(mbuf) });
            continue;
        }
        // SAFETY: a live chain of mbufs.
        match unsafe { joined(mbuf) } {
            Some(packet) => batch.push(packet),
            None => lost += 1,
        }
        // SAFETY: the chain is ours and has been copied.
        unsafe { dpdk_sys::valiant_free(mbuf.as_ptr()) };
    }
    lost
}

/// A copy of a chain of segments in one buffer.
///
/// # Safety
/// `mbuf` is a live chain that nobody changes meanwhile.
unsafe fn joined(mbuf: NonNull<dpdk_sys::rte_mbuf>) -> Option<Packet> {
    // SAFETY: by the contract of this function.
    let len = unsafe { (*mbuf.as_ptr()).pkt_len } as usize;
    if len > MAX_BUFFER {
        return None;
    }
    let mut packet = Packet::alloc(DEFAULT_HEADROOM, len)?;
    let mut rest = packet.data_mut();
    let mut segment = mbuf.as_ptr();
    while !segment.is_null() {
        // SAFETY: each segment holds `data_len` initialized bytes at `data_off`; the chain ends with null.
        unsafe {
            let n = usize::from((*segment).data_len).min(rest.len());
            let data = (*segment).buf_addr.cast::<u8>().add((*segment).data_off.into());
            ptr::copy_nonoverlapping(data, rest.as_mut_ptr(), n);
            rest = &mut rest[n..];
            segment = (*segment).next;
        }
    }
    Some(packet)
}

impl Source for RxQueue {
    fn rx_burst(&mut self, max: usize, batch: &mut Batch) -> usize {
        RxQueue::rx_burst(self, max, batch)
    }
}

impl Sink for TxQueue {
    fn tx_burst(&mut self, batch: &mut Batch) -> usize {
        TxQueue::tx_burst(self, batch)
    }
}

impl Drop for RxQueue {
    fn drop(&mut self) {
        self.port.give_back_rx(self.index);
    }
}

/// How many packets are copied before the device has said how many it takes.
const COPIED_AT_ONCE: usize = 64;

/// Packets that come back from a queue ([`TxQueue::tx_burst_returning`]).
#[derive(Debug, Default)]
pub struct Returned {
    /// Whether packets that have been sent are to come back.
    pub wants_sent: bool,
    /// What has been sent.
    pub sent: Batch,
    /// What could not be sent.
    pub unsent: Batch,
    /// How many packets were sent for which there was no memory for a copy.
    pub not_copied: u64,
}

impl Returned {
    /// Copies up to `most` packets from the front, calls a function that takes some from there, and keeps the
    /// copies of those.
    fn copying(&mut self, batch: &mut Batch, most: usize, send: impl FnOnce(&mut Batch) -> usize) -> usize {
        if !self.wants_sent {
            return send(batch);
        }
        let (before, had) = (self.sent.len(), batch.len());
        for copy in batch.iter().take(most).map_while(Packet::duplicate) {
            self.sent.push(copy);
        }
        let sent = send(batch);
        let gone = had - batch.len();
        self.not_copied += gone.saturating_sub(self.sent.len() - before) as u64;
        self.sent.truncate(before + gone);
        sent
    }
}

/// A transmit queue, which one thread at a time uses. When it is dropped, it can be taken again.
#[derive(Debug)]
pub struct TxQueue {
    /// Dropped before the port.
    sink: PortQueue,
    port: Arc<Port>,
    /// The port's.
    state: Arc<State>,
    occupied: Arc<Occupied>,
    index: u16,
    /// Taken for each burst if the queue is shared.
    shared: Option<Arc<Mutex<()>>>,
    copied: u64,
    lost: u64,
    starved: u64,
    refused: u64,
    _not_sync: PhantomData<Cell<()>>,
}

impl TxQueue {
    pub(crate) fn new(
        port: Arc<Port>,
        index: u16,
        sink: PortQueue,
        shared: Option<Arc<Mutex<()>>>,
    ) -> TxQueue {
        TxQueue {
            state: port.watched(),
            occupied: port.occupied(),
            port,
            index,
            sink,
            shared,
            copied: 0,
            lost: 0,
            starved: 0,
            refused: 0,
            _not_sync: PhantomData,
        }
    }

    /// Asks the processor to fetch what a burst uses beside the queue itself.
    #[inline]
    pub fn prefetch(&self) {
        crate::prefetch(&*self.state, 1);
    }

    /// Sends packets from the front of the batch and returns how many; those not sent stay, in order.
    ///
    /// A packet socket copies packets; those that the kernel refuses are dropped and counted
    /// ([`TxQueue::refused`]). Elsewhere, packets from the heap are copied to the port's pool first.
    /// One that is longer than the port's buffers is dropped and counted ([`TxQueue::lost`]), and so is one
    /// for which there is no buffer, also when the driver has given back what it has sent
    /// ([`TxQueue::starved`]): whoever waited for it would hold up the packets behind it, which have the
    /// buffers. Zero means that the queue is full, that nothing is left to send, or that the port has gone
    /// ([`Port::state`]).
    #[inline]
    pub fn tx_burst(&mut self, batch: &mut Batch) -> usize {
        if batch.is_empty() || self.state.get() == PortState::Gone {
            return 0;
        }
        match &self.sink {
            PortQueue::Socket(socket) => {
                if Fault::Send.strikes() {
                    return 0;
                }
                let guard = self.lock();
                let mut refused = 0;
                let done = socket.send(batch, &mut |_| refused += 1);
                drop(guard);
                batch.free_sent(done);
                self.refused += refused;
                done - refused as usize
            }
            PortQueue::Virtual(queue) => queue.send(batch),
            PortQueue::Memif(queue) => queue.put(batch),
            &PortQueue::Device(queue) if Packet::any_heap(batch) => {
                self.send_copies(queue, batch, &mut Returned::default())
            }
            &PortQueue::Device(queue) => self.transmit(queue, batch.len(), batch),
        }
    }

    /// The same, for a caller who wants packets back: what has been sent, as a copy if the device keeps the
    /// packet itself, and what could not be sent and is counted for it.
    pub fn tx_burst_returning(&mut self, batch: &mut Batch, back: &mut Returned) -> usize {
        if batch.is_empty() || self.state.get() == PortState::Gone {
            return 0;
        }
        if let PortQueue::Socket(socket) = &self.sink {
            if Fault::Send.strikes() {
                return 0;
            }
            let mut refused = Vec::new();
            let guard = self.lock();
            let done = socket.send(batch, &mut |place| refused.push(place));
            drop(guard);
            let mut places = refused.iter().copied().peekable();
            let mut sent = Batch::new();
            for (place, packet) in batch.drain(..done).enumerate() {
                let of = if places.next_if_eq(&place).is_some() { &mut back.unsent } else { &mut sent };
                of.push(packet);
            }
            let n = sent.len();
            if back.wants_sent {
                back.sent.append(&mut sent);
            } else {
                sent.free_sent(n);
            }
            self.refused += refused.len() as u64;
            return n;
        }
        let mut taken = 0;
        loop {
            let mut later = (batch.len() > COPIED_AT_ONCE).then(|| batch.split_off(COPIED_AT_ONCE));
            taken += match &self.sink {
                PortQueue::Virtual(queue) => back.copying(batch, usize::MAX, |batch| queue.send(batch)),
                PortQueue::Memif(queue) => back.copying(batch, usize::MAX, |batch| queue.put(batch)),
                &PortQueue::Device(queue) => self.send_copies(queue, batch, back),
                PortQueue::Socket(_) => 0,
            };
            let full = !batch.is_empty();
            later.iter_mut().for_each(|later| batch.append(later));
            if full || batch.is_empty() {
                return taken;
            }
        }
    }

    /// Gives the first `ready` packets, which are of pools, to the driver; returns how many it took.
    #[inline]
    fn transmit(&self, queue: DeviceQueue, ready: usize, batch: &mut Batch) -> usize {
        if ready == 0 || Fault::Send.strikes() {
            return 0;
        }
        let Some(_inside) = self.occupied.enter(&self.state) else { return 0 };
        let _guard = self.lock();
        let mut sent = 0;
        while sent < ready {
            let n = (ready - sent).min(u16::MAX.into()) as u16;
            // SAFETY: the port is started for as long as `self.port` lives and has not gone, and this thread
            // alone uses the queue now; `n` mbufs of pools that the batch owns are there.
            let taken = unsafe {
                let mbufs = batch.as_mbufs_mut().add(sent);
                dpdk_sys::valiant_tx_burst(queue.port, queue.queue, mbufs, n)
            };
            if taken == 0 {
                break;
            }
            sent += usize::from(taken);
        }
        // SAFETY: the driver owns the first `sent` mbufs.
        unsafe { batch.forget_front(sent) };
        sent
    }

    #[inline]
    fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.shared.as_deref().map(lock_counted)
    }

    /// The same for a batch with packets from the heap.
    #[cold]
    fn send_copies(&mut self, queue: DeviceQueue, batch: &mut Batch, back: &mut Returned) -> usize {
        let (mut sent, mut reaped) = (0, false);
        loop {
            let ready = self.copy_to_pool(batch, &mut back.unsent);
            let taken = back.copying(batch, ready, |batch| self.transmit(queue, ready, batch));
            sent += taken;
            if taken < ready || batch.is_empty() {
                return sent;
            }
            if !reaped {
                let Some(_inside) = self.occupied.enter(&self.state) else { return sent };
                let _guard = self.lock();
                // SAFETY: the port is started for as long as `self.port` lives, and this thread alone uses
                // the queue now.
                unsafe { dpdk_sys::valiant_tx_reap(queue.port, queue.queue) };
                reaped = true;
            } else if taken == 0 {
                let starved = batch.iter().take_while(|packet| packet.is_heap()).count();
                batch.drain(..starved).for_each(|packet| back.unsent.push(packet));
                self.starved += starved as u64;
            }
        }
    }

    /// Replaces the heap packets by copies; returns how many packets at the front may be sent.
    /// Those that cannot be copied go to `unsent`.
    fn copy_to_pool(&mut self, batch: &mut Batch, unsent: &mut Batch) -> usize {
        let mut i = 0;
        while i < batch.len() {
            if !batch[i].is_heap() {
                i += 1;
                continue;
            }
            let pool = self.port.pool();
            if batch[i].len() + DEFAULT_HEADROOM > pool.buffer_len() {
                unsent.push(batch.remove(i));
                self.lost += 1;
                continue;
            }
            match Packet::from_bytes_in(pool, batch[i].data()) {
                Some(copy) => batch[i] = copy,
                None => return i,
            }
            self.copied += 1;
            i += 1;
        }
        i
    }

    /// The port.
    pub fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// The queue's number.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Whether sending takes a lock, because the queue is shared.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether the other side takes what this queue sends, where that is up to it
    /// ([`Port::peer_sets_tx_queues`]); to be asked after the queue has sent something. `None`: nobody is
    /// connected, or the driver does not tell.
    ///
    /// The memif driver lets a queue that the peer has not set up write into another ring, but counts only
    /// the queues that the peer has set up.
    pub fn is_served(&self) -> Option<bool> {
        let &PortQueue::Device(DeviceQueue { port, queue, .. }) = &self.sink else { return None };
        let connected = || self.port.link().up;
        let sent = connected().then(|| self.port.sent_by(port, queue)).flatten()?;
        // What it counts is gone as soon as the connection is.
        connected().then_some(sent > 0)
    }

    /// Packets that were copied from the heap to be sent.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Packets that were dropped because they are longer than the port's buffers.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Packets from the heap that were dropped because the port's pool had no buffer for a copy.
    pub fn starved(&self) -> u64 {
        self.starved
    }

    /// Packets that the kernel has refused: longer than the interface's MTU, or the interface is down.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        self.port.give_back_tx(self.index);
    }
}
