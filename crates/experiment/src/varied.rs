//! What an experiment file says of the points: what is varied, or which ones there are.

use crate::model::{Connections, Device, Experiment, Factor, Measure, Point, Settings, packets};
use crate::reader::Reader;
use crate::sides;
use crate::traffic::{fault, fault_together};
use lang::Diagnostic;
use launch::settings;
use measure::direction::Direction;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Spanned, Value};

/// Points whose traffic cannot be sent are told for so many reasons.
const MOST_FAULTS: usize = 10;
/// What may be varied by a range with a step, and the most values of one.
const STEPPED: [&str; 6] = ["size", "flows", "rate", "ttl", "threads", "burst"];
const MOST_STEPS: usize = 10_000;
/// The most points of an experiment.
const MOST_POINTS: usize = 100_000;
/// What a trial's traffic is made of: the options of `valiant gen`.
pub(crate) const TRAFFIC: [&str; 16] = [
    "size",
    "flows",
    "src",
    "dst",
    "sport",
    "dport",
    "src-mac",
    "dst-mac",
    "ttl",
    "seed",
    "ipv6",
    "random",
    "skew",
    "rate",
    "matrix",
    "direction",
];
/// How a program is run: the options of `valiant run`.
pub(crate) const DEVICE: [&str; 6] = ["threads", "cpus", "burst", "memory", "placement", "when-idle"];

/// What a range with a step stands for: 60-1514/64 are 60, 124, and so on up to 1514 at most. Only numbers
/// have such ranges.
fn range(name: &str, value: &str) -> Option<std::iter::StepBy<std::ops::RangeInclusive<u64>>> {
    if !STEPPED.contains(&name) {
        return None;
    }
    let (ends, step) = value.split_once('/')?;
    let (first, last) = ends.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (first, last, step) = (number(first)?, number(last)?, usize::try_from(number(step)?).ok()?);
    (step > 0).then(|| (first..=last).step_by(step))
}

/// What differs between points.
pub(crate) fn factors_of(points: &[Point]) -> Vec<Factor> {
    let names = points.first().into_iter().flat_map(|point| point.0.iter().map(|(name, _)| name.clone()));
    let mut factors: Vec<Factor> = names.map(|name| Factor { name, values: Vec::new() }).collect();
    for (factor, (_, value)) in points.iter().flat_map(|point| (0..).zip(&point.0)) {
        if let Some(factor) = factors.get_mut(factor).filter(|factor| !factor.values.contains(value)) {
            factor.values.push(value.clone());
        }
    }
    factors
}

/// What decides what may be varied.
pub(crate) struct MayVary<'a> {
    pub(crate) device: &'a Device,
    pub(crate) held: &'a Settings,
    /// Whether there is a generator.
    pub(crate) generated: bool,
}

/// Where a file has the keys of its traffic, held or varied.
pub(crate) type KeyPlaces = BTreeMap<String, lang::Span>;

