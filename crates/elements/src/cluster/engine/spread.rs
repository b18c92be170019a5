//! Splits a batch into one batch for each output.

use crate::prelude::*;
use crate::splitter::Splitter;

/// Why a frame cannot be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(in crate::cluster) enum Lost {
    TooShort,
    Foreign,
    Version,
    NoNode,
    NotHere,
    NotOurs,
    NoPort,
    Outside,
    Unreachable,
}

const REASONS: [DropReason; 9] = [
    drops::FRAME_TOO_SHORT,
    drops::NOT_AN_INTERNAL_ADDRESS,
    drops::ANOTHER_VERSION,
    drops::NO_SUCH_NODE,
    drops::NOT_FOR_THIS_NODE,
    drops::NOT_MADE_HERE,
    drops::NO_SUCH_PORT,
    drops::OUTSIDE_NETWORK,
    drops::UNREACHABLE_NODE,
];

/// Where a packet goes: an output, or a drop reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Verdict(u16);

/// Values from here on are drop reasons.
const NOWHERE: u16 = 0xff00;

impl Verdict {
    /// An output; there are fewer than 65,280.
    #[inline]
    pub(in crate::cluster) const fn output(n: usize) -> Self {
        Self(n as u16)
    }
    /// A drop reason.
    #[inline]
    pub(in crate::cluster) const fn lost(why: Lost) -> Self {
        Self(NOWHERE + why as u16)
    }
    /// The number of the output.
    #[inline]
    pub(in crate::cluster) fn index(self) -> usize {
        self.0.into()
    }
    /// The node at the output with this number.
    #[inline]
    pub(in crate::cluster) fn node(self, nodes: u16) -> Option<cluster::NodeId> {
        (self.0 < nodes).then_some(cluster::NodeId(self.0))
    }
    fn reason(self) -> Option<DropReason> {
        REASONS.get(usize::from(self.0.checked_sub(NOWHERE)?)).copied()
    }
}

impl From<Result<usize, Lost>> for Verdict {
    #[inline]
    fn from(output: Result<usize, Lost>) -> Self {
        output.map_or_else(Self::lost, Self::output)
    }
}

impl From<cluster::mac::NotACode> for Lost {
    #[inline]
    fn from(why: cluster::mac::NotACode) -> Self {
        match why {
            cluster::mac::NotACode::Foreign => Self::Foreign,
            cluster::mac::NotACode::Version => Self::Version,
            cluster::mac::NotACode::Node(_) => Self::NoNode,
        }
    }
}

/// The outputs of a batch's packets. Memory is allocated only when the value is made.
pub(in crate::cluster) struct Spread {
    pub(in crate::cluster) verdicts: Vec<Verdict>,
    splitter: Splitter,
}

impl Spread {
    /// For this many outputs, and batches of this many packets.
    pub(in crate::cluster) fn new(outputs: usize, batch_size: usize) -> Self {
        Self { verdicts: Vec::with_capacity(batch_size), splitter: Splitter::new(outputs) }
    }
    /// Calls a function for each packet to find its output, except for the first `known` packets, which all
    /// have the same one. Then gives every output its packets, in order, with the sum of their lengths.
    /// Packets without an output are dropped.
    #[inline]
    pub(in crate::cluster) fn sort(
        &mut self,
        mut batch: Batch,
        (known, first): (usize, Verdict),
        cx: &mut Cx<'_>,
        verdict: impl FnMut(&mut Packet) -> Verdict,
        each: impl FnMut(usize, Batch, u64, &mut Cx<'_>),
    ) {
        self.verdicts.clear();
        self.verdicts.resize(known.min(batch.len()), first);
        self.verdicts.extend(batch.iter_mut().skip(known).map(verdict));
        self.deliver(batch, cx, each);
    }
    /// Gives every output its packets, in order, with the sum of their lengths; `verdicts` has one entry for
    /// each packet. Packets without an output are dropped.
    #[inline]
    pub(in crate::cluster) fn deliver(
        &mut self,
        batch: Batch,
        cx: &mut Cx<'_>,
        mut each: impl FnMut(usize, Batch, u64, &mut Cx<'_>),
    ) {
        debug_assert_eq!(self.verdicts.len(), batch.len());
        let differ = self
            .verdicts
            .first()
            .map(|first| self.verdicts.iter().fold(0, |d, verdict| d | (verdict.0 ^ first.0)));
        match self.verdicts.first() {
            Some(first) if differ == Some(0) && first.reason().is_none() => {
                let bytes = batch.iter().map(|packet| packet.len() as u64).sum();
                each(first.index(), batch, bytes, cx);
            }
            _ => {
                let lost = |value: usize, packet, cx: &mut Cx<'_>| {
                    cx.drop(packet, Verdict(value as u16).reason().unwrap_or(DropReason::NOT_CONNECTED));
                };
                self.splitter.split(
                    batch,
                    self.verdicts.iter().map(|verdict| verdict.index()),
                    cx,
                    lost,
                    each,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_text() {
        let all = [
            (Lost::TooShort, drops::FRAME_TOO_SHORT),
            (Lost::Foreign, drops::NOT_AN_INTERNAL_ADDRESS),
            (Lost::Version, drops::ANOTHER_VERSION),
            (Lost::NoNode, drops::NO_SUCH_NODE),
            (Lost::NotHere, drops::NOT_FOR_THIS_NODE),
            (Lost::NotOurs, drops::NOT_MADE_HERE),
            (Lost::NoPort, drops::NO_SUCH_PORT),
            (Lost::Outside, drops::OUTSIDE_NETWORK),
            (Lost::Unreachable, drops::UNREACHABLE_NODE),
        ];
        assert_eq!(all.len(), REASONS.len());
        for (why, text) in all {
            assert_eq!(Verdict::lost(why).reason(), Some(text));
        }
        assert_eq!(Verdict::output(4096).reason(), None);
    }
}
