//! # Hub
//! Sends each packet to all outputs but the one with the number of its input, as an Ethernet hub does.
//!
//! ## Synopsis
//! `Hub()`
//!
//! ## Ports
//! Any number of push inputs and push outputs. Copies leave in the order of the outputs; the last output gets
//! the packet itself.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! h :: Hub;
//! InfiniteSource(LIMIT 3, STOP true) -> h -> Discard;
//! Idle -> [1] h [1] -> Print(other) -> Discard;
//! ```
//!
//! ## See also
//! Tee, Suppressor

use super::tee::copy;
use crate::prelude::*;

const NO_OTHER_OUTPUT: DropReason = DropReason::new("no other output");

/// The `Hub` element.
pub struct Hub;

impl Element for Hub {
    const CLASS: &'static str = "Hub";
    const PORTS: &'static str = "-/-";
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "#/[^#]";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[NO_OTHER_OUTPUT.when("the only output is that of the packet's own input"), drops::NO_COPY];
    const MANUAL: &'static str = manual!("plumbing/hub");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for Hub {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let Some(last) = (0..cx.n_outputs()).rev().find(|output| *output != port) else {
            return cx.drop_batch(batch, NO_OTHER_OUTPUT);
        };
        for output in (0..last).filter(|output| *output != port) {
            copy(&batch, output, cx);
        }
        cx.output_batch(last, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn all_outputs_but_its_own() {
        let mut bench = Bench::with_ports("Hub()", 3, 3);
        for (input, want) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
            let outputs: Vec<usize> = bench.push(input, b"x").iter().map(|o| o.0).collect();
            assert_eq!(outputs, want);
        }
    }

    #[test]
    fn nowhere_to_go() {
        let mut bench = Bench::with_ports("Hub()", 1, 1);
        assert!(bench.push(0, b"x").is_empty());
        assert_eq!(bench.drops(), [("no other output".to_owned(), 1)]);
    }
}
