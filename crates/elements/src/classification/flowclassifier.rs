//! # FlowClassifier
//! Sorts packets by flow rules in the syntax of testpmd, very many of which may come and go while packets
//! flow.
//!
//! ## Synopsis
//! `FlowClassifier([RULE1, ..., RULEn, FILE, MISS])`
//!
//! ## Arguments
//! - `RULE` (*text*, any number): a rule as testpmd's `flow create` takes it, from `pattern`, `group` or
//!   `priority` on, such as `priority 1 pattern eth / ipv4 dst is 10.0.0.1 / udp / end actions queue index 3
//!   / end`.
//! - `FILE` (*filename*, keyword): a file with more rules, a `flow create PORT ...` on each line. The port is
//!   not looked at.
//! - `MISS` (*integer*, keyword): the output of packets about which no rule decides. Default is the last one.
//!
//! The semantics are those of DPDK's rte_flow. A packet begins in group 0. Of the rules of its group that
//! match it, the one with the lowest priority number decides, and of several the one that was added first. An
//! `eth / ipv4` matches untagged IPv4 alone, `eth / vlan / ipv4` IPv4 with one tag; `eth` matches everything.
//!
//! Actions: `queue index N` sends to output N, `rss queues ... end` to one of several outputs by the flow's
//! Toeplitz hash, `drop` drops, `jump group N` lets a later group decide, `count` counts, `mark id N` sets
//! the aggregate annotation, `set_meta` and `set_tag` (index 0) set what later groups can match. Of a rule
//! without one of the first four, and in a group where nothing matches, `MISS` is the output.
//!
//! A chain of groups costs one look-up: where a rule that matches everything (`pattern eth`), alone the last
//! one of its group by priority, only jumps, the rules of both groups are looked up at once. Up to 32 groups
//! are; a further one, and one to which another rule jumps, costs a look-up of its own. Packets that another
//! rule sends to a group within a chain pay for the masks of the whole chain.
//!
//! ## Ports
//! One push input, any number of push outputs. Packets begin with their Ethernet header.
//!
//! ## Handlers
//! - `rules` (read): every rule on a line: its number, and the rule.
//! - `count` (read): how many there are.
//! - `counts` (read): for each rule that counts a line: its number, and its packets.
//! - `rules_json` (read): the same as JSON, as `valiant nic rules` shows it.
//! - `add` (write): adds rules, one on each line.
//! - `remove` (write): removes rules with these numbers.
//! - `update` (write): `NUMBER RULE`: this rule takes the place of the one with this number, which it keeps;
//!   it goes on counting.
//! - `load` (write): these rules take the place of all. What `rules` prints may be given back to it.
//!
//! All changes of one write are made at once, or none: no packet meets some of them without the others, or
//! neither the old nor the new rule.
//!
//! ## Threads
//! All workers share one table, which they read a whole batch at once. Handlers change it without
//! interrupting them; after a change a worker takes a lock for a moment if the table has grown, or has other
//! rules of a kind that few rules are of. A fifth of a second after a change a thread of its own begins to
//! put rules of many kinds into decision trees, in which they are found most quickly: 65,536 rules of an
//! access list take about half a second. Until then, and beside the trees, rules are found in hash tables.
//! A hot swap to the same configuration string keeps the rules, if it has outputs for all of them; with
//! another one the rules are those of the new string.
//!
//! ## Example
//! ```click
//! c :: FlowClassifier(pattern eth / ipv4 / udp dst is 53 / end actions count / queue index 1 / end,
//!                     pattern eth / arp_eth_ipv4 / end actions drop / end);
//! InfiniteSource(LIMIT 3, STOP true) -> c;
//! c [0] -> Discard; c [1] -> Discard; c [2] -> Discard;
//! ```
//!
//! ## See also
//! Classifier, IPClassifier

use crate::flowrules::{Decider, Decision, Lined, Rules, Shared, Wrong, column_before, from_file, whole};
use crate::prelude::*;
use crate::splitter::Splitter;
use lang::args::Filename;
use std::sync::Arc;

/// The output of a packet that is dropped.
const DROP: usize = usize::MAX;

/// The `FlowClassifier` element.
pub struct FlowClassifier {
    shared: Arc<Shared>,
    decider: Decider,
    miss: usize,
    splitter: Splitter,
}

