//! What happens over time: frames sent and arrived, and the longest latency, in spans of 100 ms; of longer
//! ones when there would be too many.

use crate::{Bad, bad};
use std::fmt::Write;

/// How long a span is at first.
pub const WIDTH_NS: u64 = 100_000_000;
/// Spans are at most so many; then their width doubles.
pub const MOST: usize = 1024;

/// One span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Frames that were sent in it.
    pub sent: u64,
    /// How many of the frames that were sent in it have arrived at any time, duplicates included.
    pub arrived: u64,
    /// Frames that came in it, whenever they were sent.
    pub came: u64,
    /// The longest latency of the frames that were sent in it, in nanoseconds.
    pub latency_ns: u64,
}

impl Span {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.came += other.came;
        self.latency_ns = self.latency_ns.max(other.latency_ns);
    }

    /// Frames that were sent in it and have not arrived.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived)
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Spans that are named in a text.
const NAMED: usize = 3;

/// When frames were lost, in words: in how many spans of so many nanoseconds, in which of them most, and when
/// the longest latency was. None: nothing was lost.
#[must_use]
pub fn when_lost(width_ns: u64, spans: &[Span]) -> Option<String> {
    let at = |index: usize| (index as u64 * width_ns) as f64 / 1e9;
    let mut worst: Vec<(usize, &Span)> =
        spans.iter().enumerate().filter(|(_, span)| span.lost() > 0).collect();
    let all = worst.len();
    worst.sort_by_key(|(_, span)| std::cmp::Reverse(span.lost()));
    worst.truncate(NAMED);
    let words =
        worst.iter().map(|(index, span)| format!("{} of {} at {:.1} s", span.lost(), span.sent, at(*index)));
    let mut text = words.collect::<Vec<_>>().join(", ");
    let longest = spans.iter().enumerate().max_by_key(|(_, span)| span.latency_ns);
    if let Some((index, span)) = longest.filter(|(_, span)| span.latency_ns > 0) {
        // Writing to a string does not fail.
        let _ =
            write!(text, "; longest latency {:.2} ms at {:.1} s", span.latency_ns as f64 / 1e6, at(index));
    }
    let (spans, ms) = (spans.len(), width_ns / 1_000_000);
    (all > 0).then(|| format!("in {all} of {spans} spans of {ms} ms, most {text}"))
}

/// Spans one after the other. Those of several threads have the same bounds, so that they can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    width: u64,
    /// The first span begins at so many widths.
    first: u64,
    spans: Vec<Span>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width: WIDTH_NS, first: 0, spans: Vec::new() }
    }
}

impl Timeline {
    /// The span of a time in nanoseconds.
    #[inline]
    pub fn at(&mut self, ns: u64) -> Option<&mut Span> {
        let index =
            (ns / self.width).checked_sub(self.first).filter(|index| *index < self.spans.len() as u64);
        match index {
            Some(index) => self.spans.get_mut(index as usize),
            None => self.reach(ns),
        }
    }

    /// Makes the span of a time, with all between it and the others.
    #[cold]
    fn reach(&mut self, ns: u64) -> Option<&mut Span> {
        loop {
            let at = ns / self.width;
            if self.spans.is_empty() {
                self.first = at;
            }
            let (first, end) = (self.first.min(at), (self.first + self.spans.len() as u64).max(at + 1));
            if end - first <= MOST as u64 {
                let before = (self.first - first) as usize;
                self.spans.splice(0..0, std::iter::repeat_n(Span::default(), before));
                self.spans.resize((end - first) as usize, Span::default());
                self.first = first;
                return self.spans.get_mut((at - first) as usize);
            }
            self.widen();
        }
    }

    /// Makes one span of two.
    fn widen(&mut self) {
        let old = std::mem::take(&mut self.spans);
        let begin = self.first / 2;
        for (at, span) in old.iter().enumerate() {
            let index = ((self.first + at as u64) / 2 - begin) as usize;
            if index == self.spans.len() {
                self.spans.push(Span::default());
            }
            if let Some(wide) = self.spans.get_mut(index) {
                wide.add(span);
            }
        }
        (self.width, self.first) = (self.width * 2, begin);
    }

    /// Adds what happened elsewhere at the same times.
    pub fn merge(&mut self, other: &Self) {
        while self.width < other.width {
            self.widen();
        }
        for (at, span) in other.spans.iter().enumerate().filter(|(_, span)| !span.is_empty()) {
            if let Some(own) = self.at((other.first + at as u64) * other.width) {
                own.add(span);
            }
        }
    }

