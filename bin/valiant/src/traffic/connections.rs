//! Connections through a device that keeps state of them (RFC 9693): when all were set up, the Responder
//! sends one frame of each back, and it is seen which arrive at the Initiator where they belong.

use measure::flows::Tuple;
use measure::learned::Answers;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::IpAddr;

/// What has become of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connections {
    pub(crate) asked: u64,
    /// Whose frame has arrived at the Responder.
    pub(crate) established: u64,
    /// Of how many a frame was sent back.
    pub(crate) sent: u64,
    /// Of how many it has arrived at the Initiator, with the addresses and ports of this connection.
    pub(crate) answered: u64,
    /// Of how many it has arrived with others.
    pub(crate) wrong: u64,
    /// Frames that were sent back later than the rate asks for.
    pub(crate) missed: u64,
    /// With `--set-up`: what frames over them have shown.
    pub(crate) existing: Option<Existing>,
}

/// What frames over connections have shown of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Existing {
    /// Frames that have arrived as those of another connection.
    pub(crate) changed: u64,
    /// Whether it was seen afterwards which connections still answer.
    pub(crate) checked: bool,
}

impl Connections {
    /// Those that are not there, or do not answer. With frames over them, what was not asked is not known.
    pub(crate) fn lost(&self) -> u64 {
        let there = match self.existing {
            Some(existing) if !existing.checked => self.established,
            _ => self.answered,
        };
        self.asked.saturating_sub(there)
    }

    /// Frames over them that have arrived as those of others.
    pub(crate) fn changed(&self) -> u64 {
        self.existing.map_or(0, |existing| existing.changed)
    }

    pub(crate) fn words(&self) -> String {
        let Self { asked, established, sent, answered, wrong, .. } = self;
        if established < asked && self.existing.is_some() {
            return format!("{established} of {asked} set up; none were used, since some are not there");
        }
        if let Some(existing) = &self.existing {
            return existing.words(self);
        }
        if established < asked {
            return format!("{established} of {asked} set up; none were answered, since some are not there");
        }
        let wrong = if *wrong > 0 {
            format!(", {wrong} with the addresses or ports of another")
        } else {
            String::new()
        };
        format!("{established} of {asked} set up, {sent} answered, {answered} answers arrived{wrong}")
    }

    pub(crate) fn json(&self) -> Value {
        json!({"asked": self.asked, "established": self.established, "answers_sent": self.sent,
            "answered": self.answered, "wrong": self.wrong, "answers_missed": self.missed,
            "existing": self.existing.map(|existing| existing.json())})
    }

    /// Counts the answers: which flows have arrived with which addresses and ports, of those that were used.
    pub(crate) fn count(&mut self, used: &Answers, arrived: &Answers) {
        let used: HashMap<u32, Tuple<IpAddr>> = used.flows.iter().copied().collect();
        let of: HashMap<u32, bool> =
            arrived.flows.iter().map(|(flow, tuple)| (*flow, used.get(flow) == Some(tuple))).collect();
        self.answered = of.values().filter(|right| **right).count() as u64;
        self.wrong = of.len() as u64 - self.answered;
    }
}

impl Existing {
    /// What stands after the numbers of connections.
    fn words(&self, kept: &Connections) -> String {
        let changed = match self.changed {
            0 => String::new(),
            n => format!(", {n} frames arrived with the addresses or ports of others"),
        };
        let lost = match (self.checked, kept.wrong) {
            (false, _) => String::new(),
            (true, 0) => format!(", {} of them still answer", kept.answered),
            (true, wrong) => format!(", {} of them still answer, {wrong} as others", kept.answered),
        };
        format!("{} set up before{changed}{lost}", kept.established)
    }

    fn json(&self) -> Value {
        json!({"changed": self.changed, "checked": self.checked})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_of_the_same_connection_count() {
        let used =
            Answers::read("0 10.0.0.1 10.0.0.2 1 9\n1 10.0.0.1 10.0.0.2 2 9\n2 10.0.0.1 10.0.0.2 3 9\n");
        // The second has the port of the first; the third has not arrived.
        let arrived = Answers::read("0 10.0.0.1 10.0.0.2 1 9\n1 10.0.0.1 10.0.0.2 1 9\n");
        let mut kept = Connections { asked: 3, established: 3, sent: 3, ..Connections::default() };
        kept.count(&used.unwrap(), &arrived.unwrap());
        assert_eq!((kept.answered, kept.wrong, kept.lost()), (1, 1, 2));
        assert!(kept.words().ends_with("1 answers arrived, 1 with the addresses or ports of another"));
        let few = Connections { asked: 3, established: 2, ..Connections::default() };
        assert!(few.words().starts_with("2 of 3 set up; none"));
        assert_eq!(kept.json()["wrong"], 1);
    }

    #[test]
    fn what_was_forgotten_is_told() {
        let kept = Connections { asked: 9, established: 9, answered: 4, wrong: 2, ..Connections::default() };
        let words = |changed, checked| Existing { changed, checked }.words(&kept);
        assert_eq!(words(0, false), "9 set up before");
        assert_eq!(
            words(7, true),
            "9 set up before, 7 frames arrived with the addresses or ports of others, 4 of them still answer, 2 as others"
        );
    }
}
