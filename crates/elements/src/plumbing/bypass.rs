//! # Bypass
//! Sends packets on their normal path or on a bypass.
//!
//! Push: packets on input 0 leave by output 0, or, while the element is active, by output 1. Pull: packets
//! for output 0 come from input 0, or, while it is active, from input 1. The second input (push) or second
//! output (pull), if there is one, leads the bypass back into the normal path.
//!
//! ## Synopsis
//! `Bypass([ACTIVE, INLINE])`
//!
//! ## Arguments
//! - `ACTIVE` (*bool*, default false): whether packets take the bypass.
//! - `INLINE` (*bool*, default false): for Click, where an element that is not inline removes itself from the
//!   graph. Valiant's is always inline; it costs one call per batch.
//!
//! ## Ports
//! One or two inputs and outputs, agnostic.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! b :: Bypass(true);
//! InfiniteSource(LIMIT 3, STOP true) -> b -> Discard;
//! b [1] -> Print(debug) -> [1] b;
//! ```
//!
//! ## See also
//! Switch, PullSwitch, Null

use super::engine::text;
use crate::prelude::*;

/// The `Bypass` element.
pub struct Bypass {
    active: bool,
}

impl Bypass {
    /// The port on the other side that corresponds to `port`; there are `ports` of them.
    fn across(&self, port: usize, ports: usize) -> usize {
        usize::from(self.active && port == 0).min(ports.saturating_sub(1))
    }
}

impl Element for Bypass {
    const CLASS: &'static str = "Bypass";
    const PORTS: &'static str = "1-2/1-2";
    const FLOW: &'static str = "xy/[xy]x";
    const SHARING: Sharing = Sharing::PerWorker;
    const PULL_THROUGH: Option<(usize, usize)> = Some((1, 0));
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/bypass");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let active = args.p("ACTIVE")?.unwrap_or(false);
        args.k::<bool>("INLINE")?;
        Ok(Self { active })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| text::value(v, "syntax error").map(|on| e.active = on));
    }
}

impl Vector for Bypass {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        cx.output_batch(self.across(port, cx.n_outputs()), batch);
    }
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let input = self.across(port, cx.n_inputs());
        cx.pull_lending(self, input, max, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn push() {
        let mut bench = Bench::with_config("e :: Bypass; e [1] -> c :: Counter -> [1] e;", 1, 1);
        assert_eq!(bench.push(0, b"a"), [(0, b"a".to_vec())]);
        assert_eq!(bench.read("c.count"), "0");
        bench.write("active", "true");
        assert_eq!(bench.push(0, b"b"), [(0, b"b".to_vec())]);
        assert_eq!(bench.read("c.count"), "1");
    }

    #[test]
    fn pull() {
        let config = "InfiniteSource(DATA a, LIMIT 2) -> Queue -> e :: Bypass;
            InfiniteSource(DATA b, LIMIT 2) -> Queue -> [1] e;";
        let mut bench = Bench::with_config(config, 0, 1);
        bench.run();
        assert_eq!(bench.pull(0, 1)[0].1.data(), b"a");
        bench.write("active", "true");
        assert_eq!(bench.pull(0, 1)[0].1.data(), b"b");
    }

    #[test]
    fn pull_and_back() {
        let config = "InfiniteSource(DATA a) -> Queue -> e :: Bypass(true); e [1] -> c :: Counter -> [1] e;";
        let mut bench = Bench::with_config(config, 0, 1);
        bench.turns(3);
        assert_eq!(bench.pull(0, 2).len(), 2);
        assert_eq!(bench.read("c.count"), "2");
        bench.write("active", "false");
        assert_eq!(bench.pull(0, 1).len(), 1);
        assert_eq!(bench.read("c.count"), "2");
    }
}
