//! Sorts the packets of a vector to outputs, in vectors.

use crate::prelude::*;

/// Why a frame goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Lost {
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

const REASONS: [&str; 9] = [
    "frame too short",
    "not an internal address",
    "another version",
    "no such node",
    "not for this node",
    "not made by this node",
    "no such port",
    "next hop outside of the network",
    "unreachable output node",
];

/// Where a packet goes: an output, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way(u16);

/// Ways from here on are reasons.
const NOWHERE: u16 = 0xff00;

impl Way {
    /// An output; there are fewer than 65,280.
    #[inline]
    pub(super) const fn output(n: usize) -> Self {
        Self(n as u16)
    }
    /// Nowhere.
    #[inline]
    pub(super) const fn lost(why: Lost) -> Self {
        Self(NOWHERE + why as u16)
    }
    #[inline]
    fn index(self) -> usize {
        self.0.into()
    }
    /// The node that an output of this number leads to.
    #[inline]
    pub(super) fn node(self, nodes: u16) -> Option<cluster::NodeId> {
        (self.0 < nodes).then_some(cluster::NodeId(self.0))
    }
    fn reason(self) -> Option<&'static str> {
        REASONS.get(usize::from(self.0.checked_sub(NOWHERE)?)).copied()
    }
}

impl From<Result<usize, Lost>> for Way {
    #[inline]
    fn from(way: Result<usize, Lost>) -> Self {
        way.map_or_else(Self::lost, Self::output)
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

/// The ways of a vector's packets. Allocates when it is made, and not again.
pub(super) struct Spread {
    pub(super) ways: Vec<Way>,
    bins: Box<[Batch]>,
    filled: Vec<usize>,
}

impl Spread {
    /// For so many outputs and vectors of so many packets.
    pub(super) fn new(outputs: usize, vector: usize) -> Self {
        Self {
            ways: Vec::with_capacity(vector),
            bins: (0..outputs).map(|_| Batch::new()).collect(),
            filled: Vec::with_capacity(outputs),
        }
    }
    /// Gives every output its packets, in their order; `ways` has one for each. What goes nowhere is dropped.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        mut batch: Batch,
        cx: &mut Cx<'_>,
        mut each: impl FnMut(usize, Batch, &mut Cx<'_>),
    ) {
        debug_assert_eq!(self.ways.len(), batch.len());
        let Some(&first) = self.ways.first() else { return cx.recycle(batch) };
        if self.ways.iter().all(|way| *way == first) {
            return match first.reason() {
                None => each(first.index(), batch, cx),
                Some(reason) => cx.drop_batch(batch, reason),
            };
        }
        for (packet, way) in batch.drain(..).zip(&self.ways) {
            match self.bins.get_mut(way.index()) {
                Some(bin) => {
                    if bin.is_empty() {
                        self.filled.push(way.index());
                        *bin = cx.spare_batch();
                    }
                    bin.push(packet);
                }
                None => cx.drop(packet, way.reason().unwrap_or("output not connected")),
            }
        }
        cx.recycle(batch);
        for output in self.filled.drain(..) {
            if let Some(bin) = self.bins.get_mut(output) {
                each(output, bin.take(), cx);
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
            (Lost::TooShort, "frame too short"),
            (Lost::Foreign, "not an internal address"),
            (Lost::Version, "another version"),
            (Lost::NoNode, "no such node"),
            (Lost::NotHere, "not for this node"),
            (Lost::NotOurs, "not made by this node"),
            (Lost::NoPort, "no such port"),
            (Lost::Outside, "next hop outside of the network"),
            (Lost::Unreachable, "unreachable output node"),
        ];
        assert_eq!(all.len(), REASONS.len());
        for (why, text) in all {
            assert_eq!(Way::lost(why).reason(), Some(text));
        }
        assert_eq!(Way::output(4096).reason(), None);
    }
}
