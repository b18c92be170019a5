//! Where the frames of a source come from: made for flows, or read from a capture file.

use super::replay::Replay;
use crate::prelude::*;
use measure::flows::FlowSpec;
use measure::frame::{Family, Flow, Stamp, Template};
use measure::rate::Rate;
use measure::sizes::{SizeSource, Sizes};
use measure::tag;
use measure::zipf::Zipf;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The contents of frames, apart from their flows.
pub(in crate::measure) struct FrameContents {
    pub(in crate::measure) src: wire::EtherAddr,
    pub(in crate::measure) dst: wire::EtherAddr,
    pub(in crate::measure) ttl: u8,
    pub(in crate::measure) stream: u8,
    pub(in crate::measure) sizes: Sizes,
    /// The exponent of Zipf's law for the flows; 0: they are sent in turn.
    pub(in crate::measure) skew: f64,
    /// The number of the run, which distinguishes its frames from those of others.
    pub(in crate::measure) run: u8,
}

/// Where one worker's frames come from.
pub(in crate::measure) enum Frames {
    V4(Box<FlowFrames<Ipv4Addr>>),
    V6(Box<FlowFrames<Ipv6Addr>>),
    Replay(Replay),
}

/// The frames that were made: their number, their cost, their bytes.
#[derive(Default)]
pub(in crate::measure) struct MadeFrames {
    pub(in crate::measure) frames: usize,
    pub(in crate::measure) cost: u64,
    pub(in crate::measure) bytes: u64,
}

impl Frames {
    /// The frames of worker `share.0` of `share.1`, with IPv6 or IPv4.
    pub(in crate::measure) fn of_flows(
        spec: &FlowSpec,
        contents: &FrameContents,
        six: bool,
        share: (usize, usize),
    ) -> Result<Self, ArgError> {
        Ok(if six {
            Self::V6(maker(spec, contents, share)?)
        } else {
            Self::V4(maker(spec, contents, share)?)
        })
    }
    /// The number of flows, or of frames in the capture.
    pub(in crate::measure) fn flows(&self) -> usize {
        match self {
            Self::V4(maker) => maker.flows.len(),
            Self::V6(maker) => maker.flows.len(),
            Self::Replay(replay) => replay.len(),
        }
    }
    /// The length of the first frame.
    pub(in crate::measure) fn first_len(&mut self) -> usize {
        match self {
            Self::V4(maker) => maker.sizes.size(),
            Self::V6(maker) => maker.sizes.size(),
            Self::Replay(replay) => replay.frame().len(),
        }
    }
    /// Makes frames from empty packets as long as `budget` lasts; `len` is the length of the next one.
    #[inline]
    pub(in crate::measure) fn make(
        &mut self,
        packets: &mut [Packet],
        len: &mut usize,
        rate: Rate,
        budget: u64,
        now_ns: u64,
    ) -> MadeFrames {
        let time = Stamp::new(now_ns);
        match self {
            Self::V4(maker) => make_all(&mut **maker, packets, len, rate, budget, time),
            Self::V6(maker) => make_all(&mut **maker, packets, len, rate, budget, time),
            Self::Replay(replay) => make_all(replay, packets, len, rate, budget, time),
        }
    }
}

/// Flows of one IP version, used in turn.
pub(in crate::measure) struct FlowFrames<A> {
    template: Template<A>,
    flows: Box<[Flow<A>]>,
    next: usize,
    /// Which flow is next, if not all in turn.
    draw: Option<Zipf>,
    sizes: SizeSource,
}

fn maker<A: Family>(
    spec: &FlowSpec,
    contents: &FrameContents,
    share: (usize, usize),
) -> Result<Box<FlowFrames<A>>, ArgError> {
    let version = if A::BITS == 32 { "IPv4" } else { "IPv6" };
    let sizes = contents
        .sizes
        .clone()
        .at_least(A::SHORTEST, version)
        .map_err(|e| ArgError::new(format!("SIZE: {e}")))?;
    let longest = sizes.bounds().1;
    // Each worker needs a flow of its own.
    let count = spec.count().map_err(|e| ArgError::new(format!("FLOWS: {e}")))?.max(share.1 as u32);
    let flows = spec
        .tuples::<A>(share.0, share.1, count)
        .map(|(i, tuple)| Flow::new(&tuple, tag::identity(contents.run, contents.stream, i)))
        .collect();
    let template = Template::new(contents.src, contents.dst, contents.ttl, longest);
    let sizes = sizes.source(spec.seed.wrapping_add(share.0 as u64));
    // Each worker draws among its own flows.
    let ranks = (0..count).skip(share.0).step_by(share.1.max(1)).map(|index| index + 1);
    let seed = spec.seed.wrapping_add(share.0 as u64);
    let mut draw = (contents.skew > 0.0).then(|| Zipf::new(ranks, contents.skew, seed));
    let next = draw.as_mut().map_or(0, Zipf::draw);
    Ok(Box::new(FlowFrames { template, flows, next, draw, sizes }))
}

/// Makes frames, one after the other.
trait MakeFrames {
    /// Makes `packet` the next frame, of `len` bytes. Returns `false`, and makes no frame, if there is no
    /// memory.
    fn make(&mut self, packet: &mut Packet, len: usize, time: Stamp) -> bool;
    /// The length of the frame after it.
    fn next_len(&mut self) -> usize;
}

impl<A: Family> MakeFrames for FlowFrames<A> {
    #[inline]
    fn make(&mut self, packet: &mut Packet, len: usize, time: Stamp) -> bool {
        let Some(flow) = self.flows.get_mut(self.next) else { return false };
        if !fill(packet, self.template.bytes(len)) || !self.template.stamp(packet.data_mut(), flow, time) {
            return false;
        }
        self.next = match &mut self.draw {
            Some(draw) => draw.draw(),
            None if self.next + 1 == self.flows.len() => 0,
            None => self.next + 1,
        };
        true
    }
    #[inline]
    fn next_len(&mut self) -> usize {
        self.sizes.size()
    }
}

impl MakeFrames for Replay {
    #[inline]
    fn make(&mut self, packet: &mut Packet, _len: usize, _time: Stamp) -> bool {
        fill(packet, self.frame())
    }
    #[inline]
    fn next_len(&mut self) -> usize {
        self.advance();
        self.frame().len()
    }
}

/// [`Frames::make`] for frames of one kind.
#[inline]
fn make_all<M: MakeFrames>(
    maker: &mut M,
    packets: &mut [Packet],
    len: &mut usize,
    rate: Rate,
    budget: u64,
    time: Stamp,
) -> MadeFrames {
    let mut made = MadeFrames::default();
    for packet in packets {
        let price = rate.cost(*len);
        if made.cost + price > budget || !maker.make(packet, *len, time) {
            break;
        }
        made.frames += 1;
        made.cost += price;
        made.bytes += *len as u64;
        *len = maker.next_len();
    }
    made
}

/// Writes the bytes into a packet; the packet gets a larger buffer if they do not fit.
#[inline(always)]
fn fill(packet: &mut Packet, bytes: &[u8]) -> bool {
    if packet.assign(bytes) {
        return true;
    }
    match Packet::from_bytes(bytes) {
        Some(large) => {
            *packet = large;
            true
        }
        None => false,
    }
}
