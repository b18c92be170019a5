//! # RandomSample
//! Lets packets through at random.
//!
//! ## Synopsis
//! `RandomSample([P, SAMPLE, DROP, ACTIVE])`
//!
//! ## Arguments
//! - `P` or `SAMPLE` (*real*, 0 to 1): the probability that a packet passes.
//! - `DROP` (*real*, 0 to 1): instead, the probability that it does not.
//! - `ACTIVE` (*bool*, default true): whether to sample; else all packets pass.
//!
//! One of the first three must be given. Probabilities are kept in units of 2^-28.
//!
//! ## Ports
//! One agnostic input. Packets that pass leave by output 0, agnostic; others by output 1, push, if it is
//! connected.
//!
//! ## Handlers
//! - `sampling_prob` (read/write): the probability that a packet passes.
//! - `drop_prob` (read/write): the probability that it does not.
//! - `active` (read/write): the `ACTIVE` argument.
//! - `config` (read/write): the arguments as they are now.
//! - `drops` (read): packets that did not pass.
//!
//! ## Threads
//! Each worker has its own random numbers; counts are summed.
//!
//! ## Example
//! ```click
//! RandomSeed(1);
//! InfiniteSource(LIMIT 100, STOP true) -> RandomSample(0.1) -> Discard;
//! ```
//!
//! ## See also
//! RandomSwitch, RandomSeed

use super::engine::text;
use crate::prelude::*;
use lang::args::Real2;

const NOT_SAMPLED: DropReason = DropReason::new("not sampled");

const BITS: u32 = 28;
const ONE: u32 = 1 << BITS;

/// The `RandomSample` element.
pub struct RandomSample {
    /// In units of 2^-28.
    probability: u32,
    active: bool,
}

fn probability(v: &str) -> Result<u32, String> {
    let wrong = "Must be given a number between 0.0 and 1.0";
    let p: Real2<BITS> = text::value(v, wrong)?;
    if p.0 <= ONE { Ok(p.0) } else { Err(wrong.to_owned()) }
}

impl Element for RandomSample {
    const CLASS: &'static str = "RandomSample";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[NOT_SAMPLED.when("the packet did not pass, and output 1 is not connected")];
    const MANUAL: &'static str = manual!("plumbing/randomsample");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let by_position: Option<Real2<BITS>> = args.p("P")?;
        let (sample, drop): (Option<Real2<BITS>>, Option<Real2<BITS>>) = (args.k("SAMPLE")?, args.k("DROP")?);
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let probability = match (sample, drop) {
            (Some(_), Some(_)) => return Err("give at most one of SAMPLE and DROP".into()),
            (_, Some(drop)) => ONE.checked_sub(drop.0),
            (sample, None) => sample.or(by_position).map(|p| p.0).filter(|p| *p <= ONE),
        };
        let probability = probability.ok_or("sampling probability must be between 0 and 1")?;
        Ok(Self { probability, active })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("sampling_prob", |e| text::real2(e.probability.into(), BITS));
        h.write("sampling_prob", |e, v, _| probability(v).map(|p| e.probability = p));
        h.read("drop_prob", |e| text::real2((ONE - e.probability).into(), BITS));
        h.write("drop_prob", |e, v, _| probability(v).map(|p| e.probability = ONE - p));
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| text::value(v, "expected boolean").map(|on| e.active = on));
        h.read("config", |e| {
            format!("SAMPLE {}, ACTIVE {}", text::real2(e.probability.into(), BITS), e.active)
        });
        h.stats("drops", |stats| stats.rejected_for(NOT_SAMPLED).to_string());
        h.listed(&["sampling_prob", "active c", "drops", "drop_prob"]);
    }
}

impl Simple for RandomSample {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.active || (cx.random() >> (64 - BITS)) < u64::from(self.probability) {
            return Some(packet);
        }
        cx.reject(packet, NOT_SAMPLED);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn samples_at_its_probability() {
        let mut bench = Bench::new("RandomSample(0.25)");
        let passed = (0..4000).filter(|_| bench.push(0, b"x")[0].0 == 0).count();
        assert!((850..1150).contains(&passed), "{passed}");
        assert_eq!(bench.read("drops"), (4000 - passed).to_string());
        bench.write("drop_prob", "1");
        assert_eq!(bench.read("sampling_prob"), "0");
        assert_eq!(bench.push(0, b"x")[0].0, 1);
        bench.write("active", "false");
        assert_eq!(bench.push(0, b"x")[0].0, 0);
        assert!(bench.try_write("drop_prob", "1.5").is_err());
    }

    #[test]
    fn drops_without_a_second_output() {
        let mut bench = Bench::with_ports("RandomSample(DROP 1)", 1, 1);
        assert!(bench.push(0, b"x").is_empty());
        assert_eq!(bench.drops(), [("not sampled".to_owned(), 1)]);
        assert_eq!(bench.read("drop_prob"), "1");
        assert_eq!(bench.read("config"), "SAMPLE 0, ACTIVE true");
    }

    #[test]
    fn arguments_are_checked() {
        assert!(Bench::error("RandomSample()").contains("sampling probability must be between 0 and 1"));
        assert!(Bench::error("RandomSample(1.5)").contains("sampling probability must be between 0 and 1"));
        assert!(
            Bench::error("RandomSample(SAMPLE 0.5, DROP 0.5)").contains("at most one of SAMPLE and DROP")
        );
    }
}
