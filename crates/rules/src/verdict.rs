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
    /// Whether it is counted.
    pub count: bool,
    /// The number of the list of actions, if the fate is [`Fate::Listed`].
    pub list: u32,
}

const COUNT: u64 = 1 << 62;
const MARK: u64 = 1 << 63;

impl Verdict {
    /// What these actions come to; the number of their list if they do not fit: `list` gives it.
    pub(crate) fn of(actions: &[Action], list: impl FnOnce() -> u32) -> Self {
        let mut verdict = Self { fate: Fate::None, mark: None, count: false, list: 0 };
        for action in actions {
            match action {
                Action::Queue(queue) => verdict.fate = Fate::Queue(*queue),
                Action::Drop => verdict.fate = Fate::Drop,
                Action::Jump(group) => verdict.fate = Fate::Jump(*group),
                Action::PassThrough => verdict.fate = Fate::None,
                Action::Mark(mark) => verdict.mark = Some(*mark),
                Action::Count => verdict.count = true,
                _ => {
                    return Self {
                        fate: Fate::Listed,
                        mark: None,
                        count: actions.contains(&Action::Count),
                        list: list(),
                    };
                }
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
        let flags = if self.count { COUNT } else { 0 } | if self.mark.is_some() { MARK } else { 0 };
        (flags | kind << 32 | u64::from(what), self.mark.unwrap_or(0))
    }

    pub(crate) fn from_words(word: u64, mark: u32) -> Self {
        let what = word as u32;
        let fate = match word >> 32 & 7 {
            1 => Fate::Queue(what as u16),
            2 => Fate::Drop,
            3 => Fate::Jump(what),
            4 => Fate::Listed,
            _ => Fate::None,
        };
        let list = if fate == Fate::Listed { what } else { 0 };
        Self { fate, mark: (word & MARK != 0).then_some(mark), count: word & COUNT != 0, list }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_the_whole_verdict() {
        let of = |actions: &[Action]| Verdict::of(actions, || 77);
        let all = [
            of(&[]),
            of(&[Action::Queue(u16::MAX), Action::Mark(u32::MAX), Action::Count]),
            of(&[Action::Mark(0), Action::Drop]),
            of(&[Action::Jump(u32::MAX)]),
            of(&[Action::Count, Action::PassThrough]),
            of(&[Action::Count, Action::VlanPop, Action::Queue(1)]),
        ];
        assert_eq!(all[1].mark, Some(u32::MAX));
        assert_eq!((all[5].fate, all[5].list, all[5].count), (Fate::Listed, 77, true));
        for verdict in all {
            let (word, mark) = verdict.words();
            assert_eq!(Verdict::from_words(word, mark), verdict);
        }
    }
}
