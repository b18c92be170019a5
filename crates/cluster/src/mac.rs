//! The Ethernet addresses of packets inside the cluster. They carry the output node and the next hop, so that
//! no node after the first reads an IP header (RouteBricks, §6.1).
//!
//! ```text
//!  0                   1                   2                   3                   4
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7
//! +---------------+---+---+-----------------------+---------------+-------------------------------+
//! | 1100 0010     | 0 |pha|          node         |      port     |            next hop           |
//! +---------------+---+---+-----------------------+---------------+-------------------------------+
//! ```
//!
//! The first byte, `c2`, is that of a locally administered unicast address; its `2` is the quadrant that IEEE
//! 802c leaves to administrators. Nodes are few enough to index a table with bytes 1 and 2, so the number of
//! external ports is bounded by the code (4,096 nodes of 256 ports), not by the receive queues of a port. A
//! NIC that steers packets to queues by address needs bytes 0 to 2.
//!
//! The source address ([`SourceCode`]) has the input node, and a sequence number if the output node restores
//! the order:
//!
//! ```text
//!  0                   1                   2                   3                   4
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7
//! +---------------+-----------------------+-------------------------------------------------------+
//! | 1100 0110     |          node         |                        number                         |
//! +---------------+-----------------------+-------------------------------------------------------+
//! ```

use crate::{MAX_NODES, NodeId};

const FIRST: u8 = 0xc2;
const RESERVED: u8 = 0xc0;
const PHASE: u8 = 0x30;

/// The part of the path that a packet is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Directly from the input node to the output node.
    Direct = 0,
    /// On the way to an intermediate node.
    First = 1,
    /// On the way from the intermediate to the output node.
    Second = 2,
    /// Between neighbors: a frame of the cluster's own protocol ([`crate::frame`]), never forwarded. The
    /// node is the neighbor.
    Control = 3,
}

/// Where a packet leaves the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacCode {
    /// The output node, below [`MAX_NODES`].
    pub node: NodeId,
    /// Its external port.
    pub port: u8,
    /// The next hop, an index into the port's neighbors.
    pub next_hop: u16,
    /// The part of the path.
    pub phase: Phase,
}

/// Why an address is not an internal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACode {
    /// It is an ordinary address.
    #[error("not an internal address: those start with c2")]
    Foreign,
    /// It has bits that this version does not use.
    #[error("an internal address of another version")]
    Version,
    /// The node is not one of the cluster.
    #[error("an internal address of node {0}, which the cluster does not have")]
    Node(NodeId),
}

impl MacCode {
    /// The address; none if the node is beyond [`MAX_NODES`].
    #[inline]
    #[must_use]
    pub const fn encode(self) -> Option<[u8; 6]> {
        if self.node.0 >= MAX_NODES {
            return None;
        }
        let [high, low] = self.node.0.to_be_bytes();
        let [hop_high, hop_low] = self.next_hop.to_be_bytes();
        Some([FIRST, ((self.phase as u8) << 4) | high, low, self.port, hop_high, hop_low])
    }
    /// The phase, by the first two bytes of an address.
    #[inline]
    pub const fn phase_of(first: u8, second: u8) -> Result<Phase, NotACode> {
        if first != FIRST {
            return Err(NotACode::Foreign);
        }
        match (second & RESERVED, (second >> 4) & 3) {
            (0, 0) => Ok(Phase::Direct),
            (0, 1) => Ok(Phase::First),
            (0, 2) => Ok(Phase::Second),
            (0, 3) => Ok(Phase::Control),
            _ => Err(NotACode::Version),
        }
    }
    /// Whether an address that begins with these two bytes is of a data frame: of every phase but
    /// [`Phase::Control`].
    #[inline]
    #[must_use]
    pub const fn is_data(first: u8, second: u8) -> bool {
        let least = u16::from_be_bytes([FIRST, (Phase::Direct as u8) << 4]);
        u16::from_be_bytes([first, second]).wrapping_sub(least) < (Phase::Control as u16) << 4
    }
    /// The meaning of an address in a cluster of `nodes` nodes.
    #[inline]
    pub const fn decode(address: [u8; 6], nodes: u16) -> Result<Self, NotACode> {
        let [first, high, low, port, hop_high, hop_low] = address;
        let phase = match Self::phase_of(first, high) {
            Ok(phase) => phase,
            Err(why) => return Err(why),
        };
        let node = NodeId(u16::from_be_bytes([high & 0xf, low]));
        if node.0 >= nodes {
            return Err(NotACode::Node(node));
        }
        Ok(Self { node, port, next_hop: u16::from_be_bytes([hop_high, hop_low]), phase })
    }
    /// Whether an address has the form of the cluster's own: external ports must not accept these.
    #[inline]
    #[must_use]
    pub const fn is_internal(address: [u8; 6]) -> bool {
        address[0] == FIRST
    }
    /// Writes another phase into an address. Changes one byte.
    #[inline]
    pub const fn set_phase(address: &mut [u8; 6], phase: Phase) {
        address[1] = address[1] & !PHASE | (phase as u8) << 4;
    }
    /// The operation of an intermediate node on nearly every frame: an address in its first phase gets the
    /// second one. Returns the node in it, which may not exist. `None`, and nothing is changed: any other
    /// address.
    #[inline]
    pub const fn hand_on(address: &mut [u8; 6]) -> Option<NodeId> {
        let [first, high, low, ..] = *address;
        if first != FIRST || high & 0xf0 != (Phase::First as u8) << 4 {
            return None;
        }
        address[1] = high ^ ((Phase::First as u8 ^ Phase::Second as u8) << 4);
        Some(NodeId(u16::from_be_bytes([high & 0xf, low])))
    }
    /// The address that the intermediate sends on: in its second phase. Changes one byte.
    #[inline]
    #[must_use]
    pub const fn second_phase(self) -> Self {
        Self { phase: Phase::Second, ..self }
    }
}

