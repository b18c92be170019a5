//! What an experiment file says of what is measured.

use crate::model::{Bursts, Device, Measure, packets};
use crate::reader::Reader;
use crate::values::{part, part_of_rate, time, word};
use lang::Span;
use launch::settings::at;
use measure::search::{Goal, Method};
use serde::Deserialize;
use toml::{Spanned, Value};

/// The most trials that one rate may need.
const MOST_TRIALS_OF_RATE: f64 = 200.0;
/// The search for the longest burst without loss.
const BACK_TO_BACK: &str = "back-to-back";
/// Connections through a stateful device.
const CONNECTIONS: &str = "connections";
/// How often it is made, and at most. RFC 2544 (section 26.4) asks for 50.
const TESTS: usize = 10;
const MOST_TESTS: usize = 1000;
/// The time of the longest burst, in seconds, and how long it can be at most (RFC 9004, section 6.2).
const BURST_SECONDS: f64 = 2.0;
const MOST_BURST_SECONDS: f64 = 30.0;
/// Nothing comes any more when nothing has come for so long, in seconds; the second is that of RFC 2544,
/// section 23.
const WAIT: f64 = 0.3;
const WAIT_RFC2544: f64 = 2.0;
/// The highest rate of a search, unless the file says otherwise: 10 Gb/s of the shortest frames.
pub(crate) const MOST: u64 = 14_880_952;
pub(crate) const LEAST: u64 = 1000;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMeasure {
    search: Option<Spanned<String>>,
    loss: Option<Spanned<Value>>,
    exceed: Option<Spanned<Value>>,
    pub(crate) width: Option<Spanned<Value>>,
    first: Option<Spanned<Value>>,
    last: Option<Spanned<Value>>,
    sum: Option<Spanned<Value>>,
    pub(crate) least: Option<Spanned<Value>>,
    pub(crate) most: Option<Spanned<Value>>,
    latency: Option<Spanned<Value>>,
    wait: Option<Spanned<Value>>,
    tests: Option<Spanned<i64>>,
    longest: Option<Spanned<Value>>,
    pub(crate) empty: Option<Spanned<String>>,
    pub(crate) expire: Option<Spanned<Value>>,
    pub(crate) answer: Option<Spanned<Value>>,
    pub(crate) capacity: Option<Spanned<Value>>,
    #[serde(rename = "capacity-rate")]
    pub(crate) capacity_rate: Option<Spanned<Value>>,
    #[serde(rename = "set-up")]
    pub(crate) set_up: Option<Spanned<Value>>,
    #[serde(rename = "tear-downs")]
    pub(crate) tear_downs: Option<Spanned<Value>>,
}

impl RawMeasure {
    /// Where connections are asked for.
    pub(crate) fn connections(&self) -> Option<&Spanned<String>> {
        self.search.as_ref().filter(|word| word.get_ref() == CONNECTIONS)
    }

    /// What is for connections only.
    fn of_connections(&self) -> [Option<(&'static str, Span)>; 6] {
        [
            self.empty.as_ref().map(|key| ("empty", at(key))),
            self.expire.as_ref().map(|key| ("expire", at(key))),
            self.answer.as_ref().map(|key| ("answer", at(key))),
            self.capacity.as_ref().map(|key| ("capacity", at(key))),
            self.capacity_rate.as_ref().map(|key| ("capacity-rate", at(key))),
            self.tear_downs.as_ref().map(|key| ("tear-downs", at(key))),
        ]
    }
}

/// What is for a search only.
fn of_searches(raw: &RawMeasure) -> [(&'static str, &Option<Spanned<Value>>); 8] {
    [
        ("loss", &raw.loss),
        ("exceed", &raw.exceed),
        ("width", &raw.width),
        ("first", &raw.first),
        ("sum", &raw.sum),
        ("least", &raw.least),
        ("most", &raw.most),
        ("latency", &raw.latency),
    ]
}

impl Reader<'_> {
    /// How long nothing must come after a trial until nothing is expected any more, in seconds.
    pub(crate) fn wait(&mut self, raw: &RawMeasure, measure: &Measure) -> f64 {
        let given =
            self.value("wait", raw.wait.as_ref(), time, "a time of 10 ms and more, such as 2 or \"500ms\"");
        let usual = match measure {
            Measure::Search { method: Method::Binary, .. } | Measure::Search { bursts: Some(_), .. } => {
                WAIT_RFC2544
            }
            _ => WAIT,
        };
        given.unwrap_or(usual)
    }

    /// What is measured of a device that makes its traffic itself.
    pub(crate) fn count(&mut self, raw: &RawMeasure) -> Measure {
        let help = "the device makes its traffic itself (`count` in [traffic]): only `last` is used";
        let others = of_searches(raw).into_iter().chain([("wait", &raw.wait), ("set-up", &raw.set_up)]);
        for (key, value) in others.filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            self.wrong(value, format!("{key} is for traffic of the generator"), help);
        }
        if let Some(search) = &raw.search {
            self.wrong(search, "search is for traffic of the generator".to_owned(), help);
        }
        self.bursts(raw, 0.0);
        self.no_connections(raw);
        let like = "a time of 10 ms and more, such as 2 or \"500ms\"";
        Measure::Count { seconds: self.value("last", raw.last.as_ref(), time, like).unwrap_or(1.0) }
    }

