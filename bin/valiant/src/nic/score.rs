//! How well a device suits a parallel router, by what was found.

use dpdk::nic::{Ability, Knob, Nic, Tried};

/// What a wish is worth.
const SEEN: u32 = 2;
const ACCEPTED: u32 = 1;

/// A wish, and how far it is fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) name: &'static str,
    pub(crate) points: u32,
    pub(crate) reason: String,
}

/// All wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Score {
    pub(crate) wishes: Vec<Wish>,
}

/// Where the answer to a wish is: the best of several abilities, or a setting.
enum From {
    Best(&'static [(&'static str, &'static str)]),
    /// All of them: the worst counts.
    All(&'static [(&'static str, &'static str)]),
    Setting(&'static str),
}

/// The wishes of section 4.3 of the paper, and what it counts as useful today.
const WISHES: [(&str, From); 12] = [
    ("queues to spread traffic over cores", From::All(&[("queues", "receive"), ("queues", "transmit")])),
    ("a hash that spreads flows over queues", From::All(&[("hash", "rss"), ("hash", "key")])),
    ("a queue for each Ethernet address", From::All(&[("rules", "queue for an Ethernet address")])),
    ("a queue for each of many flows", From::All(&[("rules", "queue for a flow")])),
    ("a queue for a subset of the prefixes", From::All(&[("rules", "queue for a prefix")])),
    ("VLAN tags", From::All(&[("vlan", "strip"), ("vlan", "filter")])),
    (
        "rates and priorities in sending",
        From::Best(&[("sending", "traffic manager"), ("sending", "rate of a queue")]),
    ),
    ("encryption on the way", From::All(&[("crypto", "inline (rte_security)")])),
    (
        "checksums of what is sent",
        From::All(&[
            ("transmit offloads", "ipv4_cksum"),
            ("transmit offloads", "udp_cksum"),
            ("transmit offloads", "tcp_cksum"),
        ]),
    ),
    ("another hash while packets flow", From::Setting("the key of the hash")),
    ("buckets moved while packets flow", From::Setting("the indirection table")),
    ("fewer queues at low load", From::Setting("a receive queue off and on")),
];

impl Score {
    pub(crate) fn of(nic: &Nic) -> Self {
        let wishes = WISHES.iter().map(|(name, from)| {
            let (points, reason) = match from {
                From::All(names) => {
                    let all = names.iter().map(|(area, name)| of_ability(nic.ability(area, name)));
                    all.min_by_key(|(points, _)| *points).unwrap_or_default()
                }
                From::Best(names) => {
                    let all = names.iter().map(|(area, name)| of_ability(nic.ability(area, name)));
                    all.max_by_key(|(points, _)| *points).unwrap_or_default()
                }
                From::Setting(name) => of_knob(nic.knobs.iter().find(|knob| knob.name == *name)),
            };
            Wish { name, points, reason }
        });
        let mut wishes: Vec<Wish> = wishes.collect();
        wishes.push(no_reset(&nic.knobs));
        Self { wishes }
    }

    pub(crate) fn points(&self) -> u32 {
        self.wishes.iter().map(|wish| wish.points).sum()
    }

    pub(crate) fn most(&self) -> u32 {
        self.wishes.len() as u32 * SEEN
    }
}

fn reason(tried: &Tried) -> &str {
    match tried {
        Tried::Yes(why) | Tried::No(why) | Tried::Not(why) => why,
    }
}

fn of_ability(ability: Option<&Ability>) -> (u32, String) {
    let Some(ability) = ability else { return (0, "the driver does not have it".to_owned()) };
    match (&ability.accepted, &ability.seen) {
        (_, Tried::Yes(seen)) => (SEEN, with(&ability.name, "seen", seen)),
        (Tried::Yes(_), Tried::No(why)) => (0, with(&ability.name, "accepted, but", why)),
        (Tried::Yes(what), Tried::Not(_)) => (ACCEPTED, with(&ability.name, "accepted, not seen", what)),
        (accepted, _) => (0, with(&ability.name, "not accepted", reason(accepted))),
    }
}

fn with(name: &str, word: &str, why: &str) -> String {
    if why.is_empty() { format!("{name}: {word}") } else { format!("{name}: {word}: {why}") }
}

fn of_knob(knob: Option<&Knob>) -> (u32, String) {
    match knob {
        None => (0, "not examined".to_owned()),
        Some(knob) if knob.live.works() => (SEEN, "it can be set while the port runs".to_owned()),
        Some(knob) if knob.stopped.works() => (ACCEPTED, "only while the port is stopped".to_owned()),
        Some(knob) => (0, reason(&knob.live).to_owned()),
    }
}

/// How many of the settings need no reset.
fn no_reset(knobs: &[Knob]) -> Wish {
    let live = knobs.iter().filter(|knob| knob.live.works()).count();
    let points = match live * 2 {
        twice if live > 0 && twice >= knobs.len() * 2 => SEEN,
        twice if live > 0 && twice >= knobs.len() => ACCEPTED,
        _ => 0,
    };
    let reason = format!("{live} of {} settings can be changed while the port runs", knobs.len());
    Wish { name: "no reset to change settings", points, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpdk::nic::{Said, Way};

    fn nic(abilities: Vec<Ability>, knobs: Vec<Knob>) -> Nic {
        Nic {
            port: "x".to_owned(),
            driver: "net_x".to_owned(),
            firmware: String::new(),
            choice: String::new(),
            mac: [0; 6],
            numa_node: None,
            way: Way::None,
            abilities,
            knobs,
            notes: Vec::new(),
        }
    }

    fn filter(accepted: Tried, seen: Tried) -> Vec<Ability> {
        let one = |name: &str, accepted, seen| Ability {
            area: "vlan",
            name: name.to_owned(),
            advertised: Said::Yes(String::new()),
            accepted,
            seen,
        };
        let yes = || Tried::Yes(String::new());
        vec![one("strip", yes(), yes()), one("filter", accepted, seen)]
    }

    fn vlan(accepted: Tried, seen: Tried) -> u32 {
        let score = Score::of(&nic(filter(accepted, seen), Vec::new()));
        score.wishes.iter().find(|wish| wish.name == "VLAN tags").unwrap().points
    }

    #[test]
    fn what_is_only_advertised_or_does_not_work_counts_nothing() {
        let (yes, no, not) = (Tried::Yes(String::new()), Tried::No("no".into()), Tried::Not("-".into()));
        assert_eq!(vlan(yes.clone(), yes.clone()), 2);
        assert_eq!(vlan(yes.clone(), not.clone()), 1);
        assert_eq!(vlan(yes, no.clone()), 0, "it was accepted and does not work");
        assert_eq!(vlan(no, not), 0);
        let nothing = Score::of(&nic(Vec::new(), Vec::new()));
        assert_eq!((nothing.points(), nothing.most()), (0, 26));
    }

    #[test]
    fn settings_that_need_no_reset_count() {
        let knob = |live: bool| Knob {
            name: "the indirection table",
            live: if live { Tried::Yes(String::new()) } else { Tried::No("busy".into()) },
            stopped: Tried::Yes(String::new()),
        };
        let points = |knobs: Vec<Knob>| Score::of(&nic(Vec::new(), knobs)).points();
        assert_eq!(points(vec![knob(true)]), 4, "the setting, and that none needs a reset");
        assert_eq!(points(vec![knob(false)]), 1);
        assert_eq!(points(vec![knob(true), knob(false)]), 3);
    }
}
