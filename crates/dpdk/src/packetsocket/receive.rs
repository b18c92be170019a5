//! Receiving: from the ring, and what is longer from the socket's queue.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counters::{Counters, add};
use super::descriptor::{Descriptor, FEW, NOWHERE, parts, writable};
use super::ring::{Frame, Ring};
use crate::batch::Batch;
use crate::buffer::DEFAULT_HEADROOM;
use crate::mempool::Mempool;
use crate::packet::Packet;
use crate::segment::{Cut, HEADERS_MAX, VnetHeader, put_tag};
use crate::steering::Steering;
use crate::tsc;

/// Buffers that are taken from the pool at a time.
pub(super) const STASH: usize = 64;
/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// The receiving side.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) ring: Ring,
    /// How many frames the ring is to have.
    pub(super) frames: usize,
    pub(super) quiet: Quiet,
    pub(super) pool: Mempool,
    /// Buffers for packets to come.
    pub(super) stash: Batch,
    /// The rest of a segment that was cut into more packets than were requested.
    pub(super) rest: Batch,
    pub(super) load: Load,
}

/// How many frames come, and whether they are so many that other processors fill the ring.
#[derive(Debug)]
pub(super) struct Load {
    steering: Option<Arc<Steering>>,
    /// Frames since the last look.
    frames: u64,
    steers: bool,
}

impl Load {
    pub(super) fn new(steering: Option<Arc<Steering>>) -> Load {
        Load { steering, frames: 0, steers: false }
    }

    /// Looks at what has come within a time, both in cycles.
    fn look(&mut self, time: u64, period: u64) {
        /// Frames in a period, about 0.1 s: at fewer, each may have to wake a processor.
        const MANY: u64 = 8192;
        const FEW: u64 = 2048;
        let frames = mem::take(&mut self.frames).saturating_mul(period) / time.max(1);
        let Some(steering) = &self.steering else { return };
        if frames > MANY && !self.steers || frames < FEW && self.steers {
            self.steers = !self.steers;
            steering.want(self.steers);
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let (Some(steering), true) = (&self.steering, self.steers) {
            steering.want(false);
        }
    }
}

/// What a socket knows of the time in which nothing arrives.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// When it last looked, in cycles.
    looked: u64,
    /// Whether frames have arrived since.
    arrived: bool,
    /// The losses that were known then.
    lost: u64,
}

/// What became of a frame.
enum Taken {
    /// It has been received, or it is lost and counted.
    Done,
    /// It has more packets than are requested now.
    Later,
}

impl Receiving {
    pub(super) fn has_waiting(&self) -> bool {
        !self.rest.is_empty() || self.ring.next().is_some()
    }

    pub(super) fn receive(
        &mut self,
        socket: &Descriptor,
        counters: &Counters,
        max: usize,
        batch: &mut Batch,
    ) {
        let end = batch.len() + max;
        let kept = self.rest.len().min(max);
        batch.packets_mut().extend(self.rest.packets_mut().drain(..kept));
        while batch.len() < end {
            let Some(frame) = self.ring.next() else {
                return self.look_whether_deaf(socket, counters);
            };
            self.quiet.arrived = true;
            self.load.frames += 1;
            let started = batch.len() + max > end;
            let taken = take_frame(
                socket,
                counters,
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
                counters.losing.store(true, Ordering::Relaxed);
            }
            self.ring.release();
        }
    }

    /// Makes a new ring if frames are lost and none arrives. When Linux meets a segment that a vnet header
    /// does not describe (of SCTP, of UDP before 6.2, of UDP to be cut into fragments), it loses it, and
    /// never fills the place in the ring that was meant for it, nor any behind.
    #[inline]
    fn look_whether_deaf(&mut self, socket: &Descriptor, counters: &Counters) {
        /// About 0.1 s.
        const PERIOD_CYCLES: u64 = 1 << 28;
        let now = tsc::cycles();
        if now.wrapping_sub(self.quiet.looked) < PERIOD_CYCLES {
            return;
        }
        self.load.look(now.wrapping_sub(self.quiet.looked), PERIOD_CYCLES);
        counters.look_for_losses(socket);
        let lost = counters.rx_missed.load(Ordering::Relaxed);
        let last = mem::replace(&mut self.quiet, Quiet { looked: now, arrived: false, lost });
        if (!last.arrived && lost != last.lost) || self.ring.is_gone() {
            // Without memory for it, the next look tries again.
            let _ = self.ring.renew(socket, self.frames);
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
fn take_frame(socket: &Descriptor, counters: &Counters, frame: &Frame<'_>, places: &mut Places<'_>) -> Taken {
    let long = frame.status & libc::TP_STATUS_COPY != 0;
    // One that is lost may still be in the queue.
    let lose = |counter: &AtomicU64| {
        if long {
            socket.discard();
        }
        add(counter, 1);
        Taken::Done
    };
    if frame.outgoing {
        if long {
            socket.discard();
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
        if taken != Some(VnetHeader::LEN + frame.len) || !data[tag..].starts_with(frame.data) {
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
fn cut_frame(socket: &Descriptor, frame: &Frame<'_>, cut: &Cut, places: &mut Places<'_>) -> Result<(), Lost> {
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
        let taken = socket.take(parts);
        // Of another frame, the payload would get these headers, and a right checksum.
        if taken != Some(VnetHeader::LEN + frame.len) || !frame.data.starts_with(&unused[..untagged]) {
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
