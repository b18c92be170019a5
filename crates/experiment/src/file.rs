//! From the text of an experiment file to an experiment. All errors are collected, with their places.

use crate::expect::{self, RawExpect};
use crate::factors::warnings;
use crate::figures::RawFigures;
use crate::known::Known;
use crate::measured::RawMeasure;
use crate::model::{Cable, Device, Experiment, FEWEST_ROUNDS, Factor, Measure, SPREAD, Settings};
use crate::paper::{self, RawPaper};
use crate::reader::Reader;
use crate::reading::Varied;
use crate::tested::RawDevice;
use crate::values::{part, time, word};
use crate::varied::{KeyPlaces, MayVary, TRAFFIC, factors_of};
use lang::{Diagnostic, Diagnostics, Source};
use launch::settings::{self, at, is_name};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Spanned, Value};

/// Where the keys are described.
const HELP: &str = "conf/experiment.toml is an example, doc/experiments.md has all keys";
/// The most rounds, and values of a factor.
const MOST_ROUNDS: i64 = 10_000;
/// What `valiant gen` sends without `size`.
const SIZE: &str = "60";
/// The most threads of the generator.
const MOST_THREADS: usize = 64;

type RawTraffic = BTreeMap<Spanned<String>, Spanned<Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    experiment: RawExperiment,
    #[serde(default)]
    device: RawDevice,
    traffic: Option<Spanned<RawTraffic>>,
    #[serde(default)]
    figures: RawFigures,
    calibrate: Option<Spanned<RawCalibrate>>,
    #[serde(default)]
    generator: RawGenerator,
    measure: Option<Spanned<RawMeasure>>,
    #[serde(default)]
    vary: BTreeMap<Spanned<String>, Spanned<Value>>,
    #[serde(default)]
    point: Vec<BTreeMap<Spanned<String>, Spanned<Value>>>,
    paper: Option<RawPaper>,
    #[serde(default)]
    expect: Vec<Spanned<RawExpect>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawExperiment {
    name: Option<Spanned<String>>,
    rounds: Option<Spanned<i64>>,
    spread: Option<Spanned<Value>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawGenerator {
    cpus: Option<Spanned<Value>>,
    threads: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCalibrate {
    to: Spanned<Value>,
    sink: Spanned<Value>,
}

impl RawFile {
    /// Where the keys of traffic are.
    fn places(&self) -> KeyPlaces {
        let held = self.traffic.iter().flat_map(|table| table.get_ref().keys());
        let keys = held.chain(self.vary.keys()).chain(self.point.iter().flat_map(BTreeMap::keys));
        let mut places = KeyPlaces::new();
        for key in keys {
            places.entry(key.get_ref().clone()).or_insert_with(|| at(key));
        }
        places
    }
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
        let places = raw.as_ref().map(RawFile::places).unwrap_or_default();
        let experiment = raw.map(|raw| reader.experiment(&raw, source, path));
        if let Some(experiment) = experiment.as_ref().filter(|_| !reader.diags.has_errors()) {
            reader.points_can_be_sent(experiment, &places);
        }
        let mut diags = reader.diags;
        settings::finish(&mut diags, source);
        match experiment {
            Some(experiment) if !diags.has_errors() => {
                let warnings = warnings(&experiment);
                Ok(Self { dir, warnings, ..experiment })
            }
            _ => Err(diags),
        }
    }
}

impl Reader<'_> {
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
        let wide = "a part such as 0.1 or \"10%\", less than 1";
        let spread = self.value("spread", raw.experiment.spread.as_ref(), part, wide);
        if let Some(place) = raw.experiment.spread.as_ref().filter(|_| rounds < FEWEST_ROUNDS) {
            let help = format!("rounds = {FEWEST_ROUNDS}");
            self.wrong(place, format!("with fewer than {FEWEST_ROUNDS} rounds there is no spread"), &help);
        }
        let mut held = Settings::new();
        let device = self.device(&raw.device, &mut held);
        let host = self.host(&raw.device, &device);
        let ready = self.value(
            "ready",
            raw.device.ready.as_ref(),
            time,
            "a time of 10 ms and more, such as 2 or \"500ms\"",
        );
        // A program says when it is ready; of a command it is not known.
        let usual = if matches!(device, Device::Command(_)) { 1.0 } else { 10.0 };
        let others = [
            raw.traffic.as_ref().map(|table| ("[traffic]", at(table))),
            raw.measure.as_ref().map(|table| ("[measure]", at(table))),
            raw.calibrate.as_ref().map(|table| ("[calibrate]", at(table))),
            raw.device.host.as_ref().map(|key| ("host", at(key))),
            raw.device.ready.as_ref().map(|key| ("ready", at(key))),
        ];
        let figures = self.figures(&raw.figures, &device, &others);
        let Ends { to, sink, counted, outputs, reverse_outputs } = if figures.is_empty() {
            self.traffic(raw.traffic.as_ref(), &device, &mut held)
        } else {
            Ends::default()
        };
        let calibrate = raw.calibrate.as_ref().filter(|_| figures.is_empty());
        let calibrate = calibrate.map(|raw| self.calibrate(raw.get_ref(), &to, &sink, &counted));
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
        let generator = [
            raw.generator.cpus.as_ref().map(|cpus| ("cpus", at(cpus))),
            raw.generator.threads.as_ref().map(|threads| ("threads", at(threads))),
        ];
        let generated = counted.is_empty() && figures.is_empty();
        if !generated {
            for (key, place) in generator.into_iter().flatten() {
                let help =
                    "the device makes its traffic itself (`count` in [traffic]), or its [figures] are read";
                self.diags.error_with_help(
                    place,
                    format!("{key} is for a generator, and there is none"),
                    help,
                );
            }
        }
        let may = MayVary { device: &device, held: &held, generated };
        let mut factors = self.factors(&raw.vary, &may);
        let listed = self.listed(&raw.point, &may);
        if let (Some(points), Some(varied)) = (&listed, raw.vary.keys().next()) {
            let help = "[vary] tries each value with each of the others, [[point]] the points that it lists";
            self.wrong(varied, format!("there are {} points and [vary]", points.len()), help);
        }
        if let Some(points) = &listed {
            factors = factors_of(points);
        }
        if let (Some(host), Device::Program(path)) = (&host, &device) {
            let varied = factors.iter().find(|factor| factor.name == "program");
            let varied = varied.map(|factor| factor.values.iter().map(|name| self.dir.join(name)).collect());
            self.have_own_names(&raw.device, host, &varied.unwrap_or_else(|| vec![path.clone()]));
        }
        let varied = |name: &str| factors.iter().any(|factor| factor.name == name);
        let none = RawMeasure::default();
        let raw_measure = raw.measure.as_ref().map_or(&none, Spanned::get_ref);
        let measure = if !figures.is_empty() {
            Measure::Figures
        } else if counted.is_empty() {
            self.measure(raw_measure, &device, held.get("rate").map(String::as_str), varied("rate"))
        } else {
            self.count(raw_measure)
        };
        let skewed = held.contains_key("skew") || varied("skew");
        let set_up = if generated { self.set_up(raw_measure, &device) } else { None };
        if let (Some(place), Some(_)) = (&raw_measure.set_up, &set_up) {
            self.connections_can_be_set_up(place, (&to, &sink), false, skewed);
        }
        if let Some(word) = raw_measure.connections() {
            self.connections_can_be_set_up(word, (&to, &sink), raw.calibrate.is_some(), skewed);
        }
        if !matches!(measure, Measure::Rate { .. }) {
            held.remove("rate");
        }
        let of = |factor: &Factor| Varied { name: factor.name.clone(), values: factor.values.clone() };
        let known: Vec<Varied> = factors.iter().map(of).collect();
        let losses: Vec<f64> = match &measure {
            Measure::Search { goals, .. } => goals.iter().map(|goal| goal.loss).collect(),
            _ => Vec::new(),
        };
        let names: Vec<String> = figures.iter().map(|figure| figure.name.clone()).collect();
        let known = Known { factors: &known, losses: &losses, figures: &names };
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
            spread: spread.unwrap_or(SPREAD),
            device,
            host,
            ready: Duration::from_secs_f64(ready.unwrap_or(usual)),
            held,
            to,
            sink,
            outputs,
            reverse_outputs,
            calibrate,
            counted,
            figures,
            generator_cpus,
            generator_threads,
            factors,
            listed,
            warnings: Vec::new(),
            wait: Duration::from_secs_f64(self.wait(raw_measure, &measure)),
            measure,
            set_up,
            paper,
            expect,
        }
    }

    fn traffic(&mut self, table: Option<&Spanned<RawTraffic>>, device: &Device, held: &mut Settings) -> Ends {
        let none = RawTraffic::new();
        let raw = table.map_or(&none, Spanned::get_ref);
        let of = |key: &str| raw.iter().find(|(name, _)| name.get_ref() == key);
        let count = of("count");
        let (mut to, mut sink, mut behind) = (None, None, [Vec::new(), Vec::new()]);
        for (key, value) in raw {
            match key.get_ref().as_str() {
                "count" => {}
                // Of its frames' size is only known what the file says.
                name if count.is_some() && name != "size" => {
                    let help = "with `count` the device makes its traffic itself, and there is no generator";
                    self.wrong(key, format!("there is {name} beside count"), help);
                }
                "to" => to = Some(self.words("to", value)),
                "sink" => sink = Some(self.words("sink", value)),
                "outputs" => behind[0] = self.words("outputs", value),
                "reverse-outputs" => behind[1] = self.words("reverse-outputs", value),
                name if TRAFFIC.contains(&name) => {
                    let one = self.value(name, Some(value), word, "a word or a number");
                    self.can_be_sent(name, one.as_slice(), value);
                    held.extend(one.map(|one| (name.to_owned(), one)));
                }
                name => {
                    let help = format!(
                        "traffic has to, sink, outputs, reverse-outputs, count, {}",
                        TRAFFIC.join(", ")
                    );
                    self.wrong(key, format!("traffic has no '{name}'"), &help);
                }
            }
        }
        if let Some((key, value)) = count {
            if !matches!(device, Device::Program(_)) {
                let help =
                    "with `program`, the device is a program of Valiant's, whose elements count packets";
                self.wrong(key, "count is for a device with a program".to_owned(), help);
            }
            return Ends { counted: self.words("count", value), ..Ends::default() };
        }
        let mut need = |key: &str, found: Option<Vec<String>>, what: &str| {
            if found.is_none() {
                let message = format!("[traffic] has no {key}");
                let help = format!(
                    "{key} = \"PORT\": {what}; or count = \"ELEMENT\" if the device makes its traffic itself"
                );
                self.diags.push(Diagnostic::error(table.map(at), message).with_help(help));
            }
            found.unwrap_or_default()
        };
        let to = need("to", to, "the port that the traffic is sent to");
        let sink = need("sink", sink, "the port where it returns from the device under test");
        let [outputs, reverse_outputs] = behind;
        self.outputs_fit(raw, ("outputs", &outputs), ("sink", &sink));
        self.outputs_fit(raw, ("reverse-outputs", &reverse_outputs), ("to", &to));
        Ends { to, sink, outputs, reverse_outputs, counted: Vec::new() }
    }

    /// The ports that are joined to each other.
    fn calibrate(&mut self, raw: &RawCalibrate, to: &[String], sink: &[String], counted: &[String]) -> Cable {
        let cable = Cable { to: self.words("to", &raw.to), sink: self.words("sink", &raw.sink) };
        let (what, help) = if !counted.is_empty() {
            (
                "there is no generator to calibrate",
                "the device makes its traffic itself (`count` in [traffic])",
            )
        } else if (cable.to.len(), cable.sink.len()) != (to.len(), sink.len()) {
            (
                "as many ports as in [traffic] are calibrated",
                "what is joined to each other in place of the device",
            )
        } else if to.iter().chain(sink).any(|port| cable.to.contains(port) || cable.sink.contains(port)) {
            (
                "a port to the device cannot be calibrated",
                "[calibrate] has other ports of the same kind, which are joined to each other",
            )
        } else {
            return cable;
        };
        self.wrong(&raw.to, what.to_owned(), help);
        cable
    }
}

