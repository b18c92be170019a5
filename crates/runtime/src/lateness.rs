//! How late a thread's sleeps end: it wakes up so much before a timer is due, and polls for the rest.

use std::time::Duration;

/// The most that a sleep is shortened: whatever made one later is not how the machine usually is.
const MOST: Duration = Duration::from_micros(50);

/// How late a thread's sleeps end.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    usual: Duration,
}

impl Lateness {
    /// How long to sleep, for what is due after `left`; not at all, if a sleep would probably end too late.
    pub(crate) fn before(&self, left: Duration) -> Duration {
        // Sleeps differ: twice what is usual covers nearly all.
        left.saturating_sub(2 * self.usual)
    }

    /// There was no time for a sleep before something was due: perhaps sleeps are not as late any more.
    pub(crate) fn fade(&mut self) {
        self.usual -= self.usual / 64;
    }

    /// A sleep that nothing ended before its time took so long. Rises are followed sooner than falls.
    pub(crate) fn observe(&mut self, asked: Duration, took: Duration) {
        let late = took.saturating_sub(asked).min(MOST / 2);
        if late > self.usual {
            self.usual += (late - self.usual) / 2;
        } else {
            self.usual -= (self.usual - late) / 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn sleeps_are_shorter_by_what_they_are_late() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.before(100 * US), 100 * US, "nothing is known yet");
        (0..20).for_each(|_| lateness.observe(30 * US, 38 * US));
        let (sleep, none) = (lateness.before(100 * US), lateness.before(15 * US));
        assert!(sleep > 83 * US && sleep < 85 * US && none.is_zero(), "{sleep:?} {none:?}");
        // One that is very late, as when others had the processor, is soon forgotten.
        lateness.observe(30 * US, Duration::from_secs(1));
        assert!(lateness.before(100 * US) >= 50 * US);
        (0..100).for_each(|_| lateness.observe(30 * US, 31 * US));
        assert!(lateness.before(100 * US) > 97 * US);
        lateness.observe(30 * US, 10 * US);
        (0..20).for_each(|_| lateness.observe(30 * US, 80 * US));
        assert!(lateness.before(25 * US).is_zero());
        (0..200).for_each(|_| lateness.fade());
        assert!(!lateness.before(25 * US).is_zero(), "it is not polled for ever");
    }
}
