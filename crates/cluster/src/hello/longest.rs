//! Finds the length of the longest frame that arrives.

/// The number of intervals for which the lengths of frames that arrived are remembered. Each is that of two
/// long frames.
const TIMES: usize = 4;
/// How often a length is tried before it counts as too long.
const TRIES: u8 = 2;

/// The lengths of the longest frames that have arrived, in the current interval and those before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    longest: [u16; TIMES],
    /// When the current interval began, in this node's running time.
    since: u64,
}

impl Lengths {
    pub(super) const fn new(ran: u64) -> Self {
        Self { longest: [0; TIMES], since: ran }
    }
    pub(super) fn add(&mut self, ran: u64, bytes: u16, time_ns: u64) {
        let times = ran.saturating_sub(self.since) / time_ns.max(1);
        if times > 0 {
            self.longest.rotate_right((times as usize).min(TIMES));
            self.longest.iter_mut().take(times.min(TIMES as u64) as usize).for_each(|n| *n = 0);
            self.since = ran;
        }
        self.longest[0] = self.longest[0].max(bytes);
    }
    pub(super) fn longest(&self) -> u16 {
        self.longest.into_iter().max().unwrap_or(0)
    }
}

/// Searches for the longest length that arrives, while that of the link does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// The shortest length that seems not to arrive.
    high: u16,
    /// The length that is being tried, how often it was sent, and when last.
    tried: u16,
    tries: u8,
    at: u64,
    turn: u8,
}

impl Search {
    pub(super) const fn new(longest: u16) -> Self {
        Self { high: longest, tried: 0, tries: 0, at: 0, turn: 0 }
    }
    /// The result: the longest length that arrives, if it is known.
    pub(super) fn found(&self, low: u16) -> Option<u16> {
        (self.high <= low.saturating_add(1)).then_some(low)
    }
    /// The length of the next long frame, if `low` arrives and `longest` is required. An answer takes
    /// `answer_ns`.
    pub(super) fn next(&mut self, ran: u64, low: u16, longest: u16, answer_ns: u64) -> u16 {
        if self.high <= low {
            self.high = longest;
        }
        if self.tried <= low {
            self.tries = 0;
        } else if self.tries >= TRIES && ran.saturating_sub(self.at) > answer_ns {
            (self.high, self.tries) = (self.tried.min(self.high), 0);
        }
        self.turn = (self.turn + 1) % 4;
        match self.turn {
            // A length that arrived is remembered only for a limited time.
            2 => low,
            // The answer has not had time to arrive.
            0 if self.tries >= TRIES => low,
            0 => {
                if self.tries == 0 {
                    self.tried = if self.found(low).is_some() { self.high } else { low.midpoint(self.high) };
                }
                (self.tries, self.at) = (self.tries + 1, ran);
                self.tried
            }
            _ => longest,
        }
    }
}
