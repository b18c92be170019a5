//! The anti-replay window of one inbound security association (RFC 4303 §3.4.3, with the ring of RFC 6479).

use runtime::DropReason;

/// The widest window, in packets.
pub(crate) const MAX_WINDOW: u32 = 65_536;

/// Its number was received before, or is 0, which is never sent.
pub(crate) const REPLAYED: DropReason = DropReason::new("replayed");
/// It is older than the window; whether it was received before is not known.
pub(crate) const BEHIND: DropReason = DropReason::new("behind the window");

/// The set of the last sequence numbers that have been received. Numbers have 64 bits; without extended
/// numbers, the upper half is zero.
///
/// The bits are in a ring of words, one word longer than the window, so that advancing clears whole words and
/// shifts nothing.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// The highest number seen; 0: none.
    top: u64,
    size: u32,
    words: Box<[u64]>,
}

impl Window {
    /// A window of `size` packets; 0 accepts all packets.
    pub(crate) fn new(size: u32) -> Window {
        let size = size.min(MAX_WINDOW);
        let words = if size == 0 { 0 } else { (size.div_ceil(64) as usize + 1).next_power_of_two() };
        Window { top: 0, size, words: vec![0; words].into() }
    }

    /// A window of another size that continues with these numbers. Numbers that this window does not cover
    /// count as received.
    pub(crate) fn resized(&self, size: u32) -> Window {
        let mut new = Window::new(size);
        new.top = self.top;
        for seq in self.top.saturating_sub(new.size.into()).max(1)..=self.top {
            if self.size == 0 || self.check(seq).is_err() {
                new.mark(seq);
            }
        }
        new
    }

    /// Marks all numbers below `first` as received.
    pub(crate) fn begin_at(&mut self, first: u64) {
        let last = first.saturating_sub(1);
        if last > self.top {
            self.top = last;
            self.words.fill(u64::MAX);
            if let Some(word) = self.word_mut(last) {
                // Numbers above the highest have not been received.
                *word = u64::MAX >> (63 - last % 64);
            }
        }
    }

    /// The highest number that has been received.
    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// The number of a packet that carries its lower half (RFC 4303 appendix A2.2): the number within the
    /// window, or else above it.
    #[inline]
    pub(crate) fn extend(&self, low: u32) -> Result<u64, DropReason> {
        let (high, top) = (self.top >> 32, self.top as u32);
        let bottom = top.wrapping_sub(self.size.saturating_sub(1));
        let high = if bottom <= top {
            // The window lies within one range of 2^32 numbers.
            high.checked_add((low < bottom).into())
        } else {
            // It begins in the previous range.
            high.checked_sub((low >= bottom).into())
        };
        high.filter(|high| high >> 32 == 0).map(|high| high << 32 | u64::from(low)).ok_or(BEHIND)
    }

    /// Whether a packet with this number is accepted: it is not older than the window, and has not been
    /// received yet.
    #[inline]
    pub(crate) fn check(&self, seq: u64) -> Result<(), DropReason> {
        if self.size == 0 || seq > self.top {
            return Ok(());
        }
        if seq == 0 {
            return Err(REPLAYED);
        }
        if self.top - seq >= self.size.into() {
            return Err(BEHIND);
        }
        if self.word(seq) & bit(seq) == 0 { Ok(()) } else { Err(REPLAYED) }
    }

    /// Records the number of an authenticated packet; an error if it does not pass [`Window::check`].
    #[inline]
    pub(crate) fn accept(&mut self, seq: u64) -> Result<(), DropReason> {
        if self.size == 0 {
            self.top = self.top.max(seq);
            return Ok(());
        }
        self.check(seq)?;
        if seq > self.top {
            let (from, to) = (self.top / 64, seq / 64);
            for word in (from + 1..=to).take(self.words.len()) {
                if let Some(word) = self.word_mut(word * 64) {
                    *word = 0;
                }
            }
            self.top = seq;
        }
        self.mark(seq);
        Ok(())
    }

    #[inline]
    fn mark(&mut self, seq: u64) {
        if let Some(word) = self.word_mut(seq) {
            *word |= bit(seq);
        }
    }

    #[inline]
    fn at(&self, seq: u64) -> usize {
        (seq / 64) as usize & self.words.len().wrapping_sub(1)
    }

    #[inline]
    fn word(&self, seq: u64) -> u64 {
        self.words.get(self.at(seq)).copied().unwrap_or(u64::MAX)
    }

    #[inline]
    fn word_mut(&mut self, seq: u64) -> Option<&mut u64> {
        let at = self.at(seq);
        self.words.get_mut(at)
    }
}

