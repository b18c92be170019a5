//! Which is the longest frame that arrives.

/// Of how many times the lengths of frames that arrived are remembered. Each is that of two long frames.
const TIMES: usize = 4;
/// How often a length is tried before it counts as too long.
const TRIES: u8 = 2;

/// The lengths of the longest frames that have arrived, in the present time and those before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    longest: [u16; TIMES],
    /// When the present one began, in time of this node's running.
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

/// Which length is the longest that arrives, while that of the link does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// The shortest that seems not to.
    high: u16,
    /// What is being tried, how often it was sent, and when last.
    tried: u16,
    tries: u8,
    at: u64,
    turn: u8,
}

impl Search {
    pub(super) const fn new(longest: u16) -> Self {
        Self { high: longest, tried: 0, tries: 0, at: 0, turn: 0 }
    }
    /// What has been found: the longest that arrives, if it is known.
    pub(super) fn found(&self, low: u16) -> Option<u16> {
        (self.high <= low.saturating_add(1)).then_some(low)
    }
    /// The length of the next long frame, if `low` arrives and `longest` is wanted. An answer takes
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
            // What arrives is known for a while only.
            2 => low,
            // The answer is on its way.
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
