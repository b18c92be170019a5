//! The anti-replay window of one inbound security association (RFC 4303 §3.4.3, with the ring of RFC 6479).

/// The widest window, in packets.
pub(crate) const MAX_WINDOW: u32 = 65_536;

/// Which of the last sequence numbers have been seen.
///
/// Bits lie in a ring of words, one word longer than the window, so that moving on clears whole words and shifts nothing.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// The highest number seen; 0: none.
    top: u32,
    size: u32,
    words: Box<[u64]>,
}

impl Window {
    /// A window of `size` packets; 0 lets everything through.
    pub(crate) fn new(size: u32) -> Window {
        let size = size.min(MAX_WINDOW);
        let words = if size == 0 { 0 } else { (size.div_ceil(64) as usize + 1).next_power_of_two() };
        Window { top: 0, size, words: vec![0; words].into() }
    }

    /// One of another size that goes on from here. What this one has forgotten counts as seen.
    pub(crate) fn resized(&self, size: u32) -> Window {
        let mut new = Window::new(size);
        new.top = self.top;
        let mask = (new.words.len() as u32).saturating_sub(1);
        for seq in self.top.saturating_sub(new.size).max(1)..=self.top {
            let seen = self.size == 0 || !self.fresh(seq);
            if seen && let Some(word) = new.words.get_mut(((seq / 64) & mask) as usize) {
                *word |= bit(seq);
            }
        }
        new
    }

    /// The highest number that has been seen.
    pub(crate) fn top(&self) -> u32 {
        self.top
    }

    /// Whether a packet of this number may be looked at: it is not older than the window, and not seen yet.
    #[inline]
    pub(crate) fn fresh(&self, seq: u32) -> bool {
        if self.size == 0 {
            return true;
        }
        if seq == 0 || seq.checked_add(self.size).is_some_and(|end| end <= self.top) {
            return false;
        }
        seq > self.top || self.word(seq).is_some_and(|word| word & bit(seq) == 0)
    }

    /// Takes note of an authentic packet's number; false if it was not [`Window::fresh`].
    #[inline]
    pub(crate) fn accept(&mut self, seq: u32) -> bool {
        if self.size == 0 {
            self.top = self.top.max(seq);
            return true;
        }
        if !self.fresh(seq) {
            return false;
        }
        let mask = self.words.len() as u32 - 1;
        if seq > self.top {
            let (from, to) = (self.top / 64, seq / 64);
            for word in (from + 1..=to).take(self.words.len()) {
                if let Some(word) = self.words.get_mut((word & mask) as usize) {
                    *word = 0;
                }
            }
            self.top = seq;
        }
        if let Some(word) = self.words.get_mut(((seq / 64) & mask) as usize) {
            *word |= bit(seq);
        }
        true
    }

    #[inline]
    fn word(&self, seq: u32) -> Option<u64> {
        let mask = (self.words.len() as u32).checked_sub(1)?;
        self.words.get(((seq / 64) & mask) as usize).copied()
    }
}

#[inline]
const fn bit(seq: u32) -> u64 {
    1 << (seq % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// What RFC 4303 says, in as many words.
    #[derive(Default)]
    struct Naive {
        seen: HashSet<u32>,
        top: u32,
    }

    impl Naive {
        fn accept(&mut self, seq: u32, size: u32) -> bool {
            if seq == 0 || (seq <= self.top && self.top - seq >= size) || !self.seen.insert(seq) {
                return false;
            }
            self.top = self.top.max(seq);
            true
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
            for start in [0, 1, 63, 1 << 20, u32::MAX - 3000] {
                let (mut window, mut naive) = (Window::new(size), Naive::default());
                assert_eq!(window.accept(start), naive.accept(start, size));
                for _ in 0..4000 {
                    let around = naive.top;
                    let seq = match random(state) % 16 {
                        0 => around.saturating_add((random(state) % (3 * u64::from(size))) as u32),
                        1..8 => around.saturating_add((random(state) % 4) as u32),
                        8 => random(state) as u32 % 3,
                        _ => around.saturating_sub((random(state) % (2 * u64::from(size) + 2)) as u32),
                    };
                    let fresh = window.fresh(seq);
                    let expected = naive.accept(seq, size);
                    assert_eq!((fresh, window.accept(seq)), (expected, expected), "{size} {seq} {around}");
                    assert_eq!(window.top(), naive.top);
                }
            }
        }
    }

    #[test]
    fn a_far_jump_forgets_everything() {
        let mut window = Window::new(64);
        assert!(window.accept(5) && window.accept(5 + (1 << 30)));
        assert!(!window.fresh(5));
        assert!((1 << 30) > 64 && window.fresh((1 << 30) - 40));
        assert!(window.accept(u32::MAX) && !window.accept(u32::MAX) && window.accept(u32::MAX - 63));
        assert!(!window.accept(u32::MAX - 64));
    }

    #[test]
    fn another_size_accepts_nothing_twice() {
        let state = &mut 0x0fed_cba9_8765_4321;
        let sizes = [0, 1, 31, 64, 65, 1000, MAX_WINDOW];
        for (from, to) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
            for start in [0, 1, 63, 1 << 20, u32::MAX - 3000] {
                let (mut window, mut seen) = (Window::new(from), HashSet::new());
                for _ in 0..500 {
                    let seq = start.saturating_add((random(state) % 2000) as u32);
                    if window.accept(seq) {
                        seen.insert(seq);
                    }
                }
                let top = window.top();
                let mut new = window.resized(to);
                assert_eq!(new.top(), top);
                for seq in top.saturating_sub(3000)..=top.saturating_add(100) {
                    let fresh = new.fresh(seq);
                    assert!(!fresh || to == 0 || !seen.contains(&seq), "{from} {to} {seq}");
                    // What both remember is as it was.
                    if seq > top || top - seq < from.min(to) {
                        assert_eq!(fresh, window.fresh(seq), "{from} {to} {seq} {top}");
                    }
                }
                assert!(top == u32::MAX || new.accept(top + 1) && (to == 0 || !new.accept(top + 1)));
            }
        }
    }

    #[test]
    fn without_a_window_everything_passes() {
        let mut window = Window::new(0);
        assert!(window.accept(0) && window.accept(7) && window.accept(7) && window.accept(1));
        assert_eq!(window.top(), 7);
    }
}
