//! # PullTee
//! Sends a copy of each packet that is pulled through it to its other outputs.
//!
//! ## Synopsis
//! `PullTee([N])`
//!
//! ## Arguments
//! - `N` (*int*): how many outputs there are. If given it must be the number of connected outputs.
//!
//! ## Ports
//! One pull input. Output 0 is pull and hands on the packet itself; the other outputs push copies.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! t :: PullTee;
//! InfiniteSource(LIMIT 3, STOP true) -> Queue -> t -> Discard;
//! t [1] -> Print(copy) -> Discard;
//! ```
//!
//! ## See also
//! Tee

use super::tee::{check_outputs, copy};
use crate::prelude::*;

/// The `PullTee` element.
pub struct PullTee;

impl Element for PullTee {
    const CLASS: &'static str = "PullTee";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "l/lh";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::NO_COPY];
    const MANUAL: &'static str = manual!("plumbing/pulltee");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        check_outputs(args, cx).map(|()| Self)
    }
}

impl Vector for PullTee {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut batch = cx.spare_batch();
        cx.pull(0, max, &mut batch);
        for port in 1..cx.n_outputs() {
            copy(&batch, port, cx);
        }
        out.append(&mut batch);
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn copies_go_to_the_other_outputs() {
        let mut bench = Bench::with_config(
            "src :: InfiniteSource(DATA ab, LIMIT 2) -> Queue -> e :: PullTee; e [1] -> c :: Counter -> Discard;",
            0,
            1,
        );
        bench.run();
        assert_eq!(bench.pull(0, 5).len(), 2);
        assert_eq!(bench.read("c.count"), "2");
        assert!(bench.pull(0, 5).is_empty());
    }
}
