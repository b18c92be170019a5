//! What an experiment file says of connections through a stateful device.

use crate::measured::{LEAST, MOST, RawMeasure};
use crate::model::{Connections, Device, Emptied, Measure, SetUp, packets};
use crate::reader::Reader;
use crate::values::{number, part, part_of_rate, time, word};
use launch::settings::at;
use measure::connections::{Goal, SAFE};
use measure::tag::MAX_FLOWS;
use toml::{Spanned, Value};

/// How often connections may be torn down.
const MOST_TEAR_DOWNS: f64 = 1000.0;
/// The rate of answers, as a part of the rate.
const ANSWER: f64 = 0.5;
/// How far apart the bounds of the rate may be.
const WIDTH: f64 = 0.005;

impl Reader<'_> {
    /// What is measured of a device that keeps state of connections.
    pub(crate) fn connected(&mut self, raw: &RawMeasure, device: &Device) -> Measure {
        let rate = |v: &Value| packets(&word(v)?).filter(|n| *n > 0);
        let like = "connections a second such as 50000 or \"50k\"";
        let least = self.value("least", raw.least.as_ref(), rate, like).unwrap_or(LEAST);
        let most = self.value("most", raw.most.as_ref(), rate, like).unwrap_or(MOST.max(least));
        if let Some(place) = raw.least.as_ref().or(raw.most.as_ref()).filter(|_| least > most) {
            self.wrong(place, format!("least = {least} is more than most = {most}"), like);
        }
        let percent = "a part such as 0.005 or \"0.5%\", less than 1";
        let width = self.value("width", raw.width.as_ref(), |v| part(v).filter(|w| *w > 0.0), percent);
        let of_rate = |value: &Value| part_of_rate(value).filter(|share| *share > 0.0);
        let like = "a part of the rate, such as 0.5, \"50%\" or 1";
        let answer = self.value("answer", raw.answer.as_ref(), of_rate, like).unwrap_or(ANSWER);
        let safe = self.value("capacity-rate", raw.capacity_rate.as_ref(), of_rate, like);
        let whole = |value: &Value, most: f64| {
            number(&word(value)?).filter(|n| n.fract() == 0.0 && (1.0..=most).contains(n)).map(|n| n as u64)
        };
        let like =
            format!("the most connections that are tried, 1 to {MAX_FLOWS}, such as 200000 or \"200k\"");
        let capacity =
            self.value("capacity", raw.capacity.as_ref(), |v| whole(v, f64::from(MAX_FLOWS)), &like);
        if let Some(place) = raw.capacity_rate.as_ref().filter(|_| raw.capacity.is_none()) {
            let help = "`capacity` is the largest number of connections that is tried";
            self.wrong(place, "there is no capacity to search for".to_owned(), help);
        }
        let like = format!("how often all connections are removed, 1 to {MOST_TEAR_DOWNS}");
        let tear_downs =
            self.value("tear-downs", raw.tear_downs.as_ref(), |v| whole(v, MOST_TEAR_DOWNS), &like);
        let emptied = self.emptied(raw, device);
        if let Some(place) = raw.tear_downs.as_ref().filter(|_| raw.empty.is_none()) {
            let help = "`empty` is the command that removes all connections; its time is measured";
            self.wrong(place, "there is no command that tears connections down".to_owned(), help);
        }
        let goal = Goal {
            connections: 1,
            least,
            most,
            width: width.unwrap_or(WIDTH),
            capacity: capacity.map(|most| (most, safe.unwrap_or(SAFE))),
            tear_downs: tear_downs.unwrap_or(0) as usize,
        };
        Measure::Connections(Connections { goal, answer, emptied })
    }

    /// The connections over which the frames of each trial are sent.
    pub(crate) fn set_up(&mut self, raw: &RawMeasure, device: &Device) -> Option<SetUp> {
        let place = raw.set_up.as_ref().filter(|_| raw.connections().is_none())?;
        let like = "connections a second such as 20000 or \"20k\"";
        let rate = |v: &Value| packets(&word(v)?).filter(|n| *n > 0);
        let rate = self.value("set-up", Some(place), rate, like)?;
        if Self::sends_bursts(raw) {
            let help = "\"mlrsearch\" or \"rfc2544\", or a rate";
            self.wrong(place, "bursts are not sent over connections".to_owned(), help);
        }
        let of_rate = |value: &Value| part_of_rate(value).filter(|share| *share > 0.0);
        let like = "a part of the rate, such as 0.5, \"50%\" or 1";
        let answer = self.value("answer", raw.answer.as_ref(), of_rate, like).unwrap_or(ANSWER);
        Some(SetUp { rate, answer, emptied: self.emptied(raw, device) })
    }

    fn emptied(&mut self, raw: &RawMeasure, device: &Device) -> Emptied {
        let like = "a time of 10 ms and more, such as 2 or \"500ms\"";
        let expire = self.value("expire", raw.expire.as_ref(), time, like);
        match (&raw.empty, &raw.expire) {
            (Some(empty), expire) => {
                if expire.is_some() {
                    let help =
                        "`empty` is a command, `expire` the time after which nothing is left by itself";
                    self.wrong(empty, "the table is emptied and expires".to_owned(), help);
                }
                if empty.get_ref().trim().is_empty() {
                    self.wrong(empty, "empty is no command".to_owned(), "such as \"conntrack -F\"");
                }
                Emptied::Command(empty.get_ref().clone())
            }
            (None, Some(_)) => Emptied::Expire(expire.unwrap_or(1.0)),
            (None, None) => {
                let place = raw.connections().map(at).or(raw.set_up.as_ref().map(at));
                if let (Device::Between, Some(place)) = (device, place) {
                    let help = "`empty = \"COMMAND\"` empties it before each trial; `expire = TIME` waits until \
                                all connections have expired; a device with a program or a command is started again";
                    let message = "nothing empties the device's table of connections".to_owned();
                    self.diags.error_with_help(place, message, help);
                }
                Emptied::Restart
            }
        }
    }

    /// Whether connections can be set up with this traffic.
    pub(crate) fn connections_can_be_set_up<T>(
        &mut self,
        word: &Spanned<T>,
        (to, sink): (&[String], &[String]),
        calibrated: bool,
        skewed: bool,
    ) {
        let many = to.len() > 1 || sink.len() > 1;
        let same = to.iter().any(|port| sink.contains(port));
        for (bad, message, help) in [
            (
                many,
                "connections are set up between two ports",
                "one `to`, the Initiator, and one `sink`, the Responder",
            ),
            (same, "Initiator and Responder have the same port", "`to` and `sink` are different ports"),
            (calibrated, "connections have no calibration", "no latency is measured: remove [calibrate]"),
            (skewed, "connections cannot be skewed", "each is set up once: remove `skew`"),
        ] {
            if bad {
                self.wrong(word, message.to_owned(), help);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Connections, Emptied, Experiment, Measure};

    fn read(text: &str) -> Result<Experiment, Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.toml");
        std::fs::write(&path, text).unwrap();
        Experiment::load(&path).map_err(|all| all.iter().map(|one| one.message.clone()).collect())
    }

    const PORTS: &str = "[traffic]\nto = \"a\"\nsink = \"b\"\n";

    #[test]
    fn connections_are_as_the_file_says() {
        let e = read(&format!(
            "{PORTS}[vary]\nflows = [5000, 20000]\n[measure]\nsearch = \"connections\"\nempty = \"conntrack -F\"\n\
             least = \"1k\"\nmost = \"200k\"\nwidth = \"2%\"\nanswer = 1\ncapacity = \"60k\"\ncapacity-rate = \"20%\"\ntear-downs = 3\n"
        ))
        .unwrap();
        let Measure::Connections(Connections { goal, answer, emptied }) = e.measure_at(&e.points()[1]) else {
            panic!("{e:?}")
        };
        assert_eq!((goal.connections, goal.least, goal.most, goal.tear_downs), (20_000, 1000, 200_000, 3));
        assert_eq!((goal.capacity, goal.width, answer), (Some((60_000, 0.2)), 0.02, 1.0));
        assert_eq!(emptied, Emptied::Command("conntrack -F".to_owned()));
        assert!((10.0..600.0).contains(&e.estimate()), "{}", e.estimate());
        let short = format!("[device]\ncommand = \"x\"\n{PORTS}[measure]\nsearch = \"connections\"\n");
        let e = read(&short).unwrap();
        let Measure::Connections(all) = e.measure_at(&e.points()[0]) else { panic!("{e:?}") };
        assert_eq!((all.goal.connections, all.emptied), (10_000, Emptied::Restart));
    }

    #[test]
    fn frames_may_be_sent_over_connections_that_are_set_up_before() {
        let e = read(&format!(
            "{PORTS}direction = \"both\"\nflows = 5000\n[measure]\nset-up = \"20k\"\nempty = \"conntrack -F\"\nlatency = \"50%\"\n"
        ))
        .unwrap();
        let set_up = e.set_up.as_ref().unwrap();
        assert_eq!((set_up.rate, set_up.answers()), (20_000, 10_000));
        assert_eq!(set_up.emptied, Emptied::Command("conntrack -F".to_owned()));
        assert!(matches!(e.measure, Measure::Search { .. }));
        let plain =
            read(&format!("{PORTS}direction = \"both\"\nflows = 5000\n[measure]\nlatency = \"50%\"\n"));
        assert!(e.estimate() > plain.unwrap().estimate());
        let e = read(&format!("{PORTS}rate = 5\n[measure]\nset-up = 100\nexpire = 2\nanswer = 1\n")).unwrap();
        assert_eq!(e.set_up.map(|all| (all.answers(), all.emptied)), Some((100, Emptied::Expire(2.0))));
        for (text, part) in [
            ("set-up = 100\n", "nothing empties"),
            ("set-up = 0\nexpire = 1\n", "set-up = 0 cannot be used"),
            ("set-up = 100\nexpire = 1\ncapacity = 5\n", "capacity is for connections"),
            ("set-up = 100\nexpire = 1\nsearch = \"back-to-back\"\n", "bursts are not sent over connections"),
            ("set-up = 100\nexpire = 1\nsearch = \"connections\"\n", "set-up is not for connections"),
        ] {
            let errors = read(&format!("{PORTS}[measure]\n{text}")).unwrap_err();
            assert!(errors.iter().any(|error| error.contains(part)), "{text}: {errors:?}");
        }
        let two =
            "[traffic]\nto = [\"a\", \"c\"]\nsink = \"b\"\nskew = 1\n[measure]\nset-up = 100\nexpire = 1\n";
        let errors = read(two).unwrap_err();
        assert!(errors.iter().any(|error| error.contains("between two ports")), "{errors:?}");
        assert!(errors.iter().any(|error| error.contains("cannot be skewed")), "{errors:?}");
        let outputs = format!("{PORTS}outputs = \"10.0.0.1\"\n[measure]\nset-up = 100\nexpire = 1\n");
        let errors = read(&outputs).unwrap_err();
        assert!(
            errors.iter().any(|error| error.contains("outputs: connections are set up to one port")),
            "{errors:?}"
        );
        let few = format!("{PORTS}sport = \"1-100\"\nflows = 101\n[measure]\nset-up = 100\nexpire = 1\n");
        assert!(read(&few).unwrap_err()[0].contains("only 100 different flows"));
    }

    #[test]
    fn what_connections_cannot_have_is_found_at_once() {
        let errors = read(
            "[traffic]\nto = [\"a\", \"b\"]\nsink = \"a\"\nskew = 1\nrate = 5\n[calibrate]\nto = [\"c\", \"d\"]\nsink = \"e\"\n\
             [measure]\nsearch = \"connections\"\nloss = 0\nlatency = 1\nlast = 1\ntests = 2\nanswer = 0\ncapacity = 2000000\ntear-downs = 1\n",
        )
        .unwrap_err();
        for part in [
            "there is a search and a rate",
            "loss is not for connections",
            "latency is not for connections",
            "last is not for connections",
            "tests is for bursts",
            "answer = 0 cannot be used",
            "capacity = 2000000 cannot be used",
            "nothing empties",
            "no command that tears",
            "between two ports",
            "the same port",
            "no calibration",
            "cannot be skewed",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
        let errors = read(&format!("{PORTS}[measure]\nempty = \"x\"\ncapacity = 5\n")).unwrap_err();
        assert_eq!(errors, ["empty is for connections", "capacity is for connections"]);
        let connections = "[measure]\nsearch = \"connections\"\nexpire = 1\n";
        let errors = read(&format!("{PORTS}flows = 2000\n{connections}capacity = 1000\n")).unwrap_err();
        assert!(errors[0].contains("capacity = 1000 is less than flows = 2000"), "{errors:?}");
        let errors = read(&format!("{PORTS}sport = \"1-100\"\nflows = 50\n{connections}capacity = 101\n"))
            .unwrap_err();
        assert!(errors[0].contains("only 100 different flows"), "{errors:?}");
        for (line, part) in [
            ("direction = \"both\"", "direction: connections are set up in one direction"),
            ("outputs = \"10.0.0.1\"", "outputs: connections are set up to one port"),
        ] {
            let errors = read(&format!("{PORTS}{line}\n{connections}")).unwrap_err();
            assert!(errors.iter().any(|error| error.contains(part)), "{line}: {errors:?}");
        }
    }
}
