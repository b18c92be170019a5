//! # AggregateFilter
//! Sorts packets by lists of aggregates.
//!
//! ## Synopsis
//! `AggregateFilter(ACTION AGGREGATES, ...)`
//!
//! ## Arguments
//! - `ACTION AGGREGATES`: what happens to packets with one of these aggregate annotations; the first argument
//!   that lists an aggregate decides. `ACTION` is the number of an output, `allow` (output 0), or `drop` or
//!   `deny`. `AGGREGATES` are numbers and ranges such as `0-98`; `all` or `-` alone are all others. There may
//!   be a million ranges.
//!
//! ## Ports
//! One push input, one or more push outputs.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true)
//!   -> AggregateIP(ip ttl) -> AggregateFilter(allow 64 128 255, deny 0-1, allow all) -> Discard;
//! ```
//!
//! ## See also
//! AggregateIP, AggregateIPFlows, AggregateCounter, IPFilter

use crate::prelude::*;
use lang::args::parse_unsigned;
use lang::split_words;

const DENIED: DropReason = DropReason::new("its aggregate is denied");
const UNLISTED: DropReason = DropReason::new("its aggregate is not listed");

/// The most ranges that the arguments may make.
const MOST_RANGES: usize = 1 << 20;

/// What happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Output(u32),
    Deny,
}

/// Neighboring aggregates: the first and the last, and what happens to their packets.
type Range = (u32, u32, Action);

/// The `AggregateFilter` element.
pub struct AggregateFilter {
    /// In order, without overlaps.
    ranges: Vec<Range>,
    others: Option<Action>,
}

/// What the arguments say.
#[derive(Default)]
struct Reading {
    /// In order, without overlaps.
    ranges: Vec<Range>,
    others: Option<Action>,
    warnings: Vec<String>,
}

impl Reading {
    /// One argument, the `n`th.
    fn pattern(&mut self, n: usize, text: &str, outputs: usize) -> Result<(), String> {
        let words: Vec<String> = split_words(text).into_iter().map(|w| w.text).collect();
        let Some((action, aggregates)) = words.split_first() else {
            return Err(format!("empty pattern {n}"));
        };
        if self.others.is_some() {
            self.warnings.push(format!("pattern {n} matches no packets"));
            return Ok(());
        }
        let action = match (action.as_str(), parse_unsigned(action, i32::MAX as u64)) {
            ("allow", _) => Action::Output(0),
            ("drop" | "deny", _) => Action::Deny,
            // Click accepts outputs that do not exist; packets for them are dropped.
            (_, Ok(port)) if port < outputs as u64 => Action::Output(port as u32),
            (_, Ok(_)) => Action::Deny,
            _ => return Err(format!("pattern {n}: expected a port number")),
        };
        match aggregates {
            [] => return Err(format!("pattern {n} has no aggregates")),
            [all] if all == "all" || all == "-" => self.others = Some(action),
            _ => {}
        }
        if self.others.is_some() {
            return Ok(());
        }
        for word in aggregates {
            let read = |text: &str| parse_unsigned(text, u32::MAX.into()).ok().map(|n| n as u32);
            let range = match read(word) {
                Some(one) => Some((one, one)),
                None => word.split_once('-').and_then(|(a, b)| Some((read(a)?, read(b)?))),
            };
            let (first, last) = range.ok_or_else(|| format!("pattern {n}: bad aggregate number '{word}'"))?;
            if first <= last {
                self.add(n, first, last, action);
            }
        }
        Ok(())
    }

    /// Adds what of a range is not listed yet.
    fn add(&mut self, n: usize, first: u32, last: u32, action: Action) {
        let from = self.ranges.partition_point(|r| r.1 < first);
        let to = self.ranges.partition_point(|r| r.0 <= last);
        let (mut new, mut next) = (Vec::new(), Some(first));
        for old in &self.ranges[from..to] {
            if let Some(begin) = next.filter(|begin| *begin < old.0) {
                new.push((begin, old.0 - 1, action));
            }
            if let (Action::Output(port), true) = (old.2, old.2 != action) {
                let at = old.0.max(first);
                self.warnings.push(format!("pattern {n}: aggregate {at} already filtered to output {port}"));
            }
            new.push(*old);
            next = old.1.checked_add(1);
        }
        if let Some(begin) = next.filter(|begin| *begin <= last) {
            new.push((begin, last, action));
        }
        self.ranges.splice(from..to, new);
    }
}