/// Where traffic begins and ends: at ports, or in the device.
#[derive(Default)]
struct Ends {
    to: Vec<String>,
    sink: Vec<String>,
    outputs: Vec<String>,
    reverse_outputs: Vec<String>,
    counted: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{LEAST, MOST};
    use crate::model::{Bursts, Point};
    use measure::search::{Goal, Method};

    fn read(text: &str) -> Result<Experiment, Vec<String>> {
        let read = Experiment::read(&Source::new("e.toml", text), Path::new("e.toml"), PathBuf::from("/"));
        read.map_err(|diags| diags.iter().map(|d| d.message.clone()).collect())
    }

    #[test]
    fn a_short_file_is_a_search_between_two_ports() {
        let e = read("[traffic]\nto = \"a\"\nsink = \"b\"\n").unwrap();
        assert_eq!((e.name.as_str(), e.rounds, &e.device), ("e", 1, &Device::Between));
        assert_eq!((e.to.as_slice(), e.sink.as_slice()), (&["a".to_owned()][..], &["b".to_owned()][..]));
        let Measure::Search { method, goals, least, most, latency, bursts } = &e.measure else {
            panic!("{e:?}")
        };
        assert_eq!(
            (*method, goals.len(), goals[0].loss, *least, *most),
            (Method::MlrSearch, 1, 0.0, LEAST, MOST)
        );
        assert!(latency.is_empty() && bursts.is_none());
        assert_eq!(e.wait, Duration::from_millis(300));
        assert_eq!(e.points(), [Point::default()]);
    }