#[inline]
const fn bit(seq: u64) -> u64 {
    1 << (seq % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The text of RFC 4303, implemented literally.
    #[derive(Default)]
    struct Naive {
        seen: HashSet<u64>,
        top: u64,
    }

    impl Naive {
        fn accept(&mut self, seq: u64, size: u32) -> Result<(), DropReason> {
            if seq != 0 && seq <= self.top && self.top - seq >= size.into() {
                return Err(BEHIND);
            }
            if seq == 0 || !self.seen.insert(seq) {
                return Err(REPLAYED);
            }
            self.top = self.top.max(seq);
            Ok(())
        }
    }

    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn agrees_with_a_naive_one() {
        let state = &mut 0x1234_5678_9abc_def1;
        for size in [1, 2, 31, 32, 63, 64, 65, 100, 128, 1000, 1024, 4096, MAX_WINDOW] {
            for start in [0, 1, 63, 1 << 20, u64::from(u32::MAX) - 3000, u64::MAX - 300_000] {
                let (mut window, mut naive) = (Window::new(size), Naive::default());
                assert_eq!(window.accept(start).is_ok(), naive.accept(start, size).is_ok());
                for _ in 0..4000 {
                    let around = naive.top;
                    let seq = match random(state) % 16 {
                        0 => around.saturating_add(random(state) % (3 * u64::from(size))),
                        1..8 => around.saturating_add(random(state) % 4),
                        8 => random(state) % 3,
                        _ => around.saturating_sub(random(state) % (2 * u64::from(size) + 2)),
                    };
                    let checked = window.check(seq);
                    let expected = naive.accept(seq, size);
                    assert_eq!((checked, window.accept(seq)), (expected, expected), "{size} {seq} {around}");
                    assert_eq!(window.top(), naive.top);
                }
            }
        }
    }

    #[test]
    fn a_far_jump_forgets_everything() {
        let mut window = Window::new(64);
        assert!(window.accept(5).is_ok() && window.accept(5 + (1 << 30)).is_ok());
        assert_eq!(window.check(5), Err(BEHIND));
        assert!(window.check((1 << 30) - 40).is_ok());
        let last = u64::from(u32::MAX);
        assert!(window.accept(last).is_ok() && window.accept(last - 63).is_ok());
        assert_eq!((window.accept(last), window.accept(last - 64)), (Err(REPLAYED), Err(BEHIND)));
    }

    #[test]
    fn another_size_accepts_nothing_twice() {
        let state = &mut 0x0fed_cba9_8765_4321;
        let sizes = [0, 1, 31, 64, 65, 1000, MAX_WINDOW];
        for (from, to) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
            for start in [0, 1, 63, 1 << 20, u64::from(u32::MAX) - 1000] {
                let (mut window, mut seen) = (Window::new(from), HashSet::new());
                for _ in 0..500 {
                    let seq = start + random(state) % 2000;
                    if window.accept(seq).is_ok() {
                        seen.insert(seq);
                    }
                }
                let top = window.top();
                let mut new = window.resized(to);
                assert_eq!(new.top(), top);
                for seq in top.saturating_sub(3000)..=top + 100 {
                    let fresh = new.check(seq).is_ok();
                    assert!(!fresh || to == 0 || !seen.contains(&seq), "{from} {to} {seq}");
                    // The numbers that both windows cover are unchanged.
                    if seq > top || top - seq < from.min(to).into() {
                        assert_eq!(fresh, window.check(seq).is_ok(), "{from} {to} {seq} {top}");
                    }
                }
                assert!(new.accept(top + 1).is_ok() && (to == 0 || new.accept(top + 1).is_err()));
            }
        }
    }

    #[test]
    fn without_a_window_everything_passes() {
        let mut window = Window::new(0);
        assert!([0, 7, 7, 1].map(|seq| window.accept(seq).is_ok()) == [true; 4]);
        assert_eq!(window.top(), 7);
    }

    #[test]
    fn a_late_beginning_takes_what_was_before_for_seen() {
        for size in [1, 64, 65, 1024] {
            for first in [1, 2, 63, 64, 65, 1000, 1 << 40, u64::MAX] {
                let mut window = Window::new(size);
                window.begin_at(first);
                assert_eq!(window.top(), first - 1);
                for back in 1..first.min(100) {
                    let expected = if back <= size.into() { REPLAYED } else { BEHIND };
                    assert_eq!(window.check(first - back), Err(expected), "{size} {first} {back}");
                }
                for seq in (first..first.saturating_add(3)).rev() {
                    assert!(window.accept(seq).is_ok() || first + 2 - seq >= size.into(), "{size} {seq}");
                }
                window.begin_at(1);
                assert!(window.top() >= first - 1, "it does not go back");
            }
        }
    }

    /// RFC 4303 appendix A2.2 in other words: of all numbers with these lower bits, the lowest that is not
    /// below the window.
    #[test]
    fn halves_are_found() {
        let state = &mut 0x2468_ace0_1357_9bdf;
        for size in [1u32, 2, 64, 1024, MAX_WINDOW] {
            for top in
                [0, 1, 63, 1 << 20, u64::from(u32::MAX), 1 << 32, (1 << 32) + 40, 5 << 40, (7 << 32) - 1]
            {
                let mut window = Window::new(size);
                window.begin_at(top + 1);
                let bottom = i128::from(top) - i128::from(size) + 1;
                for _ in 0..2000 {
                    let around = top
                        .wrapping_add(random(state) % (4 * u64::from(size)))
                        .wrapping_sub(2 * u64::from(size));
                    let low =
                        if random(state).is_multiple_of(4) { random(state) as u32 } else { around as u32 };
                    let mut seq = i128::from(low);
                    while seq < bottom {
                        seq += 1 << 32;
                    }
                    // There are no numbers below the first range: a number that seems to be in the range
                    // before is refused.
                    let before = bottom < 0 && seq >= bottom + (1 << 32);
                    let expected = if before { Err(BEHIND) } else { Ok(seq as u64) };
                    assert_eq!(window.extend(low), expected, "{size} {top:#x} {low:#x}");
                }
            }
        }
        let mut window = Window::new(64);
        window.begin_at(u64::MAX);
        assert_eq!((window.extend(u32::MAX), window.extend(5)), (Ok(u64::MAX), Err(BEHIND)));
    }
}
