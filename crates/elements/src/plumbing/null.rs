//! # Null
//! Passes packets on unchanged.
//!
//! `PushNull` and `PullNull` are the same for push and pull paths only; they decide about their neighbors.
//!
//! ## Synopsis
//! `Null()`
//!
//! ## Ports
//! One input, one output; agnostic (`PushNull`: push, `PullNull`: pull).
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Null -> Discard;
//! Idle -> PushNull -> Queue -> PullNull -> Discard;
//! ```
//!
//! ## See also
//! Idle, Bypass

use crate::prelude::*;

/// The `Null` element (`KIND` is `a`), `PushNull` (`h`) or `PullNull` (`l`).
pub struct Null<const KIND: char>;

impl<const KIND: char> Element for Null<KIND> {
    const CLASS: &'static str = match KIND {
        'h' => "PushNull",
        'l' => "PullNull",
        _ => "Null",
    };
    const PROCESSING: &'static str = match KIND {
        'h' => "h/h",
        'l' => "l/l",
        _ => "a/a",
    };
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/null");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl<const KIND: char> Step for Null<KIND> {
    #[inline]
    fn step(&mut self, _packet: &mut Packet) -> bool {
        true
    }
}

impl<const KIND: char> Vector for Null<KIND> {
    #[inline]
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        cx.output_batch(0, batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        cx.pull(0, max, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn passes_packets_unchanged() {
        for class in ["Null", "PushNull"] {
            assert_eq!(Bench::new(class).push(0, b"abc"), [(0, b"abc".to_vec())]);
        }
        let mut bench = Bench::with_config("InfiniteSource(LIMIT 2) -> Queue -> e :: PullNull;", 0, 1);
        bench.run();
        assert_eq!(bench.pull(0, 3).len(), 2);
    }
}
