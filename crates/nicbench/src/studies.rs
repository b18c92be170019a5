//! What is measured for the eight questions, as experiment files of `valiant bench`.

use crate::kinds::KINDS;
use serde_json::Value;
use std::fmt::Write as _;

/// What is measured with one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Study {
    /// The rate over the number of rules.
    Occupancy,
    /// The rate over the number of tables.
    Chain,
    /// Rules that come at once.
    Batch,
    /// Rules that come and go at a rate.
    Churn,
    /// How fast rules of each kind come.
    Insertion,
    /// How fast rules are replaced, and whether a packet meets none.
    Replacement,
}

/// All of them, in the order in which they are measured.
pub const STUDIES: [Study; 6] =
    [Study::Occupancy, Study::Chain, Study::Batch, Study::Churn, Study::Insertion, Study::Replacement];

/// What has the rules.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// The classifier in software.
    Software,
    /// The device of a port: its arguments, those of the port that sends, and what it said of itself
    /// ([`crate::hardware::Hardware::about`]).
    Device {
        /// As on the command line.
        port: String,
        /// See there.
        from: Option<String>,
        /// What it is, and why it refuses what.
        about: Value,
    },
}

/// How much is measured.
#[derive(Clone, Debug, Default)]
pub struct Size {
    /// In minutes, with fewer points and rounds.
    pub quick: bool,
    /// Processors, as `--cores` takes them.
    pub cores: Option<String>,
    /// In seconds: hardly anything is measured, to try the command.
    pub tiny: bool,
}

impl Size {
    /// What is meant for this size.
    fn pick<T>(&self, full: T, quick: T, tiny: T) -> T {
        match (self.tiny, self.quick) {
            (true, _) => tiny,
            (_, true) => quick,
            _ => full,
        }
    }
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Target {
    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Software => "software",
            Self::Device { port, .. } => port,
        }
    }

    /// Why rules of a kind are not taken, in the driver's words.
    #[must_use]
    pub fn refuses(&self, kind: &str) -> Option<&str> {
        match self {
            Self::Software => None,
            Self::Device { about, .. } => about.get("refused")?.get(kind)?.as_str(),
        }
    }

    fn later_tables(&self) -> bool {
        match self {
            Self::Software => true,
            Self::Device { about, .. } => about.get("later_table_refused").is_some_and(Value::is_null),
        }
    }

    /// Whether packets come to it.
    #[must_use]
    pub fn receives(&self) -> bool {
        match self {
            Self::Software => true,
            Self::Device { about, .. } => about.get("receives").and_then(Value::as_bool) == Some(true),
        }
    }

    /// Why something cannot be asked of it; nothing if it can.
    #[must_use]
    pub fn cannot(&self, study: Study) -> Option<String> {
        const SILENT: &str =
            "no packets arrive at this port: send some to it, or name a port that does (--from)";
        let traffic = !matches!(study, Study::Insertion | Study::Replacement);
        let refused = match study {
            Study::Insertion => {
                let mut words = KINDS.iter().map(|kind| self.refuses(kind.name));
                if words.any(|words| words.is_none()) { None } else { self.refuses(KINDS[0].name) }
            }
            _ => self.refuses(KINDS[0].name),
        };
        match refused {
            Some(words) => Some(format!("the driver takes no such rule: {words}")),
            None if traffic && !self.receives() => Some(SILENT.to_owned()),
            None if study == Study::Chain && !self.later_tables() => {
                let Self::Device { about, .. } = self else { return None };
                let words = about.get("later_table_refused").and_then(Value::as_str).unwrap_or_default();
                Some(format!("the driver takes no rule for a later table: {words}"))
            }
            None => None,
        }
    }

    /// The options that name it.
    fn options(&self) -> String {
        match self {
            Self::Software => String::new(),
            Self::Device { port, from, .. } => {
                let from = from.as_ref().map_or_else(String::new, |from| format!(" --from {}", quoted(from)));
                format!(" --port {}{from}", quoted(port))
            }
        }
    }
}

/// Values of a factor, in TOML.
fn factor(name: &str, values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("\"${name}\" = [{}]\n", quoted.join(", "))
}