impl Element for AggregateFilter {
    const CLASS: &'static str = "AggregateFilter";
    const PORTS: &'static str = "1/1-254";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::AGGREGATE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        DENIED
            .when("the first argument that lists it says `drop` or `deny`, or an output that does not exist"),
        UNLISTED.when("no argument lists it"),
    ];
    const MANUAL: &'static str = manual!("analysis/aggregatefilter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (mut reading, mut failed) = (Reading::default(), None);
        for (n, arg) in args.rest_args().iter().enumerate() {
            if let Err(wrong) = reading.pattern(n, &arg.text, cx.n_outputs()) {
                failed = Some(args.error_at(arg, wrong));
            }
            for warning in reading.warnings.drain(..) {
                cx.warn_at(arg.span, warning);
            }
            if reading.ranges.len() > MOST_RANGES {
                return Err(args.error_at(arg, "more than a million ranges"));
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Self { ranges: reading.ranges, others: reading.others }),
        }
    }
}

impl Vector for AggregateFilter {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            let aggregate = packet.aggregate();
            let at = self.ranges.partition_point(|r| r.1 < aggregate);
            let range = self.ranges.get(at).filter(|r| r.0 <= aggregate);
            match range.map(|r| r.2).or(self.others) {
                Some(Action::Output(port)) => cx.output(port as usize, packet),
                Some(Action::Deny) => cx.drop(packet, DENIED),
                None => cx.drop(packet, UNLISTED),
            }
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn outputs(arguments: &str, aggregates: &[u32]) -> Vec<Option<usize>> {
        let mut bench = Bench::with_ports(&format!("AggregateFilter({arguments})"), 1, 3);
        let mut one = |aggregate: u32| {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_aggregate(aggregate);
            bench.send(0, packet).first().map(|(port, _)| *port)
        };
        aggregates.iter().map(|a| one(*a)).collect()
    }

    #[test]
    fn the_first_list_decides() {
        let got =
            outputs("1 10-20 30, deny 15, 2 5-25 40, drop 41", &[4, 5, 10, 15, 20, 21, 25, 26, 30, 40, 41]);
        let expected =
            [None, Some(2), Some(1), Some(1), Some(1), Some(2), Some(2), None, Some(1), Some(2), None];
        assert_eq!(got, expected);
        let got = outputs("deny 0 4294967295, 1 1-4294967294, 2 all", &[0, 1, u32::MAX - 1, u32::MAX]);
        assert_eq!(got, [None, Some(1), Some(1), None]);
        assert_eq!(outputs("deny 7, allow all", &[7, 8]), [None, Some(0)]);
        assert_eq!(outputs("9 7, 1 -", &[7, 8]), [None, Some(1)]);
    }

    #[test]
    fn counts_why_a_packet_is_dropped() {
        let mut bench = Bench::with_ports("AggregateFilter(deny 0)", 1, 1);
        bench.push(0, b"x");
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_aggregate(1);
        bench.send(0, packet);
        let expected = [("its aggregate is denied", 1), ("its aggregate is not listed", 1)];
        assert_eq!(bench.drops(), expected.map(|(reason, n)| (reason.to_owned(), n)));
    }

    #[test]
    fn ranges_are_joined_as_a_list_of_each_number_would_be() {
        let mut x = 7u32;
        let mut random = move |n: u32| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) % n
        };
        for _ in 0..200 {
            let (mut reading, mut plain) = (Reading::default(), [None; 60]);
            for n in 0..6 {
                let (first, len, port) = (random(50), random(10), random(3));
                reading.pattern(n, &format!("{port} {first}-{}", first + len), 3).unwrap();
                for slot in &mut plain[first as usize..=(first + len) as usize] {
                    slot.get_or_insert(Action::Output(port));
                }
            }
            for (aggregate, expected) in (0u32..).zip(plain) {
                let found = reading.ranges.iter().find(|r| (r.0..=r.1).contains(&aggregate)).map(|r| r.2);
                assert_eq!(found, expected);
            }
            assert!(reading.ranges.is_sorted_by(|a, b| a.1 < b.0));
        }
    }

    #[test]
    fn wrong_arguments() {
        assert!(Bench::error("AggregateFilter(maybe 1)").contains("pattern 0: expected a port number"));
        assert!(Bench::error("AggregateFilter(allow 1, allow)").contains("pattern 1 has no aggregates"));
        assert!(Bench::error("AggregateFilter(allow x)").contains("pattern 0: bad aggregate number 'x'"));
    }
}
