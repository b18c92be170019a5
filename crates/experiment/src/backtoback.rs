//! Bursts of back-to-back frames (RFC 9004), as text and as JSON.

use crate::layout::{quantile, table};
use crate::model::Bursts;
use crate::trial::Trial;
use measure::burst::{Search, buffer_seconds};
use serde_json::{Value, json};

/// The bursts of all rounds at a point.
#[derive(Clone, Debug)]
pub(crate) struct BackToBack {
    /// The length of the longest burst without loss in each test: frames for each port.
    lengths: Vec<u64>,
    longest: u64,
    step: u64,
    /// The rate of the bursts, for each port.
    most: u64,
    /// What was found to be forwarded without loss, for each port.
    throughputs: Vec<f64>,
    /// Bursts that the generator did not send at this rate.
    late: usize,
    trials: usize,
}

impl BackToBack {
    pub(crate) fn new(bursts: &Bursts, most: u64) -> Self {
        let search = bursts.search(most);
        Self {
            lengths: Vec::new(),
            longest: search.longest(),
            step: 1,
            most,
            throughputs: Vec::new(),
            late: 0,
            trials: 0,
        }
    }

    /// Adds a round: its trials, and the throughput that it has found.
    pub(crate) fn add(&mut self, bursts: &Bursts, trials: &[Trial], throughput: f64) {
        let mut search: Search = bursts.search(self.most);
        for trial in trials.iter().filter(|trial| trial.burst.is_some() && !trial.disturbed) {
            search.add(trial.loss() > 0.0);
            self.late += usize::from(!trial.at_rate());
            self.trials += 1;
        }
        let steps = search.lengths().iter().map(|frames| search.step_at(*frames));
        self.step = steps.fold(self.step, u64::max);
        self.lengths.extend(search.lengths());
        self.throughputs.push(throughput);
    }

    fn mean(&self) -> f64 {
        self.lengths.iter().sum::<u64>() as f64 / self.lengths.len().max(1) as f64
    }

    /// The standard deviation of the sample.
    fn stdev(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.lengths.iter().map(|frames| (*frames as f64 - mean).powi(2)).sum();
        (squares / (self.lengths.len().max(2) - 1) as f64).sqrt()
    }

    fn least_and_most(&self) -> (u64, u64) {
        let all = || self.lengths.iter().copied();
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    }

    fn throughput(&self) -> f64 {
        quantile(&self.throughputs, 0.5)
    }

    fn seconds(&self) -> (f64, f64) {
        buffer_seconds(self.mean(), self.most as f64, self.throughput())
    }

    /// Whether a burst as long as they may be was forwarded.
    fn open(&self) -> bool {
        self.lengths.contains(&self.longest)
    }

    pub(crate) fn json(&self) -> Value {
        if self.lengths.is_empty() {
            return Value::Null;
        }
        let ((least, most), (implied, corrected)) = (self.least_and_most(), self.seconds());
        json!({
            "frames": {"mean": self.mean(), "least": least, "most": most, "stdev": self.stdev()},
            "tests": self.lengths.len(), "lengths": self.lengths, "trials": self.trials, "step_frames": self.step,
            "longest_frames": self.longest, "at_longest": self.open(), "late_bursts": self.late,
            "rate_pps": self.most, "throughput_pps": self.throughput(),
            "implied_buffer_s": implied, "corrected_buffer_s": corrected,
        })
    }
}

/// A line for each point.
pub(crate) fn text(mut head: Vec<String>, rows: &[(Vec<String>, &BackToBack)]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let words = head.len();
    head.extend(
        ["frames", "least", "most", "stdev", "step", "tests", "buffer implied", "corrected"]
            .map(str::to_owned),
    );
    let mut lines = vec![head];
    let (mut open, mut late) = (false, 0);
    for (cells, one) in rows {
        let mut line = cells.clone();
        if one.lengths.is_empty() {
            line.push("-".to_owned());
        } else {
            let ((least, most), (implied, corrected)) = (one.least_and_most(), one.seconds());
            line.extend([
                format!("{:.1}", one.mean()),
                least.to_string(),
                most.to_string(),
                format!("{:.1}", one.stdev()),
                one.step.to_string(),
                one.lengths.len().to_string(),
                format!("{:.3} ms", implied * 1e3),
                format!("{:.3} ms", corrected * 1e3),
            ]);
        }
        lines.push(line);
        (open, late) = (open || one.open(), late + one.late);
    }
    let mut text =
        format!("longest burst without loss, mean of the tests (RFC 9004):\n{}", table(&lines, words));
    if rows.iter().any(|(_, one)| one.lengths.is_empty()) {
        text +=
            "-: not measured, or the throughput is the highest rate (`most`), at which no buffer fills.\n";
    }
    if open {
        text += "The longest bursts that were tried lost nothing: the buffer may be larger (`longest`).\n";
    }
    if late > 0 {
        text += &format!(
            "{late} bursts were not sent at the rate that was wanted: less `most`, or more cores for the generator.\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Burst;

    fn trials(bursts: &Bursts, most: u64, device: &[u64]) -> Vec<Trial> {
        let (mut search, mut trials) = (bursts.search(most), Vec::new());
        while let Some(frames) = search.next() {
            let arrived = frames.min(device[search.lengths().len()]);
            let seconds = frames as f64 / most as f64;
            let burst = Some(Burst { frames, seconds });
            trials.push(Trial { rate: most, seconds, intended: frames, arrived, burst, ..Trial::default() });
            search.add(arrived < frames);
        }
        trials
    }

    #[test]
    fn tests_of_all_rounds_make_one_result() {
        let bursts = Bursts { tests: 2, longest: 2.0, width: 0.0 };
        let mut all = BackToBack::new(&bursts, 1000);
        all.add(&bursts, &trials(&bursts, 1000, &[100, 110]), 500.0);
        let mut late = trials(&bursts, 1000, &[90, 100]);
        late.last_mut().unwrap().missed = 1;
        all.add(&bursts, &late, 500.0);
        let shown = all.json();
        assert_eq!(shown["lengths"], json!([100, 110, 90, 100]));
        assert_eq!(
            (shown["frames"]["mean"].as_f64(), shown["frames"]["least"].as_u64()),
            (Some(100.0), Some(90))
        );
        assert!((shown["frames"]["stdev"].as_f64().unwrap() - (200.0f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!((&shown["implied_buffer_s"], &shown["corrected_buffer_s"]), (&json!(0.1), &json!(0.05)));
        assert_eq!((&shown["late_bursts"], &shown["at_longest"]), (&json!(1), &json!(false)));
        let told = text(vec!["size".into()], &[(vec!["60".into()], &all)]);
        assert!(told.contains("50.000 ms") && told.contains("1 bursts were not sent"), "{told}");
    }

    #[test]
    fn without_a_test_there_is_no_result() {
        let bursts = Bursts { tests: 1, longest: 0.1, width: 0.0 };
        let mut one = BackToBack::new(&bursts, 1000);
        assert_eq!(one.json(), Value::Null);
        assert!(text(Vec::new(), &[(Vec::new(), &one)]).contains("no buffer fills"));
        one.add(&bursts, &trials(&bursts, 1000, &[1000]), 500.0);
        assert_eq!((&one.json()["at_longest"], &one.json()["frames"]["mean"]), (&json!(true), &json!(100.0)));
    }
}
