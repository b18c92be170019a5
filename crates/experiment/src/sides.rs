//! Which side of the device sends at a point, and which part of it goes to which output of the device.

use crate::model::{Experiment, Settings};
use crate::reader::Reader;
use crate::traffic::{listed, wanted};
use measure::direction::{Direction, load};
use measure::flows::{FlowSpec, Set, addresses, default_addresses, shared};
use measure::matrix::{Matrix, Wanted};
use measure::tag::{MAX_OUTPUTS, MAX_STREAMS, Outputs};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Spanned, Value};

/// Frames from each port that sends (rows) to each one that receives (columns).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// The ports that sent.
    pub from: Vec<String>,
    /// The ports that received.
    pub to: Vec<String>,
    /// Frames made for each.
    pub sent: Vec<Vec<u64>>,
    /// Frames that arrived there, whichever they were for.
    pub arrived: Vec<Vec<u64>>,
    /// What arrived at another port than it was for.
    pub at_wrong_port: Vec<Wrong>,
}

/// Frames from a port for another one that came out somewhere else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wrong {
    /// The port that sent them.
    pub from: String,
    /// The port that they were for.
    pub to: String,
    /// The port at which they arrived.
    pub at: String,
    /// How many.
    pub frames: u64,
}

impl Experiment {
    /// The direction of traffic with these settings.
    pub(crate) fn direction_at(&self, settings: &Settings) -> Direction {
        settings.get("direction").and_then(|word| Direction::parse(word).ok()).unwrap_or_default()
    }

    /// The ports that send and those that receive with these settings.
    pub(crate) fn ends_at(&self, settings: &Settings) -> (Vec<String>, Vec<String>) {
        self.direction_at(settings).ends(&self.to, &self.sink)
    }

    /// The files that say where frames go, and from where: matrices and lists of addresses.
    pub(crate) fn files_of_traffic(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        for settings in self.points().iter().map(|point| self.settings(point)) {
            let of_point = ["src", "dst"].into_iter().filter_map(|name| settings.get(name));
            let lists = of_point.chain(&self.outputs).chain(&self.reverse_outputs);
            files.extend(lists.filter_map(|text| text.strip_prefix('@').map(str::to_owned)));
            if let Some(Ok(Wanted::File(path))) = settings.get("matrix").map(|text| Wanted::parse(text)) {
                files.insert(path);
            }
        }
        files
    }

    /// How much all ports send together, in parts of the rate of one.
    pub(crate) fn load_at(&self, settings: &Settings) -> f64 {
        let ports = self.ends_at(settings).0.len() as f64;
        self.matrix_at(settings, &self.dir).ok().flatten().map_or(ports, |matrix| load(&matrix))
    }

    /// The matrix with these settings; none: the addresses behind each output are not known.
    fn matrix_at(&self, settings: &Settings, dir: &Path) -> Result<Option<Matrix>, String> {
        if self.outputs.is_empty() {
            return Ok(None);
        }
        let wanted = wanted(settings.get("matrix").map_or("uniform", String::as_str), dir)?;
        let seed = settings.get("seed").and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let matrix = self.direction_at(settings).matrix(&wanted, self.to.len(), self.sink.len(), seed);
        matrix.map(Some).map_err(|bad| bad.0)
    }
}

impl Reader<'_> {
    /// Whether the addresses behind ports are addresses, one entry for each port.
    pub(crate) fn outputs_fit(
        &mut self,
        raw: &BTreeMap<Spanned<String>, Spanned<Value>>,
        behind: (&str, &[String]),
        of: (&str, &[String]),
    ) {
        let ((name, outputs), (side, ports)) = (behind, of);
        let Some((key, value)) = raw.iter().find(|(key, _)| key.get_ref() == name) else { return };
        if outputs.len() != ports.len() && !outputs.is_empty() {
            let message = format!("{name} has {}, and {side} {}", outputs.len(), ports.len());
            self.wrong(
                value,
                message,
                "the destination addresses behind each of these ports, in their order",
            );
        }
        for bad in outputs.iter().filter_map(|text| crate::traffic::fault("dst", text, self.dir)) {
            self.wrong(value, format!("{name}: {bad}"), "addresses as those of `dst`");
        }
        if name != "outputs" && !raw.keys().any(|key| key.get_ref() == "outputs") {
            self.wrong(
                key,
                format!("there are {name} and no outputs"),
                "both directions need their addresses",
            );
        }
    }
}