impl Reader<'_> {
    /// Whether the generator accepts each of these values.
    pub(crate) fn can_be_sent(&mut self, name: &str, values: &[String], place: &Spanned<Value>) {
        for fault in values.iter().filter_map(|value| fault(name, value, self.dir)) {
            let help = "values are those of the options of `valiant gen`";
            self.wrong(place, format!("{name}: {fault}"), help);
        }
        if name == "rate"
            && let Some(bad) = values.iter().find(|rate| packets(rate).is_none())
        {
            self.wrong(place, format!("'{bad}' is no rate in packets"), "rates such as 1M or \"14.88Mpps\"");
        }
    }

    /// Whether the generator accepts the values of each point together.
    pub(crate) fn points_can_be_sent(&mut self, experiment: &Experiment, places: &KeyPlaces) {
        let mut told = BTreeSet::new();
        for point in experiment.points() {
            let mut settings = experiment.settings(&point);
            let mut fault = None;
            if let Measure::Connections(Connections { goal, .. }) = experiment.measure_at(&point) {
                let most = goal.capacity.map_or(goal.connections, |(most, _)| most);
                if most < goal.connections {
                    fault = Some(format!("capacity = {most} is less than flows = {}", goal.connections));
                }
                settings.insert("flows".to_owned(), most.max(goal.connections).to_string());
                let useless = if experiment.direction_at(&settings) == Direction::Both {
                    Some("direction: connections are set up in one direction, forward or reverse")
                } else {
                    let outputs = "outputs: connections are set up to one port, with `dst`";
                    (!experiment.outputs.is_empty()).then_some(outputs)
                };
                fault = fault.or(useless.map(str::to_owned));
            }
            if experiment.set_up.is_some() {
                settings.insert("flows".to_owned(), experiment.connections_at(&point).to_string());
                let useless = "outputs: connections are set up to one port, with `dst`".to_owned();
                fault = (!experiment.outputs.is_empty()).then_some(useless);
            }
            let fault = fault
                .or_else(|| fault_together(&settings, !experiment.outputs.is_empty(), self.dir))
                .or_else(|| sides::fault(experiment, &settings, self.dir).filter(|_| experiment.is_sent()));
            if let Some(fault) = fault.filter(|fault| told.len() < MOST_FAULTS && told.insert(fault.clone()))
            {
                let message = format!("{}{fault}", point.prefix());
                let help = "`valiant gen` would refuse this";
                // It begins with the key that is to blame.
                let place = fault.split_once(':').and_then(|(key, _)| places.get(key).copied());
                self.diags.push(Diagnostic::error(place, message).with_help(help));
            }
        }
    }

    /// The points that the file lists.
    pub(crate) fn listed(
        &mut self,
        raw: &[BTreeMap<Spanned<String>, Spanned<Value>>],
        may: &MayVary<'_>,
    ) -> Option<Vec<Point>> {
        let mut points: Vec<Point> = Vec::new();
        for table in raw {
            let Some(place) = settings::in_order(table).into_iter().next().map(|(name, _)| name) else {
                let message = "a point sets nothing".to_owned();
                self.diags.push(
                    Diagnostic::error(None, message)
                        .with_help("[[point]] has keys as [vary] has, each with a value"),
                );
                continue;
            };
            let factors = self.factors(table, may);
            let mut settings: Vec<(String, String)> = factors
                .iter()
                .filter_map(|one| Some((one.name.clone(), one.values.first()?.clone())))
                .collect();
            if let Some(many) = factors.iter().find(|one| one.values.len() > 1) {
                let help = "a list of values is for [vary]";
                self.wrong(
                    place,
                    format!("a point has one value of {}, not {}", many.name, many.values.len()),
                    help,
                );
            }
            if let Some(first) = points.first() {
                let at = |name: &String| first.0.iter().position(|(other, _)| other == name);
                settings.sort_by_key(|(name, _)| at(name));
                let same = settings.iter().map(|(name, _)| name).eq(first.0.iter().map(|(name, _)| name));
                if !same {
                    let names: Vec<&str> = first.0.iter().map(|(name, _)| name.as_str()).collect();
                    let help = format!("as the first one: {}", names.join(", "));
                    self.wrong(place, "all points set the same".to_owned(), &help);
                }
            }
            let point = Point(settings);
            if points.contains(&point) {
                self.wrong(
                    place,
                    format!("the point {point} is there twice"),
                    "each point once; `rounds` repeats all",
                );
            }
            points.push(point);
        }
        (!raw.is_empty()).then_some(points)
    }

    /// The values of a factor; a range with a step stands for its values.
    fn steps(&mut self, name: &str, values: &Spanned<Value>) -> Vec<String> {
        let mut all = Vec::new();
        for value in self.words(name, values) {
            match range(name, &value) {
                None => all.push(value),
                Some(range) if (1..=MOST_STEPS).contains(&range.clone().count()) => {
                    all.extend(range.map(|n| n.to_string()));
                }
                Some(_) => {
                    let help = "FIRST-LAST/STEP: FIRST is not more than LAST";
                    self.wrong(
                        values,
                        format!("{name}: '{value}' has no value, or more than {MOST_STEPS}"),
                        help,
                    );
                }
            }
        }
        all
    }

    /// What is varied.
    pub(crate) fn factors(
        &mut self,
        raw: &BTreeMap<Spanned<String>, Spanned<Value>>,
        &MayVary { device, held, generated }: &MayVary<'_>,
    ) -> Vec<Factor> {
        // What a generator sends.
        let traffic: &[&str] = if generated { &TRAFFIC } else { &[] };
        let mut factors: Vec<Factor> = Vec::new();
        for (name, values) in settings::in_order(raw) {
            let text = name.get_ref().as_str();
            let known = match text.strip_prefix('$') {
                Some(variable) => !variable.is_empty() && *device != Device::Between,
                None => {
                    traffic.contains(&text)
                        || (matches!(device, Device::Program(_))
                            && (DEVICE.contains(&text) || text == "program"))
                }
            };
            if !known {
                let help = match device {
                    Device::Program(_) => format!(
                        "vary has {}, program, and variables of the program as \"$NAME\"",
                        [traffic, &DEVICE].concat().join(", ")
                    ),
                    Device::Command(_) if !generated => {
                        "vary has variables of the command as \"$NAME\"".to_owned()
                    }
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
            let values_of = self.steps(text, values);
            if let Some(twice) = (1..values_of.len()).find(|at| values_of[..*at].contains(&values_of[*at])) {
                self.wrong(values, format!("{text} has {} twice", values_of[twice]), "each value once");
            }
            self.can_be_sent(text, &values_of, values);
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
}
