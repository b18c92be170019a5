//! The classifier in software, and traffic for it that lies in memory.

use crate::engine::{Engine, Refusal};
use crate::forward::{BURST, Forward, QUEUES, Seen};
use rules::{Fate, Hit, Key, Reader, Refused, Rule, Table, View, headers};

/// The table of rules that `FlowClassifier` and `FromDevice` have.
#[derive(Debug)]
pub struct Software {
    table: Table,
}

fn refusal(taken: Vec<u64>, refused: &Refused) -> Refusal {
    Refusal { taken, words: format!("{refused:?}") }
}

impl Software {
    /// An empty one.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { table: Table::new(seed) }
    }

    /// Traffic of these frames.
    #[must_use]
    pub fn traffic(&self, frames: Vec<[u8; 64]>) -> Memory {
        Memory {
            reader: self.table.reader(),
            frames,
            at: 0,
            keys: [Key::default(); BURST],
            hits: [Hit::NOTHING; BURST],
        }
    }
}

impl Engine for Software {
    type Rule = Rule;

    fn make(&self, rule: Rule) -> Rule {
        rule
    }

    fn add(&self, rules: &[Rule]) -> Result<Vec<u64>, Refusal> {
        let mut taken = Vec::with_capacity(rules.len());
        for rule in rules {
            match self.table.change(&[], std::slice::from_ref(rule)) {
                Ok(numbers) => taken.extend(numbers),
                Err(refused) => return Err(refusal(taken, &refused)),
            }
        }
        Ok(taken)
    }

    fn add_together(&self, rules: &[Rule]) -> Result<Vec<u64>, Refusal> {
        self.change(&[], rules)
    }

    fn remove(&self, numbers: &[u64]) -> Result<(), String> {
        let one = |number: &u64| self.table.change(std::slice::from_ref(number), &[]).map(drop);
        numbers.iter().try_for_each(one).map_err(|refused| format!("{refused:?}"))
    }

    fn replace(&self, numbers: &[u64], rules: &[Rule]) -> Option<Result<(), String>> {
        Some(self.table.replace(numbers, rules).map_err(|refused| format!("{refused:?}")))
    }

    fn change(&self, gone: &[u64], new: &[Rule]) -> Result<Vec<u64>, Refusal> {
        self.table.change(gone, new).map_err(|refused| refusal(Vec::new(), &refused))
    }

    fn len(&self) -> usize {
        self.table.len()
    }
}

/// Frames in memory, of which the rules are found: the traffic and the forwarder of the classifier in
/// software. There is no port, so that the classifier limits.
pub struct Memory {
    reader: Reader,
    frames: Vec<[u8; 64]>,
    at: usize,
    keys: [Key; BURST],
    hits: [Hit; BURST],
}

/// Follows packets through the tables; all of them come to the same one next, as the rules of
/// [`crate::kinds`] have it.
fn follow(view: &View<'_>, keys: &mut [Key], hits: &mut [Hit], seen: &mut Seen) {
    let (mut table, mut open) = (0, keys.len());
    while open > 0 {
        let (Some(keys), Some(hits)) = (keys.get_mut(..open), hits.get_mut(..open)) else { return };
        view.find_many(table, keys, hits);
        let (mut left, mut next) = (0, table);
        for at in 0..open {
            let Some(hit) = hits.get(at).filter(|hit| hit.number().is_some()) else {
                seen.missed += 1;
                continue;
            };
            match hit.verdict().fate {
                Fate::Queue(queue) => {
                    if let Some(count) = seen.queues.get_mut(usize::from(queue).min(QUEUES - 1)) {
                        *count += 1;
                    }
                }
                Fate::Jump(later) if later > hit.group() => {
                    next = later;
                    keys.swap(left, at);
                    left += 1;
                }
                _ => seen.missed += 1,
            }
        }
        (open, table) = (left, next);
    }
}

impl Forward for Memory {
    fn burst(&mut self) -> Seen {
        let mut seen = Seen::default();
        let frames = self.frames.get(self.at..).unwrap_or_default();
        let n = frames.len().min(BURST);
        for (key, frame) in self.keys.iter_mut().zip(frames.iter().take(n)) {
            headers::read_into(key, frame);
        }
        self.at = if n == frames.len() { 0 } else { self.at + n };
        let view = self.reader.now();
        if let (Some(keys), Some(hits)) = (self.keys.get_mut(..n), self.hits.get_mut(..n)) {
            follow(&view, keys, hits, &mut seen);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{KINDS, default_rule, frames};

    #[test]
    fn packets_go_through_the_chain_of_tables_to_their_rules() {
        let engine = Software::new(7);
        for table in 0..4_u32 {
            let rules = KINDS[0].rules(u64::from(table) * 100, 100, table, 1).unwrap();
            engine.add(&rules).unwrap();
            engine.add(&[default_rule(table, (table < 3).then_some(table + 1)).unwrap()]).unwrap();
        }
        let mut traffic = engine.traffic(frames(1000, 0.25, 400));
        let mut all = Seen::default();
        for _ in 0..1000_usize.div_ceil(BURST) {
            all.add(&traffic.burst());
        }
        assert_eq!((all.queues[0], all.queues[1], all.missed), (750, 250, 0));
    }

    #[test]
    fn rules_come_in_one_step_or_in_many() {
        let engine = Software::new(7);
        let rules = KINDS[0].rules(0, 10, 0, 0).unwrap();
        let mut numbers = engine.add(&rules).unwrap();
        numbers.extend(engine.add_together(&rules).unwrap());
        assert_eq!(engine.len(), 20);
        engine.replace(&numbers[..1], &rules[..1]).unwrap().unwrap();
        engine.remove(&numbers).unwrap();
        assert!(engine.is_empty() && engine.remove(&[7777]).is_err());
    }
}
