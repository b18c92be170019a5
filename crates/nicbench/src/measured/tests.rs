use super::*;
use crate::engine::Refusal;
use crate::kinds::{KINDS, default_rule, frames};
use crate::software::Software;
use rules::Rule;
use std::sync::Mutex;

/// A device with room for so many rules.
struct Small {
    room: usize,
    held: Mutex<Vec<u64>>,
}

impl Small {
    fn of(room: usize) -> Self {
        Self { room, held: Mutex::default() }
    }
}

impl Engine for Small {
    type Rule = Rule;

    fn make(&self, rule: Rule) -> Rule {
        rule
    }
    fn add(&self, rules: &[Rule]) -> Result<Vec<u64>, Refusal> {
        let mut held = self.held.lock().unwrap();
        let many = rules.len().min(self.room - held.len());
        let taken: Vec<u64> = (0..many as u64).collect();
        held.extend(&taken);
        if many < rules.len() {
            return Err(Refusal { taken, words: "table full".to_owned() });
        }
        Ok(taken)
    }
    fn remove(&self, numbers: &[u64]) -> Result<(), String> {
        let mut held = self.held.lock().unwrap();
        let left = held.len().checked_sub(numbers.len()).ok_or("no such rule")?;
        held.truncate(left);
        Ok(())
    }
    fn replace(&self, _: &[u64], _: &[Rule]) -> Option<Result<(), String>> {
        None
    }
    fn change(&self, gone: &[u64], new: &[Rule]) -> Result<Vec<u64>, Refusal> {
        self.remove(gone).map_err(|words| Refusal { taken: Vec::new(), words })?;
        self.add(new)
    }
    fn len(&self) -> usize {
        self.held.lock().unwrap().len()
    }
}

const TIME: Duration = Duration::from_millis(300);

fn rules(from: u64, many: usize, queue: u16) -> Vec<Rule> {
    KINDS[0].rules(from, many, 0, queue).unwrap()
}

#[test]
fn a_device_that_is_full_has_figures_up_to_there_and_no_rules_after_it() {
    let device = Small::of(100);
    let figures = insertion(&device, &rules(0, 300, 1), TIME, &|| false).unwrap();
    assert_eq!(
        (&figures["rules"], &figures["full"], &figures["refused"]),
        (&json!(100), &json!(true), &json!("table full"))
    );
    assert!(device.is_empty());
    assert_eq!(insertion(&Small::of(0), &rules(0, 3, 1), TIME, &|| false).unwrap_err(), "table full");
    // A rule generator that has to stop half-way leaves none.
    let stopped = insertion(&device, &rules(0, 100, 1), TIME, &|| true).unwrap();
    assert!(device.is_empty() && stopped["rules"] == json!(16), "{stopped}");
}

#[test]
fn a_device_without_the_call_says_which_dpdk_has_none() {
    let device = Small::of(10);
    let mut numbers = device.add(&rules(0, 5, 1)).unwrap();
    let new = rules(0, 5, 2);
    let replaced = |how, numbers: &mut [u64]| replacement_alone(&device, numbers, &new, how, TIME, &|| false);
    assert!(
        replaced(Strategy::InPlace, &mut numbers).unwrap_err().contains("has no call that replaces a rule")
    );
    assert_eq!(replaced(Strategy::DeleteInsert, &mut numbers).unwrap()["updates"], 5);
    assert_eq!(device.len(), 5);
}

/// Measures with the classifier in software, which has a hundred rules for queue 1 and the default.
fn measured(f: impl FnOnce(&mut Bench<'_, Software>, &mut [u64]) -> Result<Value, String>) -> (Value, usize) {
    let engine = Software::new(7);
    let mut numbers = engine.add(&rules(0, 100, 1)).unwrap();
    engine.add(&[default_rule(0, None).unwrap()]).unwrap();
    let mut traffic = engine.traffic(frames(200, 1.0, 100));
    let mut bench = Bench {
        engine: &engine,
        traffic: &mut traffic,
        cores: Cores::default(),
        time: TIME,
        stop: &|| false,
    };
    let figures = f(&mut bench, &mut numbers).unwrap();
    (figures, engine.len())
}

#[test]
fn the_traffic_meets_the_rules() {
    let (figures, rules) = measured(|bench, _| Ok(bench.lookup()));
    assert_eq!((&figures["matched"], rules), (&json!(1.0), 101), "{figures}");
    assert!(figures["pps"].as_f64() > Some(0.0), "{figures}");
}

#[test]
fn rules_that_came_at_once_go_again() {
    for place in [Where::Same, Where::Other] {
        let (figures, left) = measured(|bench, _| {
            bench.time = Duration::from_millis(700);
            bench.batch(&rules(1000, 500, 1), place)
        });
        assert_eq!(left, 101, "{figures}");
        assert!(figures["series"].as_array().unwrap().len() >= 6, "{figures}");
    }
}

#[test]
fn rules_that_come_and_go_are_as_many_after_it() {
    for place in [Where::Same, Where::Other] {
        let (figures, left) =
            measured(|bench, numbers| bench.churn(numbers, &rules(0, 100, 1), 10_000.0, place));
        assert!(left == 101 && figures["updates_per_second"].as_f64() > Some(0.0), "{figures}");
    }
}

#[test]
fn packets_meet_the_old_rule_or_the_new_one() {
    for how in [Strategy::InPlace, Strategy::Change, Strategy::InsertDelete] {
        let (figures, left) = measured(|bench, numbers| {
            bench.replacement(numbers, [&rules(0, 100, 1), &rules(0, 100, 2)], how)
        });
        assert_eq!((&figures["neither"], left), (&json!(0), 101), "{how:?}: {figures}");
        assert_eq!(figures["old_or_new"], figures["packets"], "{how:?}");
    }
}