/// What is wrong with the direction and the matrix at a point, after the key that is to blame.
pub(crate) fn fault(experiment: &Experiment, settings: &Settings, dir: &Path) -> Option<String> {
    let (to, sink) = (&experiment.to, &experiment.sink);
    let direction = experiment.direction_at(settings);
    if direction == Direction::Both
        && let Some(port) = to.iter().find(|port| sink.contains(port))
    {
        return Some(format!("direction: {port} is in `to` and in `sink`, and sends and receives anyway"));
    }
    let (senders, receivers) = experiment.ends_at(settings);
    if senders.len() > usize::from(MAX_STREAMS) {
        return Some(format!("direction: {} ports would send, {MAX_STREAMS} can", senders.len()));
    }
    let (macs, all) =
        (settings.get("dst-mac").map_or(1, |list| list.split(',').count()), to.len() + sink.len());
    if macs != 1 && macs != all && (direction.turns() || macs != to.len()) {
        return Some(format!(
            "dst-mac: {macs} addresses, for {} ports in `to` and {} in `sink`: one for all, or one for each",
            to.len(),
            sink.len()
        ));
    }
    if experiment.outputs.is_empty() {
        let useless = settings.get("matrix")?;
        return Some(format!(
            "matrix: '{useless}' needs `outputs` in [traffic]: the destination addresses behind each sink"
        ));
    }
    if settings.contains_key("dst") {
        return Some("dst: `outputs` in [traffic] are the destinations already".to_owned());
    }
    if receivers.len() > MAX_OUTPUTS {
        return Some(format!("outputs: {} ports would receive, {MAX_OUTPUTS} can", receivers.len()));
    }
    if direction.turns() && experiment.reverse_outputs.is_empty() {
        return Some(
            "direction: frames to the ports in `to` need `reverse-outputs` in [traffic], the addresses behind each"
                .to_owned(),
        );
    }
    let matrix = match experiment.matrix_at(settings, dir) {
        Ok(matrix) => matrix?,
        Err(bad) => return Some(format!("matrix: {bad}")),
    };
    let outputs = direction.ends(&experiment.reverse_outputs, &experiment.outputs).1;
    flows_fault(&matrix, &outputs, settings, dir).err()
}

