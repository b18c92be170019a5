//! An experiment.

use crate::expect::Expect;
use crate::reading::Cited;
use measure::search::{Goal, Method};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is set for one measurement, by name; the names of a program's variables begin with `$`.
pub type Settings = BTreeMap<String, String>;

/// What is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// What is set.
    pub name: String,
    /// To what.
    pub values: Vec<String>,
}

/// One combination of the factors' values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub Vec<(String, String)>);

impl Point {
    /// What stands before a message about it: nothing, if nothing is varied.
    #[must_use]
    pub fn prefix(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("{self}: ") }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// The device under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// Whatever is between the ports.
    Between,
    /// A program that `valiant run` runs.
    Program(PathBuf),
    /// A command, started by the shell.
    Command(String),
}

/// Another host, where the device runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The words of a command that runs there what follows it.
    pub command: Vec<String>,
    /// Valiant's program there.
    pub valiant: String,
    /// Files that the device needs beside its program: paths from the directory of the experiment file.
    pub files: Vec<String>,
}

/// What is measured at each point.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// The highest rates at which no more is lost than the goals say, between two rates in packets a second.
    Search {
        /// How rates are chosen.
        method: Method,
        /// What is searched for.
        goals: Vec<Goal>,
        /// The lowest rate.
        least: u64,
        /// The highest rate.
        most: u64,
        /// At which parts of the first goal's result latency is measured afterwards.
        latency: Vec<f64>,
        /// Bursts of back-to-back frames at the highest rate afterwards.
        bursts: Option<Bursts>,
    },
    /// Connections through a device that keeps state of them.
    Connections(Connections),
    /// What arrives of a rate, in packets a second, in trials of so many seconds.
    Rate {
        /// The rate.
        rate: u64,
        /// Seconds.
        seconds: f64,
    },
    /// How much the device forwards of traffic that it makes itself, in so many seconds.
    Count {
        /// Seconds.
        seconds: f64,
    },
    /// What a command prints.
    Figures,
}

/// Connections through a stateful device (RFC 9693).
#[derive(Clone, Debug, PartialEq)]
pub struct Connections {
    /// What is searched for; the number of connections is that of the point.
    pub goal: measure::connections::Goal,
    /// The rate at which the Responder answers, as a part of that of the Initiator.
    pub answer: f64,
    /// How the device's table is emptied before each trial.
    pub emptied: Emptied,
}

impl Connections {
    /// About how many trials it takes.
    fn trials(&self) -> f64 {
        let goal = &self.goal;
        let span = (goal.most as f64 / goal.least.max(1) as f64).max(2.0).ln();
        let of_rate = (span / goal.width.max(1e-6)).log2().max(1.0);
        let of_capacity = goal.capacity.map_or(0.0, |(most, _)| (most as f64).log2());
        1.0 + of_rate + of_capacity + goal.tear_downs as f64
    }
}

/// Connections that are set up before each trial, whose frames are then sent over them (RFC 9693, test phases
/// 1 and 2).
#[derive(Clone, Debug, PartialEq)]
pub struct SetUp {
    /// At this rate, in connections a second.
    pub rate: u64,
    /// The rate at which it is seen which still answer, as a part of it.
    pub answer: f64,
    /// How the device's table is emptied before.
    pub emptied: Emptied,
}

impl SetUp {
    /// The rate at which it is seen which still answer.
    pub(crate) fn answers(&self) -> u64 {
        ((self.rate as f64 * self.answer) as u64).max(1)
    }
}

/// How a table of connections is emptied.
#[derive(Clone, Debug, PartialEq)]
pub enum Emptied {
    /// A command of the shell on this host.
    Command(String),
    /// The device is started again.
    Restart,
    /// All connections have expired after so many seconds.
    Expire(f64),
}

/// A figure that a command prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What it is called.
    pub name: String,
    /// The way to it in the JSON: keys of objects, and numbers of elements of lists.
    pub path: Vec<String>,
}

/// Which bursts of back-to-back frames are sent (RFC 9004).
#[derive(Clone, Debug, PartialEq)]
pub struct Bursts {
    /// How often the longest one without loss is searched for.
    pub tests: usize,
    /// How long the longest one takes, in seconds.
    pub longest: f64,
    /// How far apart the bounds of a length may be, as a part of the upper one.
    pub width: f64,
}