/// Addresses that a node processes in the same way, recognized by one comparison: the frames after the first
/// one of a batch usually have similar addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    mask: u32,
    value: u32,
    flip: u8,
}

impl Alike {
    const fn new(node: NodeId, phase: Phase, ignored: u8, flip: u8) -> Self {
        let [high, low] = node.0.to_be_bytes();
        let value = u32::from_le_bytes([FIRST, (phase as u8) << 4 | high, low, 0]);
        Self { mask: u32::from_le_bytes([0xff, !ignored, 0xff, 0]), value, flip }
    }
    /// In their first phase, for this node: an intermediate node sends them on in their second phase.
    #[inline]
    #[must_use]
    pub const fn passing(node: NodeId) -> Self {
        Self::new(node, Phase::First, 0, (Phase::First as u8 ^ Phase::Second as u8) << 4)
    }
    /// Direct or in their second phase, for this node, which is their output node.
    #[inline]
    #[must_use]
    pub const fn arriving(node: NodeId) -> Self {
        Self::new(node, Phase::Direct, (Phase::Second as u8) << 4, 0)
    }
    /// Whether an address is one of these. If so, it gets the phase of the next part of its path.
    #[inline]
    pub const fn take(self, address: &mut [u8; 6]) -> bool {
        // The fourth byte is masked; the four bytes are read as one number.
        let Some(front) = address.first_chunk::<4>() else { return false };
        let same = u32::from_le_bytes(*front) & self.mask == self.value;
        if same {
            address[1] ^= self.flip;
        }
        same
    }
}

const SOURCE: u8 = 0xc6;

/// The node where a packet entered the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceCode {
    /// The input node, below [`MAX_NODES`].
    pub node: NodeId,
    /// Which packet it is of those from this node to one external port, from 1 to [`SourceCode::NUMBERS`] and
    /// around; 0: it is not numbered.
    pub number: u32,
}

impl SourceCode {
    /// How many numbers there are.
    pub const NUMBERS: u32 = (1 << 28) - 1;