/// What is wrong with the flows to each output.
fn flows_fault(matrix: &Matrix, outputs: &[String], settings: &Settings, dir: &Path) -> Result<(), String> {
    let six = settings.get("ipv6").is_some_and(|six| six == "true");
    let set = |name: &str, text: &str| {
        let bad = |bad: measure::Bad| {
            let bad = bad.0.replace("with IPV6 true", "with ipv6 = true");
            format!("{name}: {}", bad.replace("without IPV6 true", "without ipv6 = true"))
        };
        let text = listed(text, dir).map_err(|bad| format!("{name}: {bad}"))?;
        addresses(&text, six).map_err(bad)
    };
    let sets = outputs.iter().map(|text| set("outputs", text)).collect::<Result<Vec<Set>, _>>()?;
    if let Some((a, b, _)) = shared(&sets) {
        let of = |at: usize| outputs.get(at).map_or("", String::as_str);
        return Err(format!("outputs: '{}' and '{}' have an address in common", of(a), of(b)));
    }
    let Some(flows) = settings.get("flows").and_then(|flows| flows.parse::<u32>().ok()) else {
        return Ok(());
    };
    let ports = |name: &str| settings.get(name).and_then(|text| Set::ports(text).ok());
    let src = set("src", settings.get("src").map_or(default_addresses(six).0, String::as_str))?;
    for input in 0..matrix.inputs() {
        for (output, part) in matrix.row(input) {
            let flows = ((f64::from(flows) * part / matrix.from(input)).round() as u32).max(1);
            let spec = FlowSpec {
                src: src.clone(),
                dst: sets.get(usize::from(output)).cloned().unwrap_or_default(),
                sport: ports("sport"),
                dport: ports("dport"),
                random: false,
                unique: false,
                seed: 1,
                flows: Some(flows),
            };
            let most = Outputs::new(sets.len()).most();
            match spec.count() {
                Err(bad) => return Err(format!("flows: to output {}: {bad}", output + 1)),
                Ok(count) if count > most => {
                    return Err(format!("flows: {count} to one output, {most} can be distinguished"));
                }
                Ok(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Measure;

    const HEAD: &str = "[traffic]\nto = [\"a\", \"b\"]\nsink = [\"c\", \"d\"]\nrate = 1000\n";
    const OUTPUTS: &str = "outputs = [\"10.1.0.0/16\", \"10.2.0.0/16\"]\n";
    const BACK: &str = "reverse-outputs = [\"10.3.0.0/16\", \"10.4.0.0/16\"]\n";

    /// Reads a file; each error with the line of its place.
    fn read(rest: &str) -> Result<Experiment, Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let (path, text) = (dir.path().join("e.toml"), format!("{HEAD}{rest}"));
        std::fs::write(&path, &text).unwrap();
        std::fs::write(dir.path().join("m.csv"), "1 0\n0.5 0\n").unwrap();
        let line = |at: usize| text[..at].lines().count() + usize::from(text[..at].ends_with('\n'));
        let error = |d: &lang::Diagnostic| {
            let place = d.span.map_or("?".to_owned(), |span| line(span.start as usize).to_string());
            format!("{place}: {}", d.message)
        };
        let experiment =
            Experiment::load(&path).map_err(|diags| diags.iter().map(error).collect::<Vec<_>>())?;
        // The directory goes: what the points send is asked for here.
        let loads: Vec<f64> =
            experiment.points().iter().map(|point| experiment.load_at(&experiment.settings(point))).collect();
        assert!(loads.iter().all(|load| *load > 0.0));
        Ok(experiment)
    }

    #[test]
    fn each_point_has_its_matrix_and_its_direction() {
        let text = format!(
            "{OUTPUTS}{BACK}[vary]\nmatrix = [\"uniform\", \"0.9,0.1; 0 0.5\"]\ndirection = [\"forward\", \"reverse\", \"both\"]\n"
        );
        let e = read(&text).unwrap();
        let points = e.points();
        let loads: Vec<f64> = points.iter().map(|point| e.load_at(&e.settings(point))).collect();
        assert_eq!(loads, [2.0, 2.0, 4.0, 1.5, 1.5, 3.0]);
        let ends = |at: usize| e.ends_at(&e.settings(&points[at])).0.concat();
        assert_eq!((ends(0), ends(1), ends(2)), ("ab".to_owned(), "cd".to_owned(), "abcd".to_owned()));
        assert_eq!(points[4].to_string(), "matrix 0.9,0.1; 0 0.5, direction reverse");
        assert!(matches!(e.measure_at(&points[4]), Measure::Rate { rate: 1000, .. }));
        assert!(read(&format!("{OUTPUTS}matrix = \"m.csv\"\nflows = 7\n")).is_ok());
        let e = read("direction = \"both\"\n").unwrap();
        assert_eq!(e.load_at(&e.held), 4.0);
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_its_place() {
        let outputs = |rest: &str| format!("{OUTPUTS}{rest}");
        for (text, error) in [
            ("matrix = \"uniform\"\n".to_owned(), "5: matrix: 'uniform' needs `outputs`"),
            ("outputs = \"10.1.0.0/16\"\n".to_owned(), "5: outputs has 1, and sink 2"),
            ("outputs = [\"10.1.0.0/16\", \"x\"]\n".to_owned(), "5: outputs: 'x' is no"),
            (
                "outputs = [\"10.1.0.0/16\", \"10.1.0.1\"]\n".to_owned(),
                "5: outputs: '10.1.0.0/16' and '10.1.0.1' have",
            ),
            (
                "outputs = [\"10.1.0.1\", \"::1\"]\n".to_owned(),
                "5: outputs: an IPv6 address without ipv6 = true",
            ),
            (BACK.to_owned(), "5: there are reverse-outputs and no outputs"),
            (outputs("dst = \"10.1.0.1\"\n"), "6: dst: `outputs` in [traffic] are"),
            (outputs("[vary]\ndst = \"10.1.0.1\"\n"), "7: dst 10.1.0.1: dst: `outputs`"),
            (
                "dst-mac = \"2:0:0:0:0:1,2:0:0:0:0:2\"\ndirection = \"both\"\n".to_owned(),
                "5: dst-mac: 2 addresses, for 2",
            ),
            (outputs("matrix = \"hot-spot\"\n"), "6: matrix: the matrix 'hot-spot' is for 3"),
            (outputs("matrix = \"1 0 0; 0 1 0\"\n"), "6: matrix: a matrix of 2 rows and 3 columns"),
            (outputs("matrix = \"1 1; 0 1\"\n"), "6: matrix: row 1 adds up to 2"),
            (outputs("matrix = \"none.csv\"\n"), "6: matrix: none.csv: No such file"),
            (outputs("direction = \"back\"\n"), "6: direction: 'back' is no direction"),
            (
                outputs("direction = \"both\"\n"),
                "6: direction: frames to the ports in `to` need `reverse-outputs`",
            ),
            (outputs("sport = 7\nflows = 140000\n"), "7: flows: to output 1: only 65536 different flows"),
            (
                outputs("flows = 600000\nsrc = \"10.0.0.0/8\"\nmatrix = \"1 0; 0 1\"\n"),
                "6: flows: 600000 to one output",
            ),
            (
                outputs("[vary]\nmatrix = [\"uniform\", \"1 0\"]\n"),
                "7: matrix 1 0: matrix: a matrix of 1 rows",
            ),
            (outputs("[[point]]\ndirection = \"reverse\"\n"), "7: direction reverse: direction: frames"),
        ] {
            let errors = read(&text).unwrap_err();
            assert!(errors.iter().any(|e| e.starts_with(error)), "{text}: {errors:#?}");
        }
        let one = "[traffic]\nto = \"a\"\nsink = \"a\"\ndirection = \"both\"\n";
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("e.toml"), one).unwrap();
        let errors = Experiment::load(&dir.path().join("e.toml")).unwrap_err();
        assert!(errors.iter().any(|e| e.message.starts_with("direction: a is in `to`") && e.span.is_some()));
    }
}
