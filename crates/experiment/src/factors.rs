//! Whether the effects of what is varied can be told apart.

use crate::model::{Device, Experiment, Point};
use std::collections::BTreeMap;

/// The parts of the points that two factors divide them into: values of one belong to the same part when they
/// occur with the same value of the other. Within a part, the effect of each can be seen while the other
/// stays; between parts both change at once.
fn parts(points: &[Point], one: usize, two: usize) -> usize {
    // Each value, with a value of the same part, or itself.
    let mut part_of: BTreeMap<(bool, &str), (bool, &str)> = BTreeMap::new();
    fn root<'p>(
        part_of: &BTreeMap<(bool, &'p str), (bool, &'p str)>,
        mut of: (bool, &'p str),
    ) -> (bool, &'p str) {
        while let Some(next) = part_of.get(&of).filter(|next| **next != of) {
            of = *next;
        }
        of
    }
    for point in points {
        let (Some((_, a)), Some((_, b))) = (point.0.get(one), point.0.get(two)) else { continue };
        for value in [(false, a.as_str()), (true, b.as_str())] {
            part_of.entry(value).or_insert(value);
        }
        let (first, second) = (root(&part_of, (false, a)), root(&part_of, (true, b)));
        part_of.insert(second, first);
    }
    part_of.iter().filter(|(value, part)| value == part).count()
}

/// What should be known before it is measured.
pub(crate) fn warnings(experiment: &Experiment) -> Vec<String> {
    let (factors, points) = (&experiment.factors, experiment.points());
    let mut all = Vec::new();
    if experiment.listed.is_some() {
        for one in 0..factors.len() {
            for two in one + 1..factors.len() {
                let (first, second) = (&factors[one], &factors[two]);
                let vary = first.values.len() > 1 && second.values.len() > 1;
                if vary && parts(&points, one, two) > 1 {
                    all.push(format!(
                        "{} and {} change together: which of them has an effect cannot be told; add points in which \
                         only one of them changes",
                        first.name, second.name
                    ));
                }
            }
        }
    }
    let too_few = |point: &Point| {
        let settings = experiment.settings(point);
        let cpus = settings.get("cpus").and_then(|list| launch::cpu_list(list).ok())?;
        let threads: usize = settings.get("threads")?.parse().ok()?;
        (threads > cpus.len()).then_some((threads, cpus.len()))
    };
    if let Some((threads, cpus)) = points.iter().find_map(too_few) {
        all.push(format!(
            "{threads} threads of the device have {cpus} processors (`cpus`): the others are where the kernel puts them, \
             the generator's processor included"
        ));
    }
    let program = match &experiment.device {
        Device::Program(path) => std::fs::read_to_string(path).ok(),
        _ => None,
    };
    for factor in factors.iter().filter(|factor| factor.values.len() > 1) {
        let name = &factor.name;
        let used = |text: &String| !name.starts_with('$') || mentions(text, name.trim_start_matches('$'));
        if program.as_ref().is_some_and(|text| !used(text)) {
            all.push(format!(
                "the program has no {name}: varying it changes nothing, unless a file that it includes has it"
            ));
        }
    }
    all
}

/// Whether a text has `$NAME` or `${NAME`.
fn mentions(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let after = |sign: &str| text.split(sign).skip(1).any(|rest| rest.strip_prefix(name).is_some_and(ends));
    after("$") || after("${")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(&str, &str)]) -> Vec<Point> {
        let pair = |(a, b): &(&str, &str)| {
            Point(vec![("size".into(), (*a).to_owned()), ("flows".into(), (*b).to_owned())])
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn effects_can_be_told_apart_where_one_changes_alone() {
        // Together always; two pairs that have nothing in common.
        assert_eq!(parts(&points(&[("60", "1"), ("508", "10"), ("1514", "100")]), 0, 1), 3);
        assert_eq!(parts(&points(&[("60", "1"), ("60", "2"), ("508", "10"), ("508", "20")]), 0, 1), 2);
        // A chain, and all with all.
        assert_eq!(parts(&points(&[("60", "1"), ("508", "1"), ("508", "10"), ("1514", "10")]), 0, 1), 1);
        assert_eq!(parts(&points(&[("60", "1"), ("508", "1"), ("60", "10"), ("508", "10")]), 0, 1), 1);
        // The same value of both is not the same thing.
        assert_eq!(parts(&points(&[("60", "60"), ("508", "508")]), 0, 1), 2);
        assert_eq!(parts(&[], 0, 1), 0);
    }

    #[test]
    fn a_variable_is_found_as_a_whole_word() {
        assert!(mentions("FromDevice($DEV0)", "DEV0") && mentions("Queue(${N})", "N"));
        assert!(!mentions("Queue($NUMBER)", "N") && !mentions("Queue(N)", "N"));
        assert!(mentions("$NUMBER $N", "N"));
    }
}
