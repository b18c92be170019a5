//! What came of the questions to one target.

use nicbench::studies::Target;
use nicbench::verdict::{Answer, Reports};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What came of a target.
pub(super) struct Asked {
    pub(super) target: Target,
    pub(super) answers: Vec<Answer>,
    pub(super) advice: Vec<String>,
    /// The experiments' reports, and their directory.
    pub(super) reports: Reports,
    pub(super) dir: PathBuf,
}

impl Asked {
    /// The versions that belong to every result.
    pub(super) fn about(target: &Target) -> Vec<(String, Value)> {
        let mut all = vec![
            ("classifier".to_owned(), Value::from(target.name())),
            ("dpdk".to_owned(), Value::from(dpdk::dpdk_version())),
        ];
        if let Target::Device { about, .. } = target {
            for (name, key) in [("device", "model"), ("driver", "driver"), ("firmware", "firmware")] {
                all.extend(about.get(key).map(|value| (name.to_owned(), value.clone())));
            }
        }
        all
    }

    pub(super) fn json(&self) -> Value {
        let mut json = json!({
            "target": self.target.name(), "valiant": env!("CARGO_PKG_VERSION"),
            "answers": self.answers.iter().map(Answer::json).collect::<Vec<_>>(), "advice": self.advice,
            "experiments": self.reports.iter().map(|(study, report)| (study.name().to_owned(), report.clone())).collect::<serde_json::Map<_, _>>(),
        });
        if let Target::Device { about, .. } = &self.target {
            json["device"] = about.clone();
        }
        Self::about(&self.target).into_iter().for_each(|(name, value)| json[&name] = value);
        json
    }

    pub(super) fn text(&self) -> String {
        let about = Self::about(&self.target);
        let words = about.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_str()?)));
        let mut text = format!("{}\n", words.collect::<Vec<_>>().join(", "));
        for answer in &self.answers {
            let q = &answer.question;
            text += &format!("{}  {}\n   {}: {}\n", q.number, q.text, answer.verdict.word(), answer.text);
            text += &format!("   passed if {}\n   the paper: {}\n", q.mark, q.paper);
        }
        if !self.advice.is_empty() {
            text += &format!("Advice\n   {}\n", self.advice.join("\n   "));
        }
        text
    }
}
