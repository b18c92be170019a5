//! # Idle
//! Never sends a packet, and drops those that it gets.
//!
//! It is connected to ports that would otherwise be unconnected. Consumers downstream of it sleep;
//! `SimpleIdle` is the same but for that: its consumers keep pulling.
//!
//! ## Synopsis
//! `Idle()`
//!
//! ## Ports
//! Any number of inputs and outputs, agnostic; no packet passes from one to the other.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! TimedSource(0.1, LIMIT 3, STOP true) -> Idle;
//! Idle -> Queue -> Discard;
//! ```
//!
//! ## See also
//! Discard, Null

use crate::prelude::*;

const IDLE: DropReason = DropReason::new("idle");

/// The `Idle` element, or `SimpleIdle`, which does not notify its consumers that they may sleep.
pub struct Idle<const TELLS: bool>;

impl<const TELLS: bool> Element for Idle<TELLS> {
    const CLASS: &'static str = if TELLS { "Idle" } else { "SimpleIdle" };
    const PORTS: &'static str = "-/-";
    const FLOW: &'static str = "x/y";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = if TELLS { Notify::Silent } else { Notify::None };
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[IDLE.when("a packet was pushed to it")];
    const MANUAL: &'static str = manual!("plumbing/idle");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl<const TELLS: bool> Vector for Idle<TELLS> {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        cx.drop_batch(batch, IDLE);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn swallows_pushes_and_has_nothing_to_pull() {
        let mut bench = Bench::with_config("e :: Idle; e [1] -> Queue -> Discard;", 1, 1);
        assert!(bench.push(0, b"x").is_empty());
        assert!(bench.pull(0, 4).is_empty());
        assert_eq!(bench.drops(), [("idle".to_owned(), 1)]);
    }

    #[test]
    fn consumers_sleep_or_not() {
        let config = "e :: Null; Idle -> PullNull -> d :: Discard; SimpleIdle -> PullNull -> s :: Discard;";
        let mut bench = Bench::with_config(config, 1, 1);
        bench.turns(5);
        assert_eq!(
            (bench.read("d.scheduled"), bench.read("s.scheduled")),
            ("false".to_owned(), "true".to_owned())
        );
    }
}
