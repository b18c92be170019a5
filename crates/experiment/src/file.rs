//! From the text of an experiment file to an experiment. All errors are collected, with their places.

use crate::expect::{self, RawExpect};
use crate::known::Known;
use crate::model::{Device, Experiment, Factor, Measure, Settings, packets};
use crate::paper::{self, RawPaper};
use crate::reading::Varied;
use crate::values::{part, word};
use lang::{Diagnostic, Diagnostics, Source};
use launch::settings::{self, at, is_name};
use measure::search::{Goal, Method};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Spanned, Value};

/// Where the keys are described.
const HELP: &str = "conf/experiment.toml is an example, doc/experiments.md has all keys";
/// The most rounds, and values of a factor.
const MOST_ROUNDS: i64 = 10_000;
/// The shortest trial, in seconds.
const LEAST_SECONDS: f64 = 0.01;
/// The most trials that one rate may need.
const MOST_TRIALS_OF_RATE: f64 = 200.0;
/// The most threads of the generator.
const MOST_THREADS: usize = 64;
/// The most points of an experiment.
const MOST_POINTS: usize = 100_000;
/// What a trial's traffic is made of: the options of `valiant gen`.
const TRAFFIC: [&str; 13] = [
    "size", "flows", "src", "dst", "sport", "dport", "src-mac", "dst-mac", "ttl", "seed", "ipv6", "random",
    "rate",
];
/// How a program is run: the options of `valiant run`.
const DEVICE: [&str; 5] = ["threads", "cpus", "burst", "memory", "placement"];
/// The highest rate of a search, unless the file says otherwise: 10 Gb/s of the shortest frames.
const MOST: u64 = 14_880_952;
const LEAST: u64 = 1000;
/// What `valiant gen` sends without `size`.
const SIZE: &str = "60";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    experiment: RawExperiment,
    #[serde(default)]
    device: RawDevice,
    traffic: BTreeMap<Spanned<String>, Spanned<Value>>,
    #[serde(default)]
    generator: RawGenerator,
    #[serde(default)]
    measure: RawMeasure,
    #[serde(default)]
    vary: BTreeMap<Spanned<String>, Spanned<Value>>,
    paper: Option<RawPaper>,
    #[serde(default)]
    expect: Vec<Spanned<RawExpect>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawExperiment {
    name: Option<Spanned<String>>,
    rounds: Option<Spanned<i64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawDevice {
    program: Option<Spanned<String>>,
    command: Option<Spanned<String>>,
    ready: Option<Spanned<Value>>,
    #[serde(default)]
    variables: BTreeMap<Spanned<String>, Spanned<Value>>,
    threads: Option<Spanned<Value>>,
    cpus: Option<Spanned<Value>>,
    burst: Option<Spanned<Value>>,
    memory: Option<Spanned<Value>>,
    placement: Option<Spanned<Value>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawGenerator {
    cpus: Option<Spanned<Value>>,
    threads: Option<Spanned<i64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawMeasure {
    search: Option<Spanned<String>>,
    loss: Option<Spanned<Value>>,
    exceed: Option<Spanned<Value>>,
    width: Option<Spanned<Value>>,
    first: Option<Spanned<Value>>,
    last: Option<Spanned<Value>>,
    sum: Option<Spanned<Value>>,
    least: Option<Spanned<Value>>,
    most: Option<Spanned<Value>>,
    latency: Option<Spanned<Value>>,
}

impl Experiment {
    /// Reads an experiment file.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        let (source, dir) = settings::load(path, HELP)?;
        Self::read(&source, path, dir)
    }

    fn read(source: &Source, path: &Path, dir: PathBuf) -> Result<Self, Diagnostics> {
        let mut reader = Reader { diags: Diagnostics::new(), dir: &dir };
        let raw: Option<RawFile> = settings::read(&source.text, HELP, &mut reader.diags);
        let experiment = raw.map(|raw| reader.experiment(&raw, source, path));
        let mut diags = reader.diags;
        settings::finish(&mut diags, source);
        match experiment {
            Some(experiment) if !diags.has_errors() => Ok(Self { dir, ..experiment }),
            _ => Err(diags),
        }
    }
}

struct Reader<'a> {
    diags: Diagnostics,
    dir: &'a Path,
}

/// A part of a rate: all of it too.
fn part_of_rate(value: &Value) -> Option<f64> {
    match word(value)?.trim() {
        "1" | "100%" => Some(1.0),
        _ => part(value),
    }
}

/// A time longer than 0, in seconds: 0.5 or "500ms".
fn time(value: &Value) -> Option<f64> {
    let seconds = launch::live::time(&word(value)?).ok()?.as_secs_f64();
    (LEAST_SECONDS..=1e6).contains(&seconds).then_some(seconds)
}

impl Reader<'_> {
    fn wrong(&mut self, place: &Spanned<impl Sized>, message: String, help: &str) {
        self.diags.error_with_help(at(place), message, help);
    }

    /// The meaning of a value, or what it should be like.
    fn value<T>(
        &mut self,
        key: &str,
        value: Option<&Spanned<Value>>,
        meaning: impl Fn(&Value) -> Option<T>,
        like: &str,
    ) -> Option<T> {
        let value = value?;
        let meant = meaning(value.get_ref());
        if meant.is_none() {
            let text = word(value.get_ref()).unwrap_or_else(|| "a list or table".to_owned());
            self.wrong(value, format!("{key} = {text} cannot be used"), like);
        }
        meant
    }

    /// One or several words.
    fn words(&mut self, key: &str, value: &Spanned<Value>) -> Vec<String> {
        let all: Option<Vec<String>> = match value.get_ref() {
            Value::Array(values) => values.iter().map(word).collect(),
            one => word(one).map(|word| vec![word]),
        };
        let good = all.filter(|all| !all.is_empty() && all.iter().all(|word| !word.is_empty()));
        if good.is_none() {
            let help = format!("{key} = \"VALUE\", or {key} = [\"VALUE\", ...]");
            self.wrong(value, format!("{key} has no value that can be used"), &help);
        }
        good.unwrap_or_default()
    }

    fn experiment(&mut self, raw: &RawFile, source: &Source, path: &Path) -> Experiment {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("experiment");
        let name = raw.experiment.name.as_ref();
        if let Some(name) = name.filter(|name| !is_name(name.get_ref())) {
            let help = "up to 32 letters, digits, '-' and '_'";
            self.wrong(name, format!("'{}' is not a valid name", name.get_ref()), help);
        }
        let rounds = raw.experiment.rounds.as_ref().map_or(1, |rounds| {
            let good =
                u32::try_from(*rounds.get_ref()).ok().filter(|n| (1..=MOST_ROUNDS).contains(&(*n).into()));
            if good.is_none() {
                let help = format!("how often each point is measured: 1 to {MOST_ROUNDS}");
                self.wrong(rounds, format!("rounds = {} is out of range", rounds.get_ref()), &help);
            }
            good.unwrap_or(1)
        });
        let mut held = Settings::new();
        let device = self.device(&raw.device, &mut held);
        let ready = self.value(
            "ready",
            raw.device.ready.as_ref(),
            time,
            "a time of 10 ms and more, such as 2 or \"500ms\"",
        );
        // A program says when it is ready; of a command it is not known.
        let usual = if matches!(device, Device::Command(_)) { 1.0 } else { 10.0 };
        let (to, sink) = self.traffic(&raw.traffic, &mut held);
        let list = |value: &Value| word(value).filter(|list| launch::cpu_list(list).is_ok());
        let generator_cpus =
            self.value("cpus", raw.generator.cpus.as_ref(), list, "a list of processors such as \"2,4-5\"");
        let generator_threads = raw.generator.threads.as_ref().map_or(1, |threads| {
            let good = usize::try_from(*threads.get_ref()).ok().filter(|n| (1..=MOST_THREADS).contains(n));
            if good.is_none() {
                let help = format!("1 to {MOST_THREADS}");
                self.wrong(threads, format!("threads = {} is out of range", threads.get_ref()), &help);
            }
            good.unwrap_or(1)
        });
        let factors = self.factors(&raw.vary, &device, &held);
        let varied = |name: &str| factors.iter().any(|factor| factor.name == name);
        let measure = self.measure(&raw.measure, held.get("rate").map(String::as_str), varied("rate"));
        if !matches!(measure, Measure::Rate { .. }) {
            held.remove("rate");
        }
        let of = |factor: &Factor| Varied { name: factor.name.clone(), values: factor.values.clone() };
        let known: Vec<Varied> = factors.iter().map(of).collect();
        let losses: Vec<f64> = match &measure {
            Measure::Search { goals, .. } => goals.iter().map(|goal| goal.loss).collect(),
            Measure::Rate { .. } => Vec::new(),
        };
        let known = Known { factors: &known, losses: &losses };
        let size = held.get("size").map_or(SIZE, String::as_str);
        let paper =
            raw.paper.as_ref().and_then(|paper| paper::read(paper, &known, Some(size), &mut self.diags));
        let expect =
            raw.expect.iter().filter_map(|entry| expect::read(entry, &known, &mut self.diags)).collect();
        Experiment {
            name: name.map_or(stem, |name| name.get_ref()).to_owned(),
            text: source.text.clone(),
            dir: PathBuf::new(),
            rounds,
            device,
            ready: Duration::from_secs_f64(ready.unwrap_or(usual)),
            held,
            to,
            sink,
            generator_cpus,
            generator_threads,
            factors,
            measure,
            paper,
            expect,
        }
    }

    fn device(&mut self, raw: &RawDevice, held: &mut Settings) -> Device {
        let device = match (&raw.program, &raw.command) {
            (Some(program), Some(_)) => {
                let help = "a program runs by `valiant run`, a command by the shell";
                self.wrong(program, "the device has a program and a command".to_owned(), help);
                return Device::Between;
            }
            (Some(program), None) => {
                let path = self.dir.join(program.get_ref());
                if !path.is_file() {
                    let help = "paths start at the directory of the experiment file";
                    self.wrong(program, format!("there is no file {}", path.display()), help);
                }
                Device::Program(path)
            }
            (None, Some(command)) => Device::Command(command.get_ref().clone()),
            (None, None) => Device::Between,
        };
        let options = [&raw.threads, &raw.cpus, &raw.burst, &raw.memory, &raw.placement];
        for (key, value) in DEVICE.iter().zip(options) {
            let Some(value) = value else { continue };
            if !matches!(device, Device::Program(_)) {
                let help = "with `program`, the device is a program of Valiant's";
                self.wrong(value, format!("{key} is for a device with a program"), help);
            }
            held.extend(
                self.value(key, Some(value), word, "a word or a number").map(|v| ((*key).to_owned(), v)),
            );
        }
        for (name, value) in &raw.variables {
            if device == Device::Between {
                let help = "the device is what is between the ports: it has no variables";
                self.wrong(name, format!("the variable {} is nobody's", name.get_ref()), help);
            }
            let value = self.value(name.get_ref(), Some(value), word, "a word or a number");
            held.extend(value.map(|value| (format!("${}", name.get_ref()), value)));
        }
        device
    }

    fn traffic(
        &mut self,
        raw: &BTreeMap<Spanned<String>, Spanned<Value>>,
        held: &mut Settings,
    ) -> (Vec<String>, Vec<String>) {
        let (mut to, mut sink) = (None, None);
        for (key, value) in raw {
            match key.get_ref().as_str() {
                "to" => to = Some(self.words("to", value)),
                "sink" => sink = Some(self.words("sink", value)),
                name if TRAFFIC.contains(&name) => {
                    held.extend(
                        self.value(name, Some(value), word, "a word or a number")
                            .map(|v| (name.to_owned(), v)),
                    );
                }
                name => {
                    let help = format!("traffic has to, sink, {}", TRAFFIC.join(", "));
                    self.wrong(key, format!("traffic has no '{name}'"), &help);
                }
            }
        }
        let mut need = |key: &str, found: Option<Vec<String>>, what: &str| {
            if found.is_none() {
                let message = format!("[traffic] has no {key}");
                let help = format!("{key} = \"PORT\": {what}");
                self.diags.push(Diagnostic::error(None, message).with_help(help));
            }
            found.unwrap_or_default()
        };
        let to = need("to", to, "the port that the traffic is sent to");
        (to, need("sink", sink, "the port where it returns from the device under test"))
    }

    fn factors(
        &mut self,
        raw: &BTreeMap<Spanned<String>, Spanned<Value>>,
        device: &Device,
        held: &Settings,
    ) -> Vec<Factor> {
        let mut factors: Vec<Factor> = Vec::new();
        for (name, values) in settings::in_order(raw) {
            let text = name.get_ref().as_str();
            let known = match text.strip_prefix('$') {
                Some(variable) => !variable.is_empty() && *device != Device::Between,
                None => {
                    TRAFFIC.contains(&text)
                        || (matches!(device, Device::Program(_))
                            && (DEVICE.contains(&text) || text == "program"))
                }
            };
            if !known {
                let help = match device {
                    Device::Program(_) => format!(
                        "vary has {}, {}, program, and variables of the program as \"$NAME\"",
                        TRAFFIC.join(", "),
                        DEVICE.join(", ")
                    ),
                    Device::Command(_) => {
                        format!("vary has {}, and words of the command as \"$NAME\"", TRAFFIC.join(", "))
                    }
                    Device::Between => format!("vary has {}", TRAFFIC.join(", ")),
                };
                self.wrong(name, format!("'{text}' cannot be varied"), &help);
            }
            if held.contains_key(text) {
                self.wrong(
                    name,
                    format!("{text} is varied and held"),
                    "remove it from [traffic] or [device]",
                );
            }
            let values_of = self.words(text, values);
            if let Some(twice) = (1..values_of.len()).find(|at| values_of[..*at].contains(&values_of[*at])) {
                self.wrong(values, format!("{text} has {} twice", values_of[twice]), "each value once");
            }
            if text == "rate"
                && let Some(bad) = values_of.iter().find(|rate| packets(rate).is_none())
            {
                self.wrong(
                    values,
                    format!("'{bad}' is no rate in packets"),
                    "rates such as 1M or \"14.88Mpps\"",
                );
            }
            if text == "program"
                && let Some(none) = values_of.iter().find(|path| !self.dir.join(path).is_file())
            {
                let help = "paths start at the directory of the experiment file";
                self.wrong(values, format!("there is no file {}", self.dir.join(none).display()), help);
            }
            factors.push(Factor { name: text.to_owned(), values: values_of });
        }
        let points =
            factors.iter().try_fold(1usize, |all, factor| all.checked_mul(factor.values.len().max(1)));
        if points.is_none_or(|points| points > MOST_POINTS) {
            let message = format!("more than {MOST_POINTS} points");
            self.diags.push(Diagnostic::error(None, message).with_help("vary less in one experiment"));
        }
        factors
    }

    fn measure(&mut self, raw: &RawMeasure, rate: Option<&str>, varied: bool) -> Measure {
        let seconds = "a time of 10 ms and more, such as 2 or \"500ms\"";
        let first = self.value("first", raw.first.as_ref(), time, seconds);
        let last = self.value("last", raw.last.as_ref(), time, seconds);
        let sum = self.value("sum", raw.sum.as_ref(), time, seconds);
        let method = match raw.search.as_ref().map(|word| (word, word.get_ref().as_str())) {
            None if rate.is_some() || varied => {
                let packets = rate.and_then(packets);
                if let (Some(rate), None) = (rate, packets) {
                    let message = format!("rate = {rate}: this is no rate in packets");
                    let help = "a rate such as 1M or \"14.88Mpps\"";
                    self.diags.push(Diagnostic::error(None, message).with_help(help));
                }
                let others = [
                    ("loss", &raw.loss),
                    ("exceed", &raw.exceed),
                    ("width", &raw.width),
                    ("first", &raw.first),
                    ("sum", &raw.sum),
                    ("least", &raw.least),
                    ("most", &raw.most),
                    ("latency", &raw.latency),
                ];
                for (key, value) in others {
                    if let Some(value) = value {
                        let help = "a rate is given, so none is searched for";
                        self.wrong(value, format!("{key} is for a search"), help);
                    }
                }
                return Measure::Rate { rate: packets.unwrap_or(1), seconds: last.unwrap_or(1.0) };
            }
            None | Some((_, "mlrsearch")) => Method::MlrSearch,
            Some((_, "rfc2544")) => Method::Binary,
            Some((word, other)) => {
                self.wrong(word, format!("'{other}' is no search"), "use \"mlrsearch\" or \"rfc2544\"");
                Method::MlrSearch
            }
        };
        if let Some(search) = raw.search.as_ref().filter(|_| rate.is_some() || varied) {
            let help = "without `rate`, rates are searched for; without `search`, the given one is measured";
            self.wrong(search, "there is a search and a rate".to_owned(), help);
        }
        let percent = "a part such as 0.005 or \"0.5%\", less than 1";
        let exceed = self.value("exceed", raw.exceed.as_ref(), part, percent);
        let width = self.value("width", raw.width.as_ref(), |v| part(v).filter(|w| *w > 0.0), percent);
        let losses = self.parts("loss", raw.loss.as_ref(), part, "loss = 0, or loss = [0, \"0.5%\"]");
        let load = |value: &Value| part_of_rate(value).filter(|share| *share > 0.0);
        let latency =
            self.parts("latency", raw.latency.as_ref(), load, "latency = [\"10%\", \"50%\", \"90%\"]");
        let standard = match method {
            Method::MlrSearch => {
                Goal { loss: 0.0, exceed: 0.5, first: 0.3, last: 1.0, sum: 3.0, width: 0.005 }
            }
            // Section 24 of RFC 2544.
            Method::Binary => Goal::simple(0.0, 60.0, 0.005),
        };
        let last = last.unwrap_or(standard.last);
        let standard_sum = if method == Method::Binary { last } else { standard.sum.max(last) };
        let goal = Goal {
            loss: 0.0,
            exceed: exceed.unwrap_or(standard.exceed),
            first: first.unwrap_or(standard.first.min(last)),
            last,
            sum: sum.unwrap_or(standard_sum),
            width: width.unwrap_or(standard.width),
        };
        let all = [
            (&raw.first, goal.first > last, "first is longer than last"),
            (&raw.sum, goal.sum < last, "sum is shorter than last"),
            (&raw.sum, goal.sum / last > MOST_TRIALS_OF_RATE, "sum needs more than 200 trials of a rate"),
        ];
        for (place, bad, message) in all {
            if let (Some(place), true) = (place, bad) {
                self.wrong(place, message.to_owned(), "first <= last <= sum <= 200 * last");
            }
        }
        let rate = |v: &Value| packets(&word(v)?).filter(|n| *n > 0);
        let like = "a rate in packets such as 1M or \"14.88Mpps\"";
        let least = self.value("least", raw.least.as_ref(), rate, like).unwrap_or(LEAST);
        let most = self.value("most", raw.most.as_ref(), rate, like).unwrap_or(MOST.max(least));
        if let Some(place) = raw.least.as_ref().or(raw.most.as_ref()).filter(|_| least > most) {
            self.wrong(place, format!("least = {least} is more than most = {most}"), like);
        }
        let losses = losses.unwrap_or_else(|| vec![0.0]);
        let goals = losses.into_iter().map(|loss| Goal { loss, ..goal }).collect();
        Measure::Search { method, goals, least, most, latency: latency.unwrap_or_default() }
    }

    /// One or several different parts of something.
    fn parts(
        &mut self,
        key: &str,
        value: Option<&Spanned<Value>>,
        meaning: impl Fn(&Value) -> Option<f64>,
        like: &str,
    ) -> Option<Vec<f64>> {
        let value = value?;
        let all: Option<Vec<f64>> = match value.get_ref() {
            Value::Array(all) => all.iter().map(meaning).collect(),
            one => meaning(one).map(|one| vec![one]),
        };
        let different = |all: &Vec<f64>| (1..all.len()).all(|at| !all[..at].contains(&all[at]));
        let good = all.filter(|all| !all.is_empty() && different(all));
        if good.is_none() {
            self.wrong(value, format!("{key} has no value that can be used"), like);
        }
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    fn read(text: &str) -> Result<Experiment, Vec<String>> {
        let read = Experiment::read(&Source::new("e.toml", text), Path::new("e.toml"), PathBuf::from("/"));
        read.map_err(|diags| diags.iter().map(|d| d.message.clone()).collect())
    }

    #[test]
    fn a_short_file_is_a_search_between_two_ports() {
        let e = read("[traffic]\nto = \"a\"\nsink = \"b\"\n").unwrap();
        assert_eq!((e.name.as_str(), e.rounds, &e.device), ("e", 1, &Device::Between));
        assert_eq!((e.to.as_slice(), e.sink.as_slice()), (&["a".to_owned()][..], &["b".to_owned()][..]));
        let Measure::Search { method, goals, least, most, latency } = &e.measure else { panic!("{e:?}") };
        assert_eq!(
            (*method, goals.len(), goals[0].loss, *least, *most),
            (Method::MlrSearch, 1, 0.0, LEAST, MOST)
        );
        assert!(latency.is_empty());
        assert_eq!(e.points(), [Point::default()]);
    }

    #[test]
    fn points_are_all_combinations_in_the_order_of_the_file() {
        let e = read(
            "[traffic]\nto = \"a\"\nsink = [\"b\", \"c\"]\nttl = 9\n[vary]\nsize = [60, \"imix\"]\nflows = [1, 1000]\n\
             [device]\ncommand = \"x\"\n[experiment]\nrounds = 3\nname = \"try\"\n",
        )
        .unwrap();
        let points: Vec<String> = e.points().iter().map(ToString::to_string).collect();
        assert_eq!(
            points,
            ["size 60, flows 1", "size 60, flows 1000", "size imix, flows 1", "size imix, flows 1000"]
        );
        let settings = e.settings(&e.points()[2]);
        assert_eq!(
            settings.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
            ["flows=1", "size=imix", "ttl=9"]
        );
        assert_eq!((e.rounds, e.name.as_str(), e.sink.len()), (3, "try", 2));
    }

    #[test]
    fn programs_may_be_varied() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[device]\nprogram = \"a.click\"\n[traffic]\nto = \"a\"\nsink = \"b\"\n[vary]\nprogram = [\"a.click\", \"b.click\"]\n";
        let read = || Experiment::read(&Source::new("e.toml", text), Path::new("e.toml"), dir.path().into());
        std::fs::write(dir.path().join("a.click"), "first").unwrap();
        let errors = read().unwrap_err();
        assert!(errors.iter().any(|error| error.message.ends_with("b.click")), "{errors:?}");
        std::fs::write(dir.path().join("b.click"), "second").unwrap();
        let e = read().unwrap();
        let programs: Vec<_> = e.points().iter().map(|point| e.program_at(&e.settings(point))).collect();
        assert_eq!(programs, ["a.click", "b.click"].map(|name| Some(dir.path().join(name))));
        let Measure::Search { .. } = e.measure else { panic!("{e:?}") };
        assert_eq!(e.programs(), ["a.click", "b.click"].map(|name| dir.path().join(name)));
    }

    #[test]
    fn a_paper_and_expectations_are_part_of_it() {
        let text = |rest: &str| {
            format!(
                "[traffic]\nto = \"a\"\nsink = \"b\"\n[vary]\nsize = [60, 1514]\n[measure]\nloss = [0, \"1%\"]\n{rest}"
            )
        };
        let good = "[paper]\ntitle = \"P\"\nfigure = \"Figure 8\"\nunit = \"Mpps\"\nx = \"size\"\nvalues = [{x = 60, y = 18.96, section = \"5.2\"}]\n\
                    [[expect]]\nfalls = \"size\"\nloss = \"1%\"\n[[expect]]\nratio = [{size = 60}, {size = 1514}]\nleast = 1\n";
        let e = read(&text(good)).unwrap();
        assert_eq!((e.paper.unwrap().values.len(), e.expect.len()), (1, 2));
        let errors = read(&text(
            "[[expect]]\nfalls = \"flows\"\n[[expect]]\nrises = \"size\"\nflat = \"size\"\n[[expect]]\nflat = \"size\"\n\
             [[expect]]\nrises = \"size\"\nat = {size = 61}\nof = \"speed\"\nloss = 0.5\nwithin = 2\nleast = 3\nmost = 2\n\
             [[expect]]\nratio = [{size = 60}]\n[[expect]]\nratio = [{size = 60}, {size = 1514}]\n[[expect]]\n",
        ))
        .unwrap_err();
        for part in [
            "'flows' is not varied",
            "has one shape",
            "flat needs within",
            "size never has this value",
            "'speed' is nothing that is measured",
            "not one of those that are measured",
            "within has no value",
            "least = 3 is more than most = 2",
            "that of two points",
            "needs least or most",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
        assert_eq!(errors.len(), 11, "{errors:#?}");
    }

    #[test]
    fn a_rate_may_be_held_or_varied() {
        let e =
            read("[traffic]\nto = \"a\"\nsink = \"b\"\nrate = \"1.5M\"\n[measure]\nlast = \"2s\"\n").unwrap();
        assert_eq!(e.measure_at(&Point::default()), Measure::Rate { rate: 1_500_000, seconds: 2.0 });
        let e = read("[traffic]\nto = \"a\"\nsink = \"b\"\n[vary]\nrate = [1000, \"2k\"]\n").unwrap();
        let rates: Vec<_> = e.points().iter().map(|point| e.measure_at(point)).collect();
        assert_eq!(
            rates,
            [Measure::Rate { rate: 1000, seconds: 1.0 }, Measure::Rate { rate: 2000, seconds: 1.0 }]
        );
    }

    #[test]
    fn searches_are_as_the_file_says() {
        let e = read(
            "[traffic]\nto = \"a\"\nsink = \"b\"\n[measure]\nsearch = \"rfc2544\"\nloss = [0, \"0.5%\"]\nlast = 5\n\
             width = \"1%\"\nlatency = [\"50%\", 1]\nleast = 10\nmost = \"2M\"\n",
        )
        .unwrap();
        let goal = |loss| Goal { width: 0.01, ..Goal::simple(loss, 5.0, 0.01) };
        let goals = vec![goal(0.0), goal(0.005)];
        assert_eq!(
            e.measure,
            Measure::Search {
                method: Method::Binary,
                goals,
                least: 10,
                most: 2_000_000,
                latency: vec![0.5, 1.0]
            }
        );
    }

    #[test]
    fn all_errors_are_found() {
        let errors = read(
            "[experiment]\nname = \"a b\"\nrounds = 0\n[device]\nthreads = 2\n[device.variables]\nX = 1\n[traffic]\n\
             to = []\nspeed = 3\n[measure]\nsearch = \"fast\"\nloss = \"120%\"\nwidth = 0\nlast = \"soon\"\nleast = 9\n\
             most = 8\n[vary]\nsize = [60, 60]\ncolor = [1]\n",
        )
        .unwrap_err();
        for part in [
            "'a b' is not a valid name",
            "rounds = 0",
            "threads is for",
            "variable X",
            "to has no value",
            "no 'speed'",
            "has no sink",
            "'fast' is no search",
            "loss has no value",
            "width = 0",
            "last = soon",
            "least = 9",
            "60 twice",
            "'color' cannot be varied",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
        assert_eq!(errors.len(), 14, "{errors:#?}");
    }
}