impl Bursts {
    /// The search for the longest, at a rate in packets a second.
    #[must_use]
    pub fn search(&self, rate: u64) -> measure::burst::Search {
        measure::burst::Search::new((rate as f64 * self.longest) as u64, self.width, self.tests)
    }

    /// About how many bursts it takes.
    fn trials(&self, rate: u64) -> f64 {
        let steps = (rate as f64 * self.longest).max(2.0).ln() / self.width.max(1e-4);
        self.tests as f64 * (1.0 + steps.log2().max(1.0))
    }
}

/// Ports where frames leave, and ports where they return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cable {
    pub(crate) to: Vec<String>,
    pub(crate) sink: Vec<String>,
}

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// The text of the file.
    pub text: String,
    /// Where relative paths start.
    pub dir: PathBuf,
    /// How often each point is measured.
    pub rounds: u32,
    /// The spread of the rounds above which a point is measured again.
    pub(crate) spread: f64,
    /// The device under test.
    pub device: Device,
    /// The host of the device, if that is not this one.
    pub host: Option<Host>,
    /// How long the device may take to be ready.
    pub ready: Duration,
    /// What stays as it is.
    pub held: Settings,
    /// The ports that are sent to.
    pub to: Vec<String>,
    /// The ports where frames return.
    pub sink: Vec<String>,
    /// The destination addresses behind each of `sink`, if traffic goes to several outputs of the device.
    pub(crate) outputs: Vec<String>,
    /// The same of `to`, for traffic in the other direction.
    pub(crate) reverse_outputs: Vec<String>,
    /// Ports of the generator that are joined to each other, without the device.
    pub(crate) calibrate: Option<Cable>,
    /// In place of ports: the elements of the device that are given the packets that count. It makes its
    /// traffic itself.
    pub counted: Vec<String>,
    /// In place of traffic: what the device, a command, prints.
    pub figures: Vec<Figure>,
    /// The processors of the generator, if the file says it.
    pub generator_cpus: Option<String>,
    /// How many threads the generator has.
    pub generator_threads: usize,
    /// After a trial, nothing is expected any more when nothing has come for so long.
    pub wait: Duration,
    /// What is varied, in the order of the file.
    pub factors: Vec<Factor>,
    /// The points, if the file lists them.
    pub listed: Option<Vec<Point>>,
    /// What should be known before it is measured.
    pub warnings: Vec<String>,
    /// What is measured.
    pub measure: Measure,
    /// The connections over which that is sent; none: frames are not of connections.
    pub set_up: Option<SetUp>,
    /// The paper whose figure it repeats.
    pub(crate) paper: Option<Cited>,
    /// What is expected of the results.
    pub(crate) expect: Vec<Expect>,
}