fn arguments(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Rules, ArgError> {
    let file = args.k::<Filename>("FILE")?;
    file.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
    let said = |outputs| format!("the element has {outputs} outputs");
    let rules = Rules::new(cx.n_outputs(), said).map_err(|e| args.error(e))?;
    let mut all: Vec<Lined> = Vec::new();
    let mut first = None;
    for arg in args.rest_args() {
        // A rule may have several lines here.
        let (text, longer) = whole(&lang::unquote(&arg.text).replace('\n', " "));
        match rules.read(&text) {
            Ok(read) => all.extend(read),
            Err(wrong) => wrong.into_iter().for_each(|Wrong { column, message, .. }| {
                let column = column_before(column, longer);
                let error = args.error_at(&arg, format!("column {column} of the rule: {message}"));
                first.get_or_insert(error);
            }),
        }
    }
    if let Some(Filename(path)) = file {
        match from_file(&rules, &path, args, cx) {
            Ok(read) => all.extend(read),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    match first {
        Some(error) => Err(error),
        None => rules.change(&[], all).map_err(|e| args.error(e)).map(|()| rules),
    }
}

impl Element for FlowClassifier {
    const CLASS: &'static str = "FlowClassifier";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::AGGREGATE;
    const DROPS: &'static [DropCase] = &[drops::RULE_SAYS.when("the action of its rule is `drop`")];
    const MANUAL: &'static str = manual!("classification/flowclassifier");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let outputs = cx.n_outputs();
        let miss = args.k::<u32>("MISS")?.map_or(outputs - 1, |miss| miss as usize);
        if miss >= outputs {
            return Err(args.error_here("MISS is no output", format!("0 to {}", outputs - 1)));
        }
        let fit = |shared: &Shared| shared.get().is_none_or(|rules| rules.fit(outputs));
        let shared = cx.shared_if(fit, Shared::default);
        let rules = match shared.get() {
            Some(rules) => {
                // They come from another worker's replica, or from a configuration with the same string.
                args.ignore_rest();
                rules
            }
            None => {
                let rules = arguments(args, cx)?;
                shared.fill(rules)
            }
        };
        Ok(Self {
            decider: Decider::new(rules),
            shared: Arc::clone(&shared),
            miss,
            splitter: Splitter::new(outputs),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Shared>("rules", |s, _| Ok(s.rules()?.text()));
        h.shared_read::<Shared>("count", |s, _| Ok(s.rules()?.len().to_string()));
        h.shared_read::<Shared>("counts", |s, _| Ok(s.rules()?.counts()));
        h.shared_read::<Shared>("rules_json", |s, _| Ok(s.rules()?.json(|_| None)));
        h.shared_write::<Shared>("add", |s, text| s.rules()?.add(text));
        h.shared_write::<Shared>("remove", |s, text| s.rules()?.remove(text));
        h.shared_write::<Shared>("update", |s, text| s.rules()?.update(text));
        h.shared_write::<Shared>("load", |s, text| s.rules()?.load(text));
    }

    fn take_state(&mut self, _old: &mut Self, _cx: &mut Cx<'_>) {
        self.shared.get().into_iter().for_each(|rules| rules.set_outputs(self.splitter.outputs()));
    }
}

impl Vector for FlowClassifier {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let miss = self.miss;
        let output = |decision: &Decision| match decision {
            Decision::Queue(queue) => usize::from(*queue),
            Decision::Drop => DROP,
            Decision::Miss => miss,
        };
        let decisions = self.decider.decide(&mut batch);
        // Usually all packets of a batch have the same output; then the batch is not split.
        if let Some((first, rest)) = decisions.split_first()
            && output(first) != DROP
            && rest.iter().all(|decision| output(decision) == output(first))
        {
            return cx.output_batch(output(first), batch);
        }
        self.splitter.split(
            batch,
            decisions.iter().map(output),
            cx,
            |_, packet, cx| cx.drop(packet, drops::RULE_SAYS),
            |output, batch, _, cx| cx.output_batch(output, batch),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// An Ethernet frame of UDP over IPv4 to this host and port.
    fn udp(host: u8, port: u16) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, host]);
        frame.extend([0, 7]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 8, 0, 0]);
        frame
    }

    fn output(bench: &mut Bench, frame: &[u8]) -> Option<usize> {
        bench.push(0, frame).first().map(|out| out.0)
    }

    const DNS: &str = "pattern eth / ipv4 / udp dst is 53 / end actions count / queue index 1 / end";

    #[test]
    fn rules_choose_outputs() {
        let drop = "priority 1 pattern eth / ipv4 dst is 10.0.0.66 / end actions mark id 9 / drop / end";
        let mut bench = Bench::with_ports(&format!("FlowClassifier({DNS}, {drop})"), 1, 3);
        assert_eq!(output(&mut bench, &udp(1, 53)), Some(1));
        assert_eq!(output(&mut bench, &udp(1, 54)), Some(2));
        assert_eq!(output(&mut bench, &udp(66, 53)), Some(1));
        assert_eq!(output(&mut bench, &udp(66, 54)), None);
        assert_eq!(output(&mut bench, &[0; 10]), Some(2));
        assert_eq!(bench.drops(), [("a rule says so".to_owned(), 1)]);
        assert_eq!(bench.read("counts"), "0 2\n");
    }

    #[test]
    fn groups_marks_and_metadata() {
        let rules = [
            "pattern eth / ipv4 / end actions set_meta data 5 mask 0xf / mark id 7 / jump group 2 / end",
            "group 2 pattern meta data is 5 / eth / ipv4 / udp dst is 53 / end actions queue index 0 / end",
            "group 2 pattern mark id is 7 / eth / ipv4 dst is 10.0.0.2 / end actions mark id 8 / end",
        ];
        let mut bench = Bench::with_ports(&format!("FlowClassifier({}, MISS 1)", rules.join(", ")), 1, 3);
        let all: Vec<_> =
            [udp(1, 53), udp(2, 5), udp(3, 5)].map(|f| runtime::Packet::from_bytes(&f).unwrap()).into();
        let got: Vec<_> = bench.send_batch(0, all).iter().map(|(o, p)| (*o, p.aggregate())).collect();
        assert_eq!(got.iter().filter(|(o, _)| *o == 0).collect::<Vec<_>>(), [&(0, 7)]);
        assert_eq!(got.iter().filter(|(o, _)| *o == 1).collect::<Vec<_>>(), [&(1, 8), &(1, 7)]);
    }

    #[test]
    fn a_rule_may_have_several_lines() {
        let rule = DNS.replace("end actions", "end\n      actions");
        let mut bench = Bench::with_ports(&format!("FlowClassifier({rule})"), 1, 2);
        assert_eq!(output(&mut bench, &udp(1, 53)), Some(1));
    }

    #[test]
    fn rss_keeps_flows_together_and_uses_all_queues() {
        let rule = "pattern eth / ipv4 / end actions rss queues 0 2 end / end";
        let mut bench = Bench::with_ports(&format!("FlowClassifier({rule})"), 1, 3);
        let first: Vec<_> = (0..64).map(|port| output(&mut bench, &udp(1, port))).collect();
        let again: Vec<_> = (0..64).map(|port| output(&mut bench, &udp(1, port))).collect();
        assert_eq!(first, again);
        let of = |queue| first.iter().filter(|to| **to == Some(queue)).count();
        assert!(of(0) > 8 && of(2) > 8 && of(1) == 0, "{first:?}");
    }

    #[test]
    fn handlers_change_all_or_nothing() {
        let mut bench = Bench::with_ports(&format!("FlowClassifier({DNS})"), 1, 3);
        let ntp = DNS.replace("53", "123");
        bench.write("add", &format!("flow create 0 {ntp}\n{}\n", ntp.replace("123", "124")));
        assert_eq!((bench.read("count").as_str(), output(&mut bench, &udp(1, 124))), ("3", Some(1)));
        let rules = bench.read("rules");
        assert!(rules.starts_with("0 flow create 0 "), "{rules}");
        output(&mut bench, &udp(1, 123));
        bench.write("update", &format!("1 {}", ntp.replace("index 1", "index 0")));
        assert_eq!(output(&mut bench, &udp(1, 123)), Some(0));
        assert_eq!(bench.read("counts").lines().nth(1), Some("1 2"));
        for (handler, wrong) in [
            ("add", format!("{ntp}\n{}", ntp.replace("index 1", "index 3"))),
            ("add", format!("{ntp}\npattern eth / bread / end actions drop / end")),
            ("remove", "0 9".to_owned()),
            ("remove", String::new()),
            ("update", format!("77 {ntp}")),
            // A value that would not be compared.
            ("add", "pattern eth / ipv4 proto spec 17 / end actions drop / end".to_owned()),
            ("load", "pattern eth / end actions of_pop_vlan / queue index 0 / end".to_owned()),
        ] {
            assert!(bench.try_write(handler, &wrong).is_err(), "{handler} {wrong}");
            assert_eq!(bench.read("count"), "3", "{handler} {wrong}");
        }
        bench.write("remove", "0 2");
        assert_eq!((output(&mut bench, &udp(1, 53)), output(&mut bench, &udp(1, 124))), (Some(2), Some(2)));
        // What the handler `rules` says can be loaded.
        bench.write("load", &rules);
        assert_eq!((bench.read("count").as_str(), output(&mut bench, &udp(1, 124))), ("3", Some(1)));
    }

    #[test]
    fn all_errors_of_a_file_are_told_with_their_places() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        let line = format!("flow create 0 {DNS}\n");
        std::fs::write(
            &path,
            format!(
                "{line}flow create 0 pattern eth / bread / end actions drop / end\n\n{}",
                line.replace("index 1", "index 9")
            ),
        )
        .unwrap();
        let error = Bench::error(&format!("FlowClassifier(FILE {})", path.display()));
        assert!(
            error.contains("rules:2:29: ") && error.contains("rules:4:56: there is no queue 9"),
            "{error}"
        );
        std::fs::write(&path, &line).unwrap();
        let mut bench = Bench::with_ports(&format!("FlowClassifier(FILE {})", path.display()), 1, 2);
        assert_eq!(output(&mut bench, &udp(1, 53)), Some(1));
    }
}
