//! A rule: what it matches, and what it does.

use crate::key::{Field, Key};

/// What is done with a packet that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It goes to this queue.
    Queue(u16),
    /// It goes to one of these queues, by the hash of its flow.
    Rss(Vec<u16>),
    /// It is dropped.
    Drop,
    /// It is counted.
    Count,
    /// Its mark is set: what the application sees of the rule.
    Mark(u32),
    /// Its metadata is set, where the mask has bits: later groups can match it.
    SetMeta {
        /// The new bits.
        data: u32,
        /// Which bits.
        mask: u32,
    },
    /// A tag is set likewise.
    SetTag {
        /// The new bits.
        data: u32,
        /// Which bits.
        mask: u32,
        /// Which tag.
        index: u8,
    },
    /// The rules of a later group decide.
    Jump(u32),
    /// The outer VLAN tag is removed.
    VlanPop,
    /// A VLAN tag is put in front, of this Ethernet type.
    VlanPush(u16),
    /// The identifier of the outer VLAN tag is set.
    VlanSetId(u16),
    /// The priority of the outer VLAN tag is set.
    VlanSetPriority(u8),
    /// A meter decides.
    Meter(u32),
    /// Nothing more happens in this group: as if no rule had matched.
    PassThrough,
}

/// The values of a field from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// Which field.
    pub field: Field,
    /// The first value.
    pub first: u64,
    /// The last value.
    pub last: u64,
}

/// What a rule matches: packets whose fields have these values where the mask has bits, and lie in all the
/// ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Which bits count.
    pub mask: Key,
    /// Their values; 0 outside of the mask.
    pub value: Key,
    /// Fields that have ranges. The mask has none of their bits.
    pub ranges: Vec<Range>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The group (table) that it is in; packets begin in group 0.
    pub group: u32,
    /// 0 goes first. Of rules with equal priorities that match a packet, the one that was added first does.
    pub priority: u32,
    /// What it matches.
    pub pattern: Pattern,
    /// What it does, in this order.
    pub actions: Vec<Action>,
}

impl Rule {
    /// Whether it counts its packets.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.actions.contains(&Action::Count)
    }
}

impl Pattern {
    /// Demands this value of a field's bits in the mask.
    pub fn demand(&mut self, field: Field, value: u64, mask: u64) {
        let (had, was) = (self.mask.get(field), self.value.get(field));
        let mask = mask & field.most();
        self.mask.set(field, had | mask);
        self.value.set(field, was & !mask | value & mask);
    }

    /// Whether it matches every packet.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.mask == Key::default() && self.ranges.is_empty()
    }

    /// Whether a packet with these fields is matched.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        let bits = || key.0.iter().zip(self.mask.0).zip(self.value.0);
        bits().all(|((word, mask), value)| word & mask == value)
            && self.ranges.iter().all(|range| (range.first..=range.last).contains(&key.get(range.field)))
    }
}
