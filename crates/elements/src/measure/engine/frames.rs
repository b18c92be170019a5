//! Where the frames of a source come from: made for flows, or read from a capture file.

use super::outputs::{ByOutput, Chooser};
use super::replay::Replay;
use crate::prelude::*;
use measure::flows::{FlowSpec, Tuple};
use measure::frame::{Family, Flow, Stamp, Template};
use measure::learned::{Answers, line};
use measure::rate::Rate;
use measure::sizes::{SizeSource, Sizes};
use measure::tag;
use measure::zipf::Zipf;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The contents of frames, apart from their flows.
#[derive(Clone)]
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
    /// Which part goes to which addresses, if there are several outputs.
    pub(in crate::measure) outputs: Option<ByOutput>,
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
    /// The frames of flows that are answered: the part of worker `share.0` of `share.1`; none: it sends none.
    pub(in crate::measure) fn of_answers(
        answers: &Answers,
        contents: &FrameContents,
        seed: u64,
        share: Option<(usize, usize)>,
    ) -> Result<Self, String> {
        let mixed = || "there are flows of IPv4 and of IPv6: frames of one version are sent".to_owned();
        let six = answers.flows.first().is_some_and(|(_, tuple)| tuple.src.is_ipv6());
        let refused = |e: ArgError| e.to_string();
        Ok(if six {
            let all = answers.of_six().ok_or_else(mixed)?;
            Self::V6(
                of_flows(flows_of(&all, contents, share), Order::InTurn, contents, seed).map_err(refused)?,
            )
        } else {
            let all = answers.of_four().ok_or_else(mixed)?;
            Self::V4(
                of_flows(flows_of(&all, contents, share), Order::InTurn, contents, seed).map_err(refused)?,
            )
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
    /// What chooses the outputs, if there are several.
    pub(in crate::measure) fn chooser(&mut self) -> Option<&mut Chooser> {
        let order = match self {
            Self::V4(maker) => &mut maker.order,
            Self::V6(maker) => &mut maker.order,
            Self::Replay(_) => return None,
        };
        match order {
            Order::ByOutput(chooser) => Some(chooser),
            Order::InTurn | Order::Drawn(_) => None,
        }
    }
    /// Frames made to each output, if there are several.
    pub(in crate::measure) fn made_to(&self) -> Vec<(usize, u64)> {
        let order = match self {
            Self::V4(maker) => &maker.order,
            Self::V6(maker) => &maker.order,
            Self::Replay(_) => return Vec::new(),
        };
        match order {
            Order::ByOutput(chooser) => chooser.made().collect(),
            Order::InTurn | Order::Drawn(_) => Vec::new(),
        }
    }
    /// A line for each flow: its number, addresses and ports.
    pub(in crate::measure) fn tuples(&self) -> String {
        fn lines<A: Family>(flows: &[Flow<A>]) -> String {
            flows.iter().map(|flow| line(flow.number(), &flow.tuple())).collect()
        }
        match self {
            Self::V4(maker) => lines(&maker.flows),
            Self::V6(maker) => lines(&maker.flows),
            Self::Replay(_) => String::new(),
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

/// Which flow is next.
enum Order {
    InTurn,
    Drawn(Zipf),
    ByOutput(Box<Chooser>),
}

/// Flows of one IP version.
pub(in crate::measure) struct FlowFrames<A> {
    template: Template<A>,
    flows: Box<[Flow<A>]>,
    next: usize,
    order: Order,
    sizes: SizeSource,
}

fn maker<A: Family>(
    spec: &FlowSpec,
    contents: &FrameContents,
    share: (usize, usize),
) -> Result<Box<FlowFrames<A>>, ArgError> {
    let seed = spec.seed.wrapping_add(share.0 as u64);
    // Each worker draws among its own flows.
    let draw = |count: u32| {
        let ranks = (0..count).skip(share.0).step_by(share.1.max(1)).map(|index| index + 1);
        (contents.skew > 0.0).then(|| Zipf::new(ranks, contents.skew, seed))
    };
    let of_spec = |spec: &FlowSpec, count: u32, first: u32| -> Vec<Flow<A>> {
        let tuples = spec.tuples::<A>(share.0, share.1, count);
        let identity = |i| tag::identity(contents.run, contents.stream, first + i);
        tuples.map(|(i, tuple)| Flow::new(&tuple, identity(i))).collect()
    };
    let (mut flows, mut order) = (Vec::new(), Order::InTurn);
    match &contents.outputs {
        None => {
            // Each worker needs a flow of its own.
            let count = spec.count().map_err(|e| ArgError::new(format!("FLOWS: {e}")))?.max(share.1 as u32);
            flows = of_spec(spec, count, 0);
            if let Some(draw) = draw(count) {
                order = Order::Drawn(draw);
            }
        }
        Some(outputs) => {
            let mut groups = Vec::new();
            for (output, spec, count, part) in outputs.specs(spec, share.1)? {
                let its = of_spec(&spec, count, outputs.first_flow(output));
                groups.push((output, its.len(), draw(count), part));
                flows.extend(its);
            }
            order = Order::ByOutput(Box::new(Chooser::new(groups, spec.random, seed)?));
        }
    }
    of_flows(flows.into(), order, contents, seed)
}

/// A worker's part of these flows, with the numbers that they have.
fn flows_of<A: Family>(
    all: &[(u32, Tuple<A>)],
    contents: &FrameContents,
    share: Option<(usize, usize)>,
) -> Box<[Flow<A>]> {
    let (place, of) = share.unwrap_or((all.len(), 1));
    let part = all.iter().skip(place).step_by(of.max(1));
    part.map(|(flow, tuple)| Flow::new(tuple, tag::identity(contents.run, contents.stream, *flow))).collect()
}

/// Frames of these flows in an order.
fn of_flows<A: Family>(
    flows: Box<[Flow<A>]>,
    mut order: Order,
    contents: &FrameContents,
    seed: u64,
) -> Result<Box<FlowFrames<A>>, ArgError> {
    let version = if A::BITS == 32 { "IPv4" } else { "IPv6" };
    let sizes = contents
        .sizes
        .clone()
        .at_least(A::SHORTEST, version)
        .map_err(|e| ArgError::new(format!("SIZE: {e}")))?;
    let template = Template::new(contents.src, contents.dst, contents.ttl, sizes.bounds().1);
    let next = match &mut order {
        Order::InTurn => 0,
        Order::Drawn(draw) => draw.draw(),
        Order::ByOutput(chooser) => chooser.choose(),
    };
    Ok(Box::new(FlowFrames { template, flows, next, order, sizes: sizes.source(seed) }))
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
        self.next = match &mut self.order {
            Order::InTurn if self.next + 1 == self.flows.len() => 0,
            Order::InTurn => self.next + 1,
            Order::Drawn(draw) => draw.draw(),
            Order::ByOutput(chooser) => {
                chooser.count();
                chooser.choose()
            }
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
