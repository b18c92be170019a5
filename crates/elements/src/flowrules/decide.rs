//! What rules say of the packets of a batch.

use super::Rules;
use crate::prelude::*;
use rules::{Action, Fate, Field, Hit, Key, Layer, Reader, Verdict, View};
use runtime::MAX_BATCH;
use tables::toeplitz::{MICROSOFT_KEY, Toeplitz};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It goes to this queue.
    Queue(u16),
    /// It is dropped.
    Drop,
    /// No rule decides.
    Miss,
}

/// Decides about the packets of one worker.
pub(crate) struct Decider {
    reader: Reader,
    hash: Toeplitz,
    /// Of the current batch: fields, groups, and decisions of all packets; those about which nothing is
    /// decided yet, with their fields, and what is found for them.
    keys: Vec<Key>,
    groups: Vec<u32>,
    decisions: Vec<Decision>,
    open: Vec<usize>,
    these: Vec<usize>,
    their_keys: Vec<Key>,
    hits: Vec<Hit>,
}

/// What a rule, or its absence, means for a packet.
enum Next {
    Decided(Decision),
    Jump(u32),
}

/// Counts packets in a row that the same rule has counted.
struct Counting<'v, 'r> {
    view: &'v View<'r>,
    verdict: Option<Verdict>,
    packets: u64,
}

impl Counting<'_, '_> {
    fn add(&mut self, verdict: &Verdict) {
        if self.verdict.is_some_and(|last| last.counter == verdict.counter) {
            self.packets += 1;
            return;
        }
        self.end();
        (self.verdict, self.packets) = (Some(*verdict), 1);
    }
    fn end(&mut self) {
        self.verdict.iter().for_each(|verdict| self.view.count(verdict, self.packets));
    }
}

/// Performs the actions of a rule with more than a [`Verdict`] holds.
fn perform(list: &[Action], key: &mut Key, packet: &mut Packet, hash: &Toeplitz) -> Fate {
    let mut fate = Fate::None;
    for action in list {
        match action {
            Action::Queue(queue) => fate = Fate::Queue(*queue),
            Action::Rss(queues) => {
                let hash = flow_hash(hash, key) as usize;
                fate = queues.get(hash % queues.len().max(1)).map_or(Fate::None, |queue| Fate::Queue(*queue));
            }
            Action::Drop => fate = Fate::Drop,
            Action::Jump(group) => fate = Fate::Jump(*group),
            Action::Mark(mark) => set_mark(*mark, key, packet),
            Action::SetMeta { data, mask } => set(key, Field::Meta, *data, *mask),
            Action::SetTag { data, mask, .. } => set(key, Field::Tag, *data, *mask),
            // Counted already, or refused when the rule came.
            _ => {}
        }
    }
    fate
}

fn set_mark(mark: u32, key: &mut Key, packet: &mut Packet) {
    packet.set_aggregate(mark);
    key.set(Field::Mark, mark.into());
}

fn set(key: &mut Key, field: Field, data: u32, mask: u32) {
    let before = key.get(field) as u32;
    key.set(field, (before & !mask | data & mask).into());
}

/// The hash of a packet's addresses and ports; ports that it does not have are 0.
fn flow_hash(hash: &Toeplitz, key: &Key) -> u32 {
    let ports = (key.get(Field::SrcPort) as u16, key.get(Field::DstPort) as u16);
    if key.get(Field::Layers) & Layer::Ipv6.bit() == 0 {
        let (src, dst) = (key.get(Field::SrcLow) as u32, key.get(Field::DstLow) as u32);
        return hash.ipv4_ports(src, dst, ports.0, ports.1);
    }
    let address = |high, low| (u128::from(key.get(high)) << 64 | u128::from(key.get(low))).to_be_bytes();
    let (src, dst) = (address(Field::SrcHigh, Field::SrcLow), address(Field::DstHigh, Field::DstLow));
    hash.ipv6_ports(src, dst, ports.0, ports.1)
}

impl Decider {
    /// For one worker.
    pub(crate) fn new(rules: &Rules) -> Self {
        Self {
            reader: rules.reader(),
            hash: Toeplitz::new(&MICROSOFT_KEY),
            keys: Vec::with_capacity(MAX_BATCH),
            groups: Vec::with_capacity(MAX_BATCH),
            decisions: Vec::with_capacity(MAX_BATCH),
            open: Vec::with_capacity(MAX_BATCH),
            these: Vec::with_capacity(MAX_BATCH),
            their_keys: Vec::with_capacity(MAX_BATCH),
            hits: Vec::with_capacity(MAX_BATCH),
        }
    }

    /// What becomes of each packet. Marks are set, and what counts is counted.
    pub(crate) fn decide(&mut self, batch: &mut Batch) -> &[Decision] {
        self.keys.clear();
        self.keys.extend(batch.iter().map(|packet| rules::headers::read(packet.data())));
        let many = self.keys.len();
        self.groups.clear();
        self.groups.resize(many, 0);
        self.decisions.clear();
        self.decisions.resize(many, Decision::Miss);
        self.open.clear();
        self.open.extend(0..many);
        let view = self.reader.now();
        let mut counting = Counting { view: &view, verdict: None, packets: 0 };
        // A jump leads to a later group, so the least group comes once.
        while let Some(group) = self.open.iter().filter_map(|at| self.groups.get(*at)).min().copied() {
            self.these.clear();
            let groups = &self.groups;
            self.these.extend(self.open.extract_if(.., |at| groups.get(*at) == Some(&group)));
            self.hits.clear();
            self.hits.resize(self.these.len(), Hit::NOTHING);
            // At first, and mostly, all packets are in one group.
            if self.these.len() == many {
                view.find_many(group, &self.keys, &mut self.hits);
            } else {
                self.their_keys.clear();
                self.their_keys.extend(self.these.iter().filter_map(|at| self.keys.get(*at)));
                view.find_many(group, &self.their_keys, &mut self.hits);
            }
            for (at, hit) in self.these.iter().zip(&self.hits) {
                let (Some(key), Some(packet)) = (self.keys.get_mut(*at), batch.get_mut(*at)) else {
                    continue;
                };
                let next = match hit.number() {
                    None => Next::Decided(Decision::Miss),
                    Some(_) => {
                        let verdict = hit.verdict();
                        if verdict.counter.is_some() {
                            counting.add(&verdict);
                        }
                        verdict.mark.into_iter().for_each(|mark| set_mark(mark, key, packet));
                        let fate = match verdict.fate {
                            Fate::Listed => perform(view.list(&verdict), key, packet, &self.hash),
                            fate => fate,
                        };
                        match fate {
                            Fate::Queue(queue) => Next::Decided(Decision::Queue(queue)),
                            Fate::Drop => Next::Decided(Decision::Drop),
                            Fate::Jump(later) if later > hit.group() => Next::Jump(later),
                            Fate::None | Fate::Listed | Fate::Jump(_) => Next::Decided(Decision::Miss),
                        }
                    }
                };
                match next {
                    Next::Decided(decision) => {
                        self.decisions.iter_mut().skip(*at).take(1).for_each(|d| *d = decision)
                    }
                    Next::Jump(later) => {
                        self.groups.iter_mut().skip(*at).take(1).for_each(|g| *g = later);
                        self.open.push(*at);
                    }
                }
            }
        }
        counting.end();
        &self.decisions
    }
}
