//! # RandomSeed
//! Sets the seed of the random numbers that elements use.
//!
//! ## Synopsis
//! `RandomSeed([SEED])`
//!
//! ## Arguments
//! - `SEED` (*int*, 0 to 4294967295): the seed. Without it the numbers differ from run to run.
//!
//! Without this element the numbers differ from run to run too, but in simulated time they are the same each
//! time. The numbers that follow from a seed are not those of Click.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `seed` (read/write): the `SEED` argument. Writing it starts the sequence of numbers again.
//!
//! ## Threads
//! Each worker has its own numbers, derived from the seed and the worker's number.
//!
//! ## Example
//! ```click
//! RandomSeed(42);
//! InfiniteSource(LIMIT 100, STOP true) -> RandomSample(0.1) -> Discard;
//! ```
//!
//! ## See also
//! RandomSample, RandomSwitch

use super::engine::text;
use crate::prelude::*;
use std::hash::{BuildHasher, RandomState};

/// The `RandomSeed` element.
pub struct RandomSeed {
    seed: Option<u32>,
}

impl RandomSeed {
    fn apply(&self, cx: &mut Cx<'_>) {
        let seed = self.seed.map_or_else(|| RandomState::new().hash_one(0), u64::from);
        // Workers must not draw the same numbers.
        cx.seed_random(seed ^ (cx.worker().0 as u64) << 32);
    }
}

impl Element for RandomSeed {
    const CLASS: &'static str = "RandomSeed";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/randomseed");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { seed: args.p("SEED")? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("seed", |e| e.seed.map(|s| s.to_string()).unwrap_or_default());
        h.write("seed", |e, v, cx| {
            e.seed = if v.trim().is_empty() { None } else { Some(text::value(v, "SEED: parse error")?) };
            e.apply(cx);
            Ok(())
        });
        h.listed(&["seed ."]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.apply(cx);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn outputs(bench: &mut Bench) -> Vec<usize> {
        (0..64).map(|_| bench.push(0, b"x")[0].0).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let bench =
            |seed: &str| Bench::with_config(&format!("s :: RandomSeed({seed}); e :: RandomSwitch;"), 1, 2);
        let (mut a, mut b, mut c) = (bench("7"), bench("7"), bench("8"));
        let numbers = outputs(&mut a);
        assert_eq!(numbers, outputs(&mut b));
        assert_ne!(numbers, outputs(&mut c));
        c.write("s.seed", "7");
        assert_eq!(numbers, outputs(&mut c));
        assert_eq!(c.read("s.seed"), "7");
        assert!(c.try_write("s.seed", "x").is_err());
    }
}
