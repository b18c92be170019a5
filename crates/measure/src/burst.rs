//! Back-to-back frames: the longest burst at a rate of which a device loses nothing (RFC 2544, section 26.4,
//! as RFC 9004 has updated it). A test is a binary search over the lengths of bursts, and it is made several
//! times.
//!
//! As [`crate::search::Search`], a [`Search`] says which burst is next and is told how it went; what comes
//! next depends on that alone.

/// Tests, one after the other.
#[derive(Clone, Debug)]
pub struct Search {
    longest: u64,
    width: f64,
    tests: usize,
    /// The longest burst without loss of each test that has ended.
    lengths: Vec<u64>,
    /// In the present test: the longest without loss, and the shortest with loss.
    lower: u64,
    upper: Option<u64>,
}

impl Search {
    /// `tests` of them, with bursts of up to `longest` frames. A test ends when the shortest burst with loss
    /// is longer than the longest one without by one frame, or by the part `width` of itself.
    #[must_use]
    pub fn new(longest: u64, width: f64, tests: usize) -> Self {
        Self { longest: longest.max(1), width, tests, lengths: Vec::new(), lower: 0, upper: None }
    }

    /// How long the next burst is; none: all tests have ended.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        if self.lengths.len() >= self.tests {
            return None;
        }
        let Some(upper) = self.upper else { return Some(self.longest) };
        // The interval is halved by its ratio: nothing is known of the magnitude.
        let middle = (self.lower.max(1) as f64 * upper as f64).sqrt() as u64;
        Some(middle.clamp(self.lower + 1, (upper - 1).max(self.lower + 1)))
    }

    /// Notes whether the burst that was next has lost something.
    pub fn add(&mut self, lost: bool) {
        let Some(frames) = self.next() else { return };
        match lost {
            true => self.upper = Some(frames),
            false => self.lower = frames,
        }
        let over = self.lower == self.longest
            || self.upper.is_some_and(|upper| upper - self.lower <= self.step_at(upper));
        if over {
            self.lengths.push(self.lower);
            (self.lower, self.upper) = (0, None);
        }
    }

    /// How far apart the bounds of a length may be.
    #[must_use]
    pub fn step_at(&self, frames: u64) -> u64 {
        ((frames as f64 * self.width) as u64).max(1)
    }

    /// The longest burst without loss of each test that has ended.
    #[must_use]
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// The longest burst that is tried. A result that is as long says nothing of the buffer.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest
    }
}

/// The time for which a device can buffer frames that come at `most` frames a second, in seconds (RFC 9004,
/// section 6.4): implied by the mean length of bursts, and corrected by what the device has forwarded while
/// the burst came, at its throughput.
#[must_use]
pub fn buffer_seconds(frames: f64, most: f64, throughput: f64) -> (f64, f64) {
    let implied = frames / most;
    (implied, implied - implied * throughput / most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that loses nothing of bursts up to these lengths, in the tests in turn.
    fn lengths(longest: u64, width: f64, of_device: &[u64]) -> (Vec<u64>, usize) {
        let (mut search, mut trials) = (Search::new(longest, width, of_device.len()), 0);
        while let Some(frames) = search.next() {
            assert!((1..=longest).contains(&frames), "{search:?}");
            search.add(frames > of_device[search.lengths().len()]);
            trials += 1;
            assert!(trials < 1000, "{search:?}");
        }
        (search.lengths().to_vec(), trials)
    }

    #[test]
    fn each_test_finds_the_buffer_to_the_frame() {
        let device = [512, 513, 1, 2, 999_999, 0];
        assert_eq!(lengths(1_000_000, 0.0, &device).0, device);
        assert_eq!(lengths(1, 0.0, &[5, 0]).0, [1, 0]);
    }

    #[test]
    fn a_width_saves_trials() {
        let (found, trials) = lengths(30_000_000, 0.01, &[5000]);
        assert!((4950..=5000).contains(&found[0]), "{found:?}");
        assert!(trials <= 14, "{trials} trials");
    }

    #[test]
    fn a_buffer_longer_than_all_bursts_is_seen_by_the_length() {
        assert_eq!(lengths(1000, 0.01, &[2000, 2000]), (vec![1000, 1000], 2));
    }

    #[test]
    fn the_buffer_time_is_that_of_rfc_9004() {
        // 26,000 frames of 64 bytes at 14,880,952 a second, of which the device forwards a half at once.
        let (implied, corrected) = buffer_seconds(26_000.0, 14_880_952.0, 7_440_476.0);
        assert!((implied - 0.001_747).abs() < 1e-6 && (corrected - implied / 2.0).abs() < 1e-12);
        assert_eq!(
            buffer_seconds(100.0, 1000.0, 1000.0).1,
            0.0,
            "what forwards at this rate buffers nothing"
        );
    }
}