impl Experiment {
    /// All points: those that the file lists, or each value of each factor with each of the others; the last
    /// factor changes first.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        if let Some(points) = &self.listed {
            return points.clone();
        }
        self.factors.iter().fold(vec![Point::default()], |points, factor| {
            let with = |point: &Point, value: &String| {
                let mut point = point.clone();
                point.0.push((factor.name.clone(), value.clone()));
                point
            };
            points
                .iter()
                .flat_map(|point| factor.values.iter().map(move |value| with(point, value)))
                .collect()
        })
    }

    /// Whether a generator sends traffic.
    pub(crate) fn is_sent(&self) -> bool {
        self.counted.is_empty() && self.figures.is_empty()
    }

    /// What is set at a point.
    #[must_use]
    pub fn settings(&self, point: &Point) -> Settings {
        let mut all = self.held.clone();
        all.extend(point.0.iter().cloned());
        all
    }

    /// The device's program with these settings: it may be varied. None: the device has none.
    #[must_use]
    pub(crate) fn program_at(&self, settings: &Settings) -> Option<PathBuf> {
        let Device::Program(path) = &self.device else { return None };
        Some(settings.get("program").map_or_else(|| path.clone(), |name| self.dir.join(name)))
    }

    /// All programs that the device has.
    #[must_use]
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        match self.factors.iter().find(|factor| factor.name == "program") {
            Some(factor) => factor.values.iter().map(|name| self.dir.join(name)).collect(),
            None => self.program_at(&self.held).into_iter().collect(),
        }
    }

    /// What is measured at a point: a rate may be varied.
    #[must_use]
    pub fn measure_at(&self, point: &Point) -> Measure {
        if let Measure::Connections(all) = &self.measure {
            let connections = self.connections_at(point);
            let goal = measure::connections::Goal { connections, ..all.goal.clone() };
            return Measure::Connections(Connections { goal, ..all.clone() });
        }
        match (&self.measure, self.settings(point).get("rate").and_then(|rate| packets(rate))) {
            (Measure::Rate { seconds, .. }, Some(rate)) => Measure::Rate { rate, seconds: *seconds },
            (other, _) => other.clone(),
        }
    }

    /// How many connections are set up at a point in a trial: its flows.
    pub(crate) fn connections_at(&self, point: &Point) -> u64 {
        self.connections_with(&self.settings(point))
    }

    /// The same with these settings.
    pub(crate) fn connections_with(&self, settings: &Settings) -> u64 {
        settings.get("flows").and_then(|n| n.parse().ok()).unwrap_or(CONNECTIONS)
    }

    /// About how long all of it takes, in seconds.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        let around = AROUND
            + self.set_up.as_ref().map_or(0.0, |set_up| {
                let expired =
                    if let Emptied::Expire(seconds) = set_up.emptied { seconds } else { AROUND / 2.0 };
                self.connections_at(&Point::default()) as f64 / set_up.rate as f64 + expired
            });
        let each = match &self.measure {
            Measure::Rate { seconds, .. } | Measure::Count { seconds } => seconds + around,
            Measure::Figures => AROUND,
            Measure::Connections(all) => {
                let expired = if let Emptied::Expire(seconds) = all.emptied { seconds } else { AROUND / 2.0 };
                all.trials() * (AROUND + self.wait.as_secs_f64() + expired)
            }
            Measure::Search { method, goals, least, most, latency, bursts } => {
                let span = (*most as f64 / *least as f64).max(2.0);
                let of_goal = |goal: &Goal| match method {
                    // Each trial halves the interval.
                    Method::Binary => (goal.sum + around) * (10.0 / goal.width).log2().ceil(),
                    // The short trials come near; a few loads get all the time.
                    Method::MlrSearch => {
                        6.0 * (goal.first + around) * span.log10().max(1.0) / 2.0
                            + 4.0 * (goal.sum + around * goal.sum / goal.last)
                    }
                };
                let last = goals.first().map_or(0.0, |goal| goal.last);
                let each = AROUND + self.wait.as_secs_f64() / 2.0;
                let of_bursts = bursts.as_ref().map_or(0.0, |bursts| bursts.trials(*most) * each);
                goals.iter().map(of_goal).sum::<f64>() + latency.len() as f64 * (last + around) + of_bursts
            }
        };
        let calibrated = match (&self.calibrate, &self.measure) {
            (None, _) | (_, Measure::Count { .. } | Measure::Figures | Measure::Connections(_)) => 0.0,
            (Some(_), Measure::Rate { seconds, .. }) => seconds + AROUND,
            (Some(_), Measure::Search { goals, latency, .. }) => {
                let last = goals.first().map_or(0.0, |goal| goal.last);
                (goals.len() + latency.len()) as f64 * (last + AROUND)
            }
        };
        (each + calibrated) * self.points().len() as f64 * f64::from(self.rounds)
    }

    /// How often a point is measured where its spread is too wide: half as often again.
    #[must_use]
    pub fn most_rounds(&self) -> u32 {
        self.rounds + if self.rounds < FEWEST_ROUNDS { 0 } else { self.rounds.div_ceil(2) }
    }
}

/// With fewer rounds their spread is not known.
pub(crate) const FEWEST_ROUNDS: u32 = 3;
/// The spread that is too wide if the file does not say it: the distance of the quartiles over the median.
pub(crate) const SPREAD: f64 = 0.1;
/// Connections of a trial if the file does not say how many.
pub(crate) const CONNECTIONS: u64 = 10_000;
/// Seconds that a trial takes beside its traffic.
const AROUND: f64 = 1.0;

/// A rate in packets a second.
pub(crate) fn packets(text: &str) -> Option<u64> {
    match measure::rate::Rate::parse(text).ok()? {
        measure::rate::Rate::Packets(rate) => Some(rate),
        _ => None,
    }
}
