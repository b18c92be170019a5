//! The plain table: every rule is looked at.

use crate::key::Key;
use crate::rule::Rule;

/// Rules in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    rules: Vec<(u64, Rule)>,
    next: u64,
}

impl Reference {
    /// Adds a rule. Returns its number.
    pub fn add(&mut self, rule: Rule) -> u64 {
        let number = self.next;
        self.next += 1;
        self.rules.push((number, rule));
        number
    }

    /// Removes a rule. Returns whether it was there.
    pub fn remove(&mut self, number: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(its, _)| *its != number);
        self.rules.len() < before
    }

    /// Puts another in the place of a rule. Returns whether it was there.
    pub fn replace(&mut self, number: u64, rule: Rule) -> bool {
        let held = self.rules.iter_mut().find(|(its, _)| *its == number);
        held.map(|(_, held)| *held = rule).is_some()
    }

    /// The rule of a group that decides about a packet with these fields, and its number.
    #[must_use]
    pub fn find(&self, group: u32, key: &Key) -> Option<(u64, &Rule)> {
        let matching = self.rules.iter().filter(|(_, rule)| rule.group == group && rule.pattern.matches(key));
        matching.min_by_key(|(number, rule)| (rule.priority, *number)).map(|(number, rule)| (*number, rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Field;

    #[test]
    fn priorities_go_before_order_and_groups_are_apart() {
        let mut table = Reference::default();
        let mut rule = |group, priority, port: Option<u64>| {
            let mut rule = Rule { group, priority, ..Rule::default() };
            if let Some(port) = port {
                rule.pattern.demand(Field::DstPort, port, u64::MAX);
            }
            table.add(rule)
        };
        let (any, first, second, other) =
            (rule(0, 5, None), rule(0, 1, Some(53)), rule(0, 1, Some(53)), rule(1, 0, None));
        let mut key = Key::default();
        let found = |table: &Reference, group, key: &Key| table.find(group, key).map(|(number, _)| number);
        assert_eq!(found(&table, 0, &key), Some(any));
        key.set(Field::DstPort, 53);
        assert_eq!(found(&table, 0, &key), Some(first));
        assert!(table.remove(first) && !table.remove(first));
        assert_eq!(found(&table, 0, &key), Some(second));
        assert_eq!((found(&table, 1, &key), found(&table, 2, &key)), (Some(other), None));
    }
}