    #[test]
    fn a_device_may_make_its_traffic_itself() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.click"), "").unwrap();
        let read = |text: &str| {
            let text = format!("{text}\n[device]\nprogram = \"a.click\"\n");
            let source = Source::new("e.toml", &text);
            let read = Experiment::read(&source, Path::new("e.toml"), dir.path().into());
            read.map_err(|diags| diags.iter().map(|d| d.message.clone()).collect::<Vec<_>>())
        };
        let counted = "[traffic]\ncount = [\"out\", \"out1\"]\nsize = 60\n";
        let e = read(&format!("{counted}[vary]\nthreads = [1, 2]\n[measure]\nlast = 0.5")).unwrap();
        assert_eq!(
            (e.counted.as_slice(), &e.to, &e.sink),
            (&["out".to_owned(), "out1".to_owned()][..], &vec![], &vec![])
        );
        assert_eq!(e.measure_at(&e.points()[1]), Measure::Count { seconds: 0.5 });
        let rest = "to = \"a\"\nflows = 3\n[generator]\nthreads = 2\n[vary]\nrate = [1, 2]\nttl = [3]\n[measure]\nloss = 0\nwait = 1\nsearch = \"rfc2544\"";
        let errors = read(&format!("{counted}{rest}")).unwrap_err();
        for part in [
            "there is to beside count",
            "there is flows beside count",
            "threads is for a generator",
            "'rate' cannot be varied",
            "'ttl' cannot be varied",
            "loss is for traffic of the generator",
            "wait is for traffic of the generator",
            "search is for traffic of the generator",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
        let none = super::tests::read("[traffic]\ncount = \"out\"\n").unwrap_err();
        assert!(none[0].contains("count is for a device with a program"), "{none:?}");
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
                latency: vec![0.5, 1.0],
                bursts: None
            }
        );
        assert_eq!(e.wait, Duration::from_secs(2));
        let e = read(
            "[traffic]\nto = \"a\"\nsink = \"b\"\n[measure]\nsearch = \"back-to-back\"\ntests = 50\nlongest = \"500ms\"\n\
             width = \"1%\"\nwait = 3\n",
        )
        .unwrap();
        let Measure::Search { method: Method::MlrSearch, bursts, .. } = e.measure else {
            panic!("{:?}", e.measure)
        };
        assert_eq!(bursts, Some(Bursts { tests: 50, longest: 0.5, width: 0.01 }));
        assert_eq!(e.wait, Duration::from_secs(3));
        let errors = read(
            "[traffic]\nto = \"a\"\nsink = \"b\"\n[measure]\nsearch = \"back-to-back\"\ntests = 0\nlongest = 31\nloss = 0\n",
        );
        assert_eq!(errors.unwrap_err().len(), 3);
        for rate in ["", "rate = 5\n"] {
            let text = format!("[traffic]\nto = \"a\"\nsink = \"b\"\n{rate}[measure]\ntests = 3\n");
            assert_eq!(read(&text).unwrap_err(), ["tests is for bursts"]);
        }
    }

    #[test]
    fn what_the_generator_would_refuse_is_found_at_once() {
        let errors = read(
            "[traffic]\nto = \"a\"\nsink = \"b\"\nsrc = \"10.0.0.300\"\n[vary]\nsize = [10, 60, 99999]\n",
        )
        .unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:#?}");
        assert!(errors.iter().any(|error| error.starts_with("src: '10.0.0.300'")), "{errors:#?}");
        let source = Source::new("e.toml", "[traffic]\nto = \"a\"\nsink = \"b\"\nrate = \"1e30\"\n");
        let errors = Experiment::read(&source, Path::new("e.toml"), PathBuf::from("/")).unwrap_err();
        let places: Vec<_> =
            errors.iter().map(|error| (error.message.as_str(), error.span.is_some())).collect();
        assert_eq!(places, [("'1e30' is no rate in packets", true)]);
        // Each is right by itself; two reasons, of eight points.
        let errors = read(
            "[traffic]\nto = \"a\"\nsink = \"b\"\nsport = 7\n[vary]\nipv6 = [false, true]\nsize = [60, 80]\nflows = [1, 2]\n",
        )
        .unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:#?}");
        assert!(
            errors.iter().any(|error| error.contains("ipv6 true, size 60") && error.contains("too short")),
            "{errors:#?}"
        );
        assert!(errors.iter().any(|error| error.contains("flows 2: flows: only 1 different")), "{errors:#?}");
    }

    #[test]
    fn points_may_be_listed() {
        let head = "[traffic]\nto = \"a\"\nsink = \"b\"\n";
        let e = read(&format!("{head}[[point]]\nsize = 60\nflows = 1\n[[point]]\nflows = 10\nsize = 508\n"))
            .unwrap();
        let points: Vec<String> = e.points().iter().map(ToString::to_string).collect();
        assert_eq!(points, ["size 60, flows 1", "size 508, flows 10"]);
        assert_eq!(e.factors[1].values, ["1", "10"]);
        assert!(e.warnings[0].starts_with("size and flows change together"), "{:?}", e.warnings);
        let e = read(&format!("{head}[[point]]\nrate = 60\n[[point]]\nrate = 70\n")).unwrap();
        assert!(e.warnings.is_empty(), "{:?}", e.warnings);
        assert!(matches!(e.measure_at(&e.points()[1]), Measure::Rate { rate: 70, .. }));
        let e = read(&format!("{head}[vary]\nsize = [60, 508]\nflows = [1, 10]\n")).unwrap();
        assert!(e.warnings.is_empty(), "{:?}", e.warnings);
        // What is varied must reach the device.
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("d.click"), "FromDevice($A) -> Queue($BC) -> ToDevice(b);\n").unwrap();
        std::fs::write(
            dir.path().join("e.toml"),
            format!("{head}[device]\nprogram = \"d.click\"\ncpus = \"1,2\"\n[vary]\n\"$A\" = [1, 2]\n\"$B\" = [1, 2]\nthreads = [1, 3]\n"),
        )
        .unwrap();
        let e = Experiment::load(&dir.path().join("e.toml")).unwrap();
        assert_eq!(e.warnings.len(), 2, "{:?}", e.warnings);
        assert!(
            e.warnings[0].starts_with("3 threads") && e.warnings[1].contains("no $B"),
            "{:?}",
            e.warnings
        );
        let errors = read(&format!(
            "{head}[vary]\nttl = 5\n[[point]]\nsize = 60\n[[point]]\nflows = 1\n[[point]]\nsize = 60\n[[point]]\nsize = [60, 61]\n[[point]]\n"
        ))
        .unwrap_err();
        for part in [
            "4 points and [vary]",
            "set the same",
            "size 60 is there twice",
            "one value of size, not 2",
            "sets nothing",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
    }

    #[test]
    fn a_range_with_a_step_stands_for_its_values() {
        let head = "[traffic]\nto = \"a\"\nsink = \"b\"\n[vary]\n";
        let e =
            read(&format!("{head}size = [\"60-300/64\", 1514, \"60-1514\"]\nflows = \"1-3/1\"\n")).unwrap();
        assert_eq!(e.factors[0].values, ["60", "124", "188", "252", "1514", "60-1514"]);
        assert_eq!((e.factors[1].values.len(), e.points().len()), (3, 18));
        for bad in ["60-300/0", "300-60/8", "60-1514/64,1", "1-2000000/1"] {
            assert!(read(&format!("{head}size = \"{bad}\"\n")).is_err(), "{bad}");
        }
        let e = read(&format!("{head}dst = [\"10.0.0.0-10.0.0.9/32\"]\n"));
        assert!(e.unwrap_err()[0].starts_with("dst: "), "only numbers have steps");
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