    pub(crate) fn measure(
        &mut self,
        raw: &RawMeasure,
        device: &Device,
        rate: Option<&str>,
        varied: bool,
    ) -> Measure {
        if let Some(word) = raw.connections() {
            self.only_connections(raw);
            if rate.is_some() || varied {
                let help = "the highest rate at which connections are set up is searched for";
                self.wrong(word, "there is a search and a rate".to_owned(), help);
            }
            return self.connected(raw, device);
        }
        self.no_connections(raw);
        let seconds = "a time of 10 ms and more, such as 2 or \"500ms\"";
        let first = self.value("first", raw.first.as_ref(), time, seconds);
        let last = self.value("last", raw.last.as_ref(), time, seconds);
        let sum = self.value("sum", raw.sum.as_ref(), time, seconds);
        let method = match raw.search.as_ref().map(|word| (word, word.get_ref().as_str())) {
            None if rate.is_some() || varied => {
                let packets = rate.and_then(packets);
                for (key, value) in of_searches(raw) {
                    if let Some(value) = value {
                        let help = "a rate is given, so none is searched for";
                        self.wrong(value, format!("{key} is for a search"), help);
                    }
                }
                self.bursts(raw, 0.0);
                return Measure::Rate { rate: packets.unwrap_or(1), seconds: last.unwrap_or(1.0) };
            }
            None | Some((_, "mlrsearch" | BACK_TO_BACK)) => Method::MlrSearch,
            Some((_, "rfc2544")) => Method::Binary,
            Some((word, other)) => {
                self.wrong(
                    word,
                    format!("'{other}' is no search"),
                    "use \"mlrsearch\", \"rfc2544\", \"back-to-back\" or \"connections\"",
                );
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
        let bursts = self.bursts(raw, goal.width);
        Measure::Search { method, goals, least, most, latency: latency.unwrap_or_default(), bursts }
    }

    /// Keys that connections do not have.
    fn only_connections(&mut self, raw: &RawMeasure) {
        let others = [("last", &raw.last), ("longest", &raw.longest), ("set-up", &raw.set_up)];
        let others = of_searches(raw).into_iter().chain(others);
        let others = others.filter(|(key, _)| !matches!(*key, "width" | "least" | "most"));
        let help =
            "a trial holds if all connections are set up and answer (RFC 9693), however long that takes";
        for (key, value) in others.filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            self.wrong(value, format!("{key} is not for connections"), help);
        }
        if let Some(tests) = &raw.tests {
            self.wrong(
                tests,
                "tests is for bursts".to_owned(),
                "`tear-downs` says how often they are removed",
            );
        }
    }

    /// Whether bursts are searched for.
    pub(crate) fn sends_bursts(raw: &RawMeasure) -> bool {
        raw.search.as_ref().is_some_and(|word| word.get_ref() == BACK_TO_BACK)
    }

    /// Keys that only connections have.
    fn no_connections(&mut self, raw: &RawMeasure) {
        let set_up = raw.set_up.is_some();
        for (key, place) in raw.of_connections().into_iter().flatten() {
            if set_up && matches!(key, "empty" | "expire" | "answer") {
                continue;
            }
            let help = "only search = \"connections\" sets connections up, or `set-up` before each trial";
            let message = format!("{key} is for connections");
            self.diags.error_with_help(place, message, help);
        }
    }

    /// Bursts of back-to-back frames, if they are wanted.
    fn bursts(&mut self, raw: &RawMeasure, width: f64) -> Option<Bursts> {
        let wanted = Self::sends_bursts(raw);
        let help = "only search = \"back-to-back\" sends bursts";
        if let Some(tests) = raw.tests.as_ref().filter(|_| !wanted) {
            self.wrong(tests, "tests is for bursts".to_owned(), help);
        }
        if let Some(longest) = raw.longest.as_ref().filter(|_| !wanted) {
            self.wrong(longest, "longest is for bursts".to_owned(), help);
        }
        if !wanted {
            return None;
        }
        if let Some(loss) = &raw.loss {
            let help = "the longest burst is one of which nothing is lost";
            self.wrong(loss, "back-to-back frames have no allowed loss".to_owned(), help);
        }
        let tests = raw.tests.as_ref().map_or(TESTS, |tests| {
            let good = usize::try_from(*tests.get_ref()).ok().filter(|n| (1..=MOST_TESTS).contains(n));
            if good.is_none() {
                let help = format!("how often the longest burst is searched for: 1 to {MOST_TESTS}");
                self.wrong(tests, format!("tests = {} is out of range", tests.get_ref()), &help);
            }
            good.unwrap_or(TESTS)
        });
        let like = format!("the time of the longest burst, up to {MOST_BURST_SECONDS} s");
        let most = |value: &Value| time(value).filter(|seconds| *seconds <= MOST_BURST_SECONDS);
        let longest = self.value("longest", raw.longest.as_ref(), most, &like).unwrap_or(BURST_SECONDS);
        Some(Bursts { tests, longest, width })
    }
}