    /// The address; none if the node or the number is too large.
    #[inline]
    #[must_use]
    pub const fn encode(self) -> Option<[u8; 6]> {
        if self.node.0 >= MAX_NODES || self.number > Self::NUMBERS {
            return None;
        }
        let [first, second, third, fourth] = self.number.to_be_bytes();
        let [high, low] = (self.node.0 << 4).to_be_bytes();
        Some([SOURCE, high, low | first, second, third, fourth])
    }
    /// The meaning of an address in a cluster of `nodes` nodes.
    #[inline]
    pub const fn decode(address: [u8; 6], nodes: u16) -> Result<Self, NotACode> {
        let [kind, high, low, second, third, fourth] = address;
        if kind != SOURCE {
            return Err(NotACode::Foreign);
        }
        let node = NodeId(u16::from_be_bytes([high, low]) >> 4);
        if node.0 >= nodes {
            return Err(NotACode::Node(node));
        }
        Ok(Self { node, number: u32::from_be_bytes([low & 0xf, second, third, fourth]) })
    }
    /// The number of the packet that comes after `before` others; never 0.
    #[inline]
    #[must_use]
    pub const fn number_after(before: u64) -> u32 {
        (before % Self::NUMBERS as u64) as u32 + 1
    }
    /// By how much the packet numbered `number` comes after the one numbered `other`, in the shorter
    /// direction around; negative: before it. For numbers from 1 on.
    #[inline]
    #[must_use]
    pub const fn distance(number: u32, other: u32) -> i32 {
        let n = Self::NUMBERS as i64;
        let ahead = (number as i64 - other as i64).rem_euclid(n);
        (if ahead > n / 2 { ahead - n } else { ahead }) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PHASES: [Phase; 4] = [Phase::Direct, Phase::First, Phase::Second, Phase::Control];

    #[test]
    fn golden() {
        let code = MacCode { node: NodeId(0xabc), port: 0x12, next_hop: 0x3456, phase: Phase::First };
        assert_eq!(code.encode(), Some([0xc2, 0x1a, 0xbc, 0x12, 0x34, 0x56]));
        assert_eq!(code.second_phase().encode(), Some([0xc2, 0x2a, 0xbc, 0x12, 0x34, 0x56]));
        for phase in PHASES {
            let mut address = [0xc2, 0x2a, 0xbc, 0x12, 0x34, 0x56];
            MacCode::set_phase(&mut address, phase);
            assert_eq!(MacCode::decode(address, MAX_NODES), Ok(MacCode { phase, ..code }));
        }
        assert_eq!(MacCode { node: NodeId(4096), ..code }.encode(), None);
        let control = MacCode { node: NodeId(3), port: 0, next_hop: 0, phase: Phase::Control };
        assert_eq!(MacCode::decode([0xc2, 0x30, 3, 0, 0, 0], 4), Ok(control));
        assert_eq!(MacCode::decode([0xc2, 0x80, 0, 0, 0, 0], 4), Err(NotACode::Version));
        assert_eq!(MacCode::decode([0xc2, 0x40, 0, 0, 0, 0], 4), Err(NotACode::Version));
        assert_eq!(MacCode::decode([0x02, 0x42, 0, 0, 0, 0], 4), Err(NotACode::Foreign));
        assert_eq!(MacCode::decode([0xff; 6], 4), Err(NotACode::Foreign));
        assert_eq!(MacCode::decode([0xc2, 0, 4, 0, 0, 0], 4), Err(NotACode::Node(NodeId(4))));
    }

    #[test]
    fn every_node_port_and_phase() {
        for node in 0..MAX_NODES {
            for port in [0, 1, 63, 64, 127, 128, 254, 255] {
                for phase in PHASES {
                    let code = MacCode { node: NodeId(node), port, next_hop: node.rotate_left(5), phase };
                    let address = code.encode().unwrap();
                    assert_eq!(MacCode::decode(address, MAX_NODES), Ok(code));
                    assert!(address[0] & 3 == 2 && MacCode::is_internal(address));
                }
            }
        }
        for value in 0..=u16::MAX {
            let code = MacCode { node: NodeId(1), port: value as u8, next_hop: value, phase: Phase::Second };
            assert_eq!(MacCode::decode(code.encode().unwrap(), 2), Ok(code));
        }
    }

    #[test]
    fn data_frames_are_all_but_control_frames() {
        for bytes in 0..=u16::MAX {
            let [first, second] = bytes.to_be_bytes();
            let phase = MacCode::phase_of(first, second);
            assert_eq!(
                MacCode::is_data(first, second),
                phase.is_ok_and(|p| p != Phase::Control),
                "{bytes:04x}"
            );
        }
    }

    #[test]
    fn sources() {
        let code = SourceCode { node: NodeId(0xabc), number: 0xdef_1234 };
        assert_eq!(code.encode(), Some([0xc6, 0xab, 0xcd, 0xef, 0x12, 0x34]));
        assert_eq!(SourceCode::decode([0xc6, 0xab, 0xcd, 0xef, 0x12, 0x34], MAX_NODES), Ok(code));
        assert_eq!(SourceCode { node: NodeId(4096), ..code }.encode(), None);
        assert_eq!(SourceCode { number: 1 << 28, ..code }.encode(), None);
        assert_eq!(SourceCode::decode([0xc2, 0, 0, 0, 0, 0], 4), Err(NotACode::Foreign));
        assert_eq!(SourceCode::decode([0xc6, 0, 0x40, 0, 0, 0], 4), Err(NotACode::Node(NodeId(4))));
        // A locally administered unicast address that is not a destination.
        assert!(SOURCE & 3 == 2 && !MacCode::is_internal([SOURCE; 6]));
    }

    #[test]
    fn numbers_go_around_without_zero() {
        let n = u64::from(SourceCode::NUMBERS);
        let around: Vec<u32> = (n - 2..n + 2).map(SourceCode::number_after).collect();
        assert_eq!(around, [SourceCode::NUMBERS - 1, SourceCode::NUMBERS, 1, 2]);
        assert_eq!(SourceCode::number_after(u64::MAX), (u64::MAX % n) as u32 + 1);
        for pair in around.windows(2) {
            assert_eq!(SourceCode::distance(pair[1], pair[0]), 1);
            assert_eq!(SourceCode::distance(pair[0], pair[1]), -1);
        }
        assert_eq!(SourceCode::distance(7, 7), 0);
        assert_eq!(SourceCode::distance(2, SourceCode::NUMBERS - 1), 3);
    }

    proptest! {
        #[test]
        fn only_first_phases_are_handed_on(first in 0..4usize, tail: [u8; 5]) {
            let before = [[FIRST, SOURCE, 0, tail[0]][first], tail[0], tail[1], tail[2], tail[3], tail[4]];
            let mut after = before;
            let node = MacCode::hand_on(&mut after);
            match MacCode::decode(before, MAX_NODES) {
                Ok(code) if code.phase == Phase::First => {
                    prop_assert_eq!((node, Some(after)), (Some(code.node), code.second_phase().encode()));
                }
                _ => prop_assert_eq!((node, after), (None, before)),
            }
        }

        #[test]
        fn what_is_alike_is_what_decodes_so(first in 0..3usize, tail: [u8; 5], node in 0..MAX_NODES, like in 0..2u8) {
            let mut before = [[FIRST, SOURCE, 0][first], tail[0], tail[1], tail[2], tail[3], tail[4]];
            if like > 0 {
                // Else hardly ever for this node.
                let [high, low] = node.to_be_bytes();
                (before[1], before[2]) = (before[1] & 0xf0 | high, low);
            }
            let (mut passed, mut arrived) = (before, before);
            let passes = Alike::passing(NodeId(node)).take(&mut passed);
            let arrives = Alike::arriving(NodeId(node)).take(&mut arrived);
            match MacCode::decode(before, MAX_NODES).ok().filter(|code| code.node.0 == node) {
                Some(code) if code.phase == Phase::First => {
                    prop_assert_eq!((passes, Some(passed)), (true, code.second_phase().encode()));
                    prop_assert_eq!((arrives, arrived), (false, before));
                }
                Some(code) if code.phase != Phase::Control => {
                    prop_assert_eq!((passes, passed, arrives, arrived), (false, before, true, before));
                }
                _ => prop_assert_eq!((passes, passed, arrives, arrived), (false, before, false, before)),
            }
        }

        #[test]
        fn a_source_that_decodes_encodes_to_itself(tail: [u8; 5], nodes in 0..=MAX_NODES) {
            let address = [SOURCE, tail[0], tail[1], tail[2], tail[3], tail[4]];
            if let Ok(code) = SourceCode::decode(address, nodes) {
                prop_assert!(code.node.0 < nodes);
                prop_assert_eq!(code.encode(), Some(address));
            }
        }

        #[test]
        fn distances_are_those_of_the_counts(start: u64, ahead in 0..1000u64) {
            let start = start / 2;
            let (a, b) = (SourceCode::number_after(start), SourceCode::number_after(start + ahead));
            prop_assert_eq!(SourceCode::distance(b, a), ahead as i32);
            prop_assert_eq!(SourceCode::distance(a, b), -(ahead as i32));
        }

        #[test]
        fn what_decodes_encodes_to_itself(tail: [u8; 5], nodes in 0..=MAX_NODES) {
            let address = [FIRST, tail[0], tail[1], tail[2], tail[3], tail[4]];
            if let Ok(code) = MacCode::decode(address, nodes) {
                prop_assert!(code.node.0 < nodes);
                prop_assert_eq!(code.encode(), Some(address));
            }
        }
    }
}