impl Study {
    /// Its name, that of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Occupancy => "occupancy",
            Self::Chain => "chain",
            Self::Batch => "batch",
            Self::Churn => "churn",
            Self::Insertion => "insertion",
            Self::Replacement => "replacement",
        }
    }

    /// The figure of the paper that it is like.
    fn figure(self) -> &'static str {
        match self {
            Self::Occupancy => "Figures 2a and 2c: occupancy of a table",
            Self::Chain => "Figures 2b and 2d: a chain of tables",
            Self::Batch => "Figure 3: a batch of updates",
            Self::Churn => "Figure 4: continuous updates",
            Self::Insertion => "Figures 5a to 5c: insertion by protocol",
            Self::Replacement => "Figure 6: strategies of updates",
        }
    }

    /// Arguments of `valiant nic measure`; figures, with their names in what it prints; what is varied.
    fn plan(self, target: &Target, size: &Size) -> (String, &'static [(&'static str, &'static str)], String) {
        const RATES: &[(&str, &str)] = &[
            ("pps", "pps"),
            ("burst 50 % ns", "latency_p50_ns"),
            ("burst 99 % ns", "latency_p99_ns"),
            ("matched", "matched"),
        ];
        let of = |full: &[&str], quick: &[&str], tiny: &[&str], name: &str| {
            factor(name, size.pick(full, quick, tiny))
        };
        let pick = |full: &'static str, quick, tiny| size.pick(full, quick, tiny);
        match self {
            Self::Occupancy => (
                format!(
                    "lookup --rules \"$RULES\" --share \"$SHARE\" --seconds {}",
                    pick("2", "0.4", "0.05")
                ),
                RATES,
                of(
                    &["1000", "4096", "16384", "32768", "49152", "57000", "65536", "1000000"],
                    &["1000", "16384", "57000", "65536"],
                    &["100", "1000"],
                    "RULES",
                ) + &of(&["0", "0.25", "0.5", "0.75", "1"], &["0", "1"], &["0"], "SHARE"),
            ),
            Self::Chain => (
                format!(
                    "lookup --tables \"$TABLES\" --rules {} --seconds {}",
                    pick("1000000", "65536", "1000"),
                    pick("2", "0.4", "0.05")
                ),
                RATES,
                of(&["1", "2", "4", "8", "16"], &["1", "2", "4", "8", "16"], &["1", "16"], "TABLES"),
            ),
            Self::Batch => (
                format!(
                    "batch --changes \"$CHANGES\" --where \"$WHERE\" --rules {} --seconds {} --save \"series-$CHANGES-$WHERE.json\"",
                    pick("65536", "10000", "100"),
                    pick("10", "2", "0.7")
                ),
                &[
                    ("worst bucket", "worst"),
                    ("worst bucket before", "worst_before"),
                    ("outage ms", "outage_ms"),
                    ("longest gap ms", "gap_ms"),
                    ("longest gap before ms", "gap_before_ms"),
                    ("update ms", "update_ms"),
                    ("pps before", "pps_before"),
                ],
                of(&["1", "1000", "10000", "100000"], &["1", "1000", "10000", "100000"], &["100"], "CHANGES")
                    + &factor("WHERE", &["same", "other"]),
            ),
            Self::Churn => (
                format!(
                    "churn --changes \"$RATE\" --where \"$WHERE\" --rules {} --seconds {}",
                    pick("65536", "10000", "1000"),
                    pick("5", "1.2", "0.4")
                ),
                &[
                    ("part of the rate", "part"),
                    ("pps", "pps"),
                    ("pps before", "pps_before"),
                    ("burst ns", "latency_ns"),
                    ("burst before ns", "latency_before_ns"),
                    ("updates/s", "updates_per_second"),
                ],
                of(
                    &["1000", "10000", "50000", "100000", "500000"],
                    &["1000", "10000", "100000", "500000"],
                    &["10000"],
                    "RATE",
                ) + &factor("WHERE", &["same", "other"]),
            ),
            Self::Insertion => {
                let taken: Vec<&str> = KINDS
                    .iter()
                    .map(|kind| kind.name)
                    .filter(|kind| target.refuses(kind).is_none())
                    .collect();
                let tables: &[&str] = if target.later_tables() && !size.tiny { &["0", "1"] } else { &["0"] };
                (
                    format!(
                        "insert --kind \"$KIND\" --table \"$TABLE\" --rules {} --seconds {}",
                        pick("65536", "16384", "200"),
                        pick("10", "0.6", "0.1")
                    ),
                    &[
                        ("insertions/s", "insertions_per_second"),
                        ("deletions/s", "deletions_per_second"),
                        ("rules", "rules"),
                        ("full", "full"),
                        ("bytes/rule", "bytes_per_rule"),
                    ],
                    factor("KIND", &taken) + &factor("TABLE", tables),
                )
            }
            Self::Replacement => {
                let all: &[&str] = match target {
                    Target::Software => &["delete-insert", "insert-delete", "change", "in-place"],
                    Target::Device { .. } => &["delete-insert", "insert-delete"],
                };
                let seen: &[(&str, &str)] = match target {
                    Target::Device { from: None, .. } => &[("updates/s", "updates_per_second")],
                    _ => &[
                        ("updates/s", "updates_per_second"),
                        ("neither", "neither"),
                        ("old or new", "old_or_new"),
                        ("pps", "pps"),
                    ],
                };
                (
                    format!(
                        "replace --how \"$HOW\" --rules {} --share 1 --seconds {}",
                        pick("65536", "10000", "100"),
                        pick("5", "1", "0.1")
                    ),
                    seen,
                    factor("HOW", all),
                )
            }
        }
    }

    /// The experiment file.
    #[must_use]
    pub fn file(self, target: &Target, size: &Size) -> String {
        let (arguments, figures, vary) = self.plan(target, size);
        let cores =
            size.cores.as_ref().map_or_else(String::new, |cores| format!(" --cores {}", quoted(cores)));
        let command = format!("exec \"$VALIANT\" nic measure {arguments}{}{cores}", target.options());
        let rounds = size.pick(5, 3, 1);
        // The medians of all rounds count, however far they are apart.
        let spread = if rounds < 3 { "" } else { "spread = 0.99\n" };
        let mut text = format!(
            "# Made by `valiant nic bench`.\n\n[experiment]\nrounds = {rounds}\n{spread}\n[device]\ncommand = {}\n\n[figures]\n",
            Value::from(command)
        );
        for (name, path) in figures {
            // Writing to a string does not fail.
            let _ = writeln!(text, "\"{name}\" = \"{path}\"");
        }
        let _ = write!(
            text,
            "\n[vary]\n{vary}\n[paper]\ntitle = \"What You Need to Know About (Smart) Network Interface Cards (PAM 2021)\"\nfigure = \"{}\"\nsource = \"https://doi.org/10.1007/978-3-030-72582-2_19\"\n",
            self.figure()
        );
        text
    }
}