    /// How long a span is, in nanoseconds.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width
    }

    /// The spans, from the first in which something was sent or came.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// As text without white space.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}:{}", self.width, self.first);
        for Span { sent, arrived, came, latency_ns } in &self.spans {
            // Writing to a string does not fail.
            let _ = write!(text, ",{sent}/{arrived}/{came}/{latency_ns}");
        }
        text
    }

    /// Adds what [`Timeline::text`] wrote.
    ///
    /// # Errors
    /// The text has another form.
    pub fn add_text(&mut self, text: &str) -> Result<(), Bad> {
        let read = || {
            let mut parts = text.split(',');
            let (width, first) = parts.next()?.split_once(':')?;
            let (width, first) = (width.parse::<u64>().ok()?, first.parse::<u64>().ok()?);
            let doubled = width / WIDTH_NS;
            let fits = width % WIDTH_NS == 0 && doubled.is_power_of_two() && first <= u64::MAX / width / 2;
            let mut spans = Vec::new();
            for part in parts {
                let numbers: Option<Vec<u64>> = part.split('/').map(|n| n.parse().ok()).collect();
                let [sent, arrived, came, latency_ns] = numbers?[..] else { return None };
                spans.push(Span { sent, arrived, came, latency_ns });
            }
            (fits && spans.len() <= MOST).then_some(Self { width, first, spans })
        };
        match read() {
            Some(other) => {
                self.merge(&other);
                Ok(())
            }
            None => bad(format!("'{text}' is no timeline")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_happens_is_in_its_span() {
        let mut line = Timeline::default();
        for (ns, n) in [(1_250_000_000, 5), (1_299_999_999, 6), (1_300_000_000, 7), (1_100_000_000, 1)] {
            line.at(ns).unwrap().sent += n;
        }
        line.at(1_250_000_000).unwrap().arrived += 9;
        line.at(1_250_000_000).unwrap().latency_ns = 77;
        assert_eq!(line.spans().iter().map(|s| s.sent).collect::<Vec<_>>(), [1, 11, 7]);
        assert_eq!(line.spans().iter().map(Span::lost).collect::<Vec<_>>(), [1, 2, 7]);
        assert_eq!((line.width_ns(), line.spans()[1].latency_ns), (WIDTH_NS, 77));
    }

    #[test]
    fn the_worst_spans_are_named() {
        let span = |sent, arrived, latency_ns| Span { sent, arrived, came: arrived, latency_ns };
        let spans = [
            span(100, 100, 50_000),
            span(100, 60, 20_300_000),
            span(100, 99, 9),
            span(90, 80, 9),
            span(100, 97, 9),
        ];
        assert_eq!(
            when_lost(WIDTH_NS, &spans).unwrap(),
            "in 4 of 5 spans of 100 ms, most 40 of 100 at 0.1 s, 10 of 90 at 0.3 s, 3 of 100 at 0.4 s; longest latency 20.30 ms at 0.1 s"
        );
        assert_eq!((when_lost(WIDTH_NS, &spans[..1]), when_lost(WIDTH_NS, &[])), (None, None));
        let none = when_lost(WIDTH_NS, &[span(7, 0, 0)]).unwrap();
        assert_eq!(none, "in 1 of 1 spans of 100 ms, most 7 of 7 at 0.0 s", "nothing has a latency");
    }

    #[test]
    fn a_long_time_takes_no_more_memory() {
        let mut line = Timeline::default();
        for second in 0..100_000u64 {
            line.at(second * 1_000_000_000 + 5).unwrap().came += 1;
        }
        assert!(line.spans().len() <= MOST && line.spans.capacity() <= 2 * MOST, "{}", line.spans().len());
        assert_eq!(line.spans().iter().map(|s| s.came).sum::<u64>(), 100_000);
        // The least width of which so many are enough.
        assert!(line.width_ns() * (MOST as u64) < 2 * 100_000_000_000_000, "{}", line.width_ns());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_in_sums_and_texts(times in prop::collection::vec((0u64..400_000, any::<bool>()), 0..60)) {
            let (mut all, mut both) = (Timeline::default(), [Timeline::default(), Timeline::default()]);
            for (ms, which) in &times {
                let ns = ms * 1_000_000;
                all.at(ns).unwrap().sent += 1;
                both[usize::from(*which)].at(ns).unwrap().sent += 1;
            }
            let mut sum = Timeline::default();
            for one in &both {
                sum.add_text(&one.text()).unwrap();
            }
            prop_assert_eq!(sum.spans().iter().map(|s| s.sent).sum::<u64>(), times.len() as u64);
            // Wide spans stay wide.
            while all.width < sum.width {
                all.widen();
            }
            let sent = |line: &Timeline| line.spans().iter().map(|s| s.sent).filter(|n| *n > 0).collect::<Vec<_>>();
            if all.width == sum.width {
                prop_assert_eq!(sent(&all), sent(&sum));
            }
        }

        #[test]
        fn other_texts_are_refused_without_a_panic(text in "[0-9:,/x]{0,40}") {
            let mut line = Timeline::default();
            let _ = line.add_text(&text);
            prop_assert!(line.add_text("5:1,1/1/1/1").is_err() && line.add_text("").is_err());
        }
    }
}
