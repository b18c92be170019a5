//! What a rule does, in two words: so much of it as most rules need.

use crate::rule::Action;

/// What becomes of a packet after a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The rule says nothing of it: as if no rule had matched.
    None,
    /// It goes to this queue.
    Queue(u16),
    /// It is dropped.
    Drop,
    /// The rules of this group decide.
    Jump(u32),
    /// What the list of actions says decides: it has more than fits here.
    Listed,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// What becomes of the packet.
    pub fate: Fate,
    /// Its mark.
    pub mark: Option<u32>,
    /// The number of its counter, if it is counted.
    pub counter: Option<u32>,
    /// The number of the list of actions, if the fate is [`Fate::Listed`].
    pub list: u32,
}

/// Where the bits of the first word are: what the fate names, which fate, the number of the counter, and
/// whether there is a counter and a mark.
const FATE: u32 = 32;
const COUNTER: u32 = 35;
const COUNTED: u64 = 1 << 62;
const MARKED: u64 = 1 << 63;
/// The most counters.
pub(crate) const COUNTERS: u32 = 1 << (62 - COUNTER);

impl Verdict {
    /// What these actions come to; if they do not fit, `list` gives the number of their list.
    pub(crate) fn of(actions: &[Action], counter: Option<u32>, list: impl FnOnce() -> u32) -> Self {
        let mut verdict = Self { fate: Fate::None, mark: None, counter, list: 0 };
        for action in actions {
            match action {
                Action::Queue(queue) => verdict.fate = Fate::Queue(*queue),
                Action::Drop => verdict.fate = Fate::Drop,
                Action::Jump(group) => verdict.fate = Fate::Jump(*group),
                Action::PassThrough => verdict.fate = Fate::None,
                Action::Mark(mark) => verdict.mark = Some(*mark),
                Action::Count => {}
                _ => return Self { fate: Fate::Listed, mark: None, counter, list: list() },
            }
        }
        verdict
    }

    /// As two words: the second has the mark.
    pub(crate) fn words(self) -> (u64, u32) {
        let (kind, what) = match self.fate {
            Fate::None => (0, 0),
            Fate::Queue(queue) => (1, u32::from(queue)),
            Fate::Drop => (2, 0),
            Fate::Jump(group) => (3, group),
            Fate::Listed => (4, self.list),
        };
        let counter = self.counter.map_or(0, |number| COUNTED | u64::from(number) << COUNTER);
        let marked = if self.mark.is_some() { MARKED } else { 0 };
        (marked | counter | kind << FATE | u64::from(what), self.mark.unwrap_or(0))
    }

    pub(crate) fn from_words(word: u64, mark: u32) -> Self {
        let what = word as u32;
        let fate = match word >> FATE & 7 {
            1 => Fate::Queue(what as u16),
            2 => Fate::Drop,
            3 => Fate::Jump(what),
            4 => Fate::Listed,
            _ => Fate::None,
        };
        let list = if fate == Fate::Listed { what } else { 0 };
        let counter = (word >> COUNTER) as u32 & (COUNTERS - 1);
        Self {
            fate,
            mark: (word & MARKED != 0).then_some(mark),
            counter: (word & COUNTED != 0).then_some(counter),
            list,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_the_whole_verdict() {
        let of = |actions: &[Action], counter| Verdict::of(actions, counter, || 77);
        let all = [
            of(&[], None),
            of(&[Action::Queue(u16::MAX), Action::Mark(u32::MAX), Action::Count], Some(COUNTERS - 1)),
            of(&[Action::Mark(0), Action::Drop], None),
            of(&[Action::Jump(u32::MAX)], Some(1)),
            of(&[Action::Count, Action::PassThrough], Some(0)),
            of(&[Action::Count, Action::VlanPop, Action::Queue(1)], Some(5)),
        ];
        assert_eq!(all[1].mark, Some(u32::MAX));
        assert_eq!((all[5].fate, all[5].list, all[5].counter), (Fate::Listed, 77, Some(5)));
        for verdict in all {
            let (word, mark) = verdict.words();
            assert_eq!(Verdict::from_words(word, mark), verdict);
        }
    }
}
