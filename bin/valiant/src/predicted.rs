//! What a server of a cluster can do, for `valiant plan`: from what `valiant check --predict` or
//! `valiant bench program` says of the program that it runs.

use launch::reason;
use measure::bps::Bps;
use measure::rate::OVERHEAD;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// A program, and how fast it is on one processor.
#[derive(Debug, PartialEq)]
pub(crate) struct Program {
    name: String,
    predicted_pps: f64,
    /// The rate when it ran, and by how many percent the prediction is off.
    measured: Option<(f64, f64)>,
}

#[derive(Deserialize)]
struct Report {
    ok: bool,
    configuration: String,
    complete: bool,
    rate_pps: f64,
    measured: Option<Measured>,
    scaled: Option<Scaled>,
}

#[derive(Deserialize)]
struct Measured {
    rate_pps: f64,
    error_percent: f64,
}

#[derive(Deserialize)]
struct Scaled {
    rate_pps: Option<f64>,
}

impl Program {
    /// From the file into which one of these commands has printed its JSON.
    pub(crate) fn load(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(Path::new(path)).map_err(|e| format!("{path}: {}", reason(&e)))?;
        Self::read(&text).map_err(|why| {
            format!(
                "{path}: {why}; make it by `valiant check --predict PROGRAM --traffic CAPTURE --json` or by `valiant bench program`"
            )
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let report: Report =
            serde_json::from_str(text).map_err(|e| format!("this is no prediction ({e})"))?;
        if !report.ok || !report.complete {
            return Err("the costs of some elements are not known".to_owned());
        }
        // Of another server, where that was asked for.
        let predicted_pps = report.scaled.and_then(|scaled| scaled.rate_pps).unwrap_or(report.rate_pps);
        let measured = report.measured.map(|measured| (measured.rate_pps, measured.error_percent));
        let rates = [Some(predicted_pps), measured.map(|measured| measured.0)];
        if rates.into_iter().flatten().any(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err("its rate is no rate".to_owned());
        }
        Ok(Self { name: report.configuration, predicted_pps, measured })
    }

    /// What so many processors do with frames of so many bytes, in bits a second on the wire.
    pub(crate) fn bps(&self, processors: u32, bytes: u32) -> u64 {
        let pps = self.measured.map_or(self.predicted_pps, |measured| measured.0);
        (pps * f64::from(processors) * (f64::from(bytes) + OVERHEAD as f64) * 8.0) as u64
    }

    /// In words.
    pub(crate) fn text(&self, processors: u32, bytes: u32) -> String {
        let measured = self.measured.map_or_else(String::new, |(pps, error)| {
            format!("; measured: {:.2} Mpps, error {error:.1} %", pps / 1e6)
        });
        let cores = if processors == 1 { "1 processor" } else { &format!("{processors} processors") };
        format!(
            "{}: {:.2} Mpps on each processor, predicted{measured}; {cores}, {bytes}-byte frames: {}",
            self.name,
            self.predicted_pps / 1e6,
            Bps(self.bps(processors, bytes))
        )
    }

    pub(crate) fn json(&self, processors: u32, bytes: u32) -> Value {
        json!({
            "configuration": self.name, "predicted_pps": self.predicted_pps, "measured_pps": self.measured.map(|m| m.0),
            "error_percent": self.measured.map(|m| m.1), "processors": processors, "frame_bytes": bytes,
            "bps": self.bps(processors, bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = r#"{"ok": true, "configuration": "r.click", "complete": true, "rate_pps": 10e6}"#;

    #[test]
    fn a_prediction_becomes_the_rate_of_a_server() {
        let plain = Program::read(PLAIN).unwrap();
        // 84 bytes on the wire.
        assert_eq!(plain.bps(2, 60), 2 * 84 * 8 * 10_000_000);
        assert!(plain.text(2, 60).starts_with(
            "r.click: 10.00 Mpps on each processor, predicted; 2 processors, 60-byte frames: 13.4"
        ));
        let more = |key: &str| Program::read(&PLAIN.replace("10e6", &format!("10e6, {key}")));
        let ran =
            more(r#""measured": {"rate_pps": 8e6, "error_percent": 25.0, "cycles_per_packet": 1}"#).unwrap();
        assert_eq!(ran.bps(1, 60), 84 * 8 * 8_000_000);
        assert!(
            ran.text(1, 60).contains("measured: 8.00 Mpps, error 25.0 %; 1 processor,"),
            "{}",
            ran.text(1, 60)
        );
        assert_eq!(more(r#""scaled": {"rate_pps": 40e6}"#).unwrap().bps(1, 60), 84 * 8 * 40_000_000);
        assert_eq!(more(r#""scaled": {"rate_pps": null}, "measured": null"#).unwrap(), plain);
    }

    #[test]
    fn what_is_no_whole_prediction_is_refused() {
        let error = |text: &str| Program::read(text).unwrap_err();
        assert!(error("{}").starts_with("this is no prediction (missing field"));
        assert!(error(&PLAIN.replace("\"complete\": true", "\"complete\": false")).contains("not known"));
        assert!(error(&PLAIN.replace("10e6", "0")).contains("no rate"));
        assert!(Program::load("/nonexistent").unwrap_err().starts_with("/nonexistent: "));
    }
}
