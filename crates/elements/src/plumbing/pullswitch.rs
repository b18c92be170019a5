//! # PullSwitch
//! Pulls from one input, which can be changed while the router runs.
//!
//! ## Synopsis
//! `PullSwitch([INPUT])`
//!
//! ## Arguments
//! - `INPUT` (*int*, default 0): the input; a number that is no input lets nothing through.
//!
//! ## Ports
//! Any number of pull inputs, one pull output. Consumers sleep while the chosen input has no packets,
//! whatever the others have. `SimplePullSwitch` is the same without that: its consumers sleep while no input
//! has packets.
//!
//! ## Handlers
//! - `config` (read/write): reads as `switch`, so that a saved configuration keeps the choice.
//! - `switch` (read/write): the input. A number that is no input lets nothing through and reads as -1.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! sw :: PullSwitch(1);
//! InfiniteSource(LIMIT 3) -> Queue -> sw;
//! InfiniteSource(LIMIT 3) -> Queue -> [1] sw;
//! sw -> Discard;
//! ```
//!
//! ## See also
//! StaticPullSwitch, Switch

use super::engine::text;
use crate::llrpc;
use crate::prelude::*;

/// The `PullSwitch` element, or `SimplePullSwitch`, which does not notify its consumers when they may sleep.
pub struct PullSwitch<const NOTIFIES: bool> {
    input: Option<usize>,
}

fn existing(input: i32, inputs: usize) -> Option<usize> {
    usize::try_from(input).ok().filter(|i| *i < inputs)
}

impl<const NOTIFIES: bool> Element for PullSwitch<NOTIFIES> {
    const CLASS: &'static str = if NOTIFIES { "PullSwitch" } else { "SimplePullSwitch" };
    const LIVE: bool = true;
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = if NOTIFIES { Notify::Deciding } else { Notify::None };
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/pullswitch");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let input = args.p("INPUT")?.unwrap_or(0);
        Ok(Self { input: existing(input, cx.n_inputs()) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["switch", "config"] {
            h.read(name, |e| e.input.map_or_else(|| "-1".to_owned(), |i| i.to_string()));
        }
        h.write("switch", |e, v, cx| {
            e.input = existing(text::value(v, "syntax error")?, cx.n_inputs());
            e.notify(cx);
            Ok(())
        });
        h.llrpc(llrpc::GET_SWITCH, llrpc::switched);
        h.llrpc(llrpc::SET_SWITCH, llrpc::switch);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if NOTIFIES {
            cx.set_nonempty(self.input.is_some());
        }
        Ok(())
    }
}

impl<const NOTIFIES: bool> PullSwitch<NOTIFIES> {
    /// Notifies consumers whether the chosen input may have packets.
    fn notify(&self, cx: &mut Cx<'_>) {
        if NOTIFIES {
            cx.set_nonempty(self.input.is_some_and(|input| cx.upstream_active(input)));
        }
    }
}

impl<const NOTIFIES: bool> Vector for PullSwitch<NOTIFIES> {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let Some(input) = self.input else { return };
        if cx.pull_lending(self, input, max, out) == 0 {
            self.notify(cx);
        } else if NOTIFIES {
            cx.set_nonempty(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn consumers_sleep_while_the_chosen_input_is_empty() {
        let config = "i1 :: InfiniteSource(LIMIT 4) -> e :: PullSwitch(-1) -> d :: Discard;
            i2 :: InfiniteSource(LIMIT 4) -> Queue -> [1] e; Idle -> [2] e;";
        let mut bench = Bench::with_config(config, 0, 0);
        let look = |bench: &mut Bench| {
            bench.run();
            (bench.read("d.scheduled") == "true", bench.read("d.count"))
        };
        assert_eq!(look(&mut bench), (false, "0".to_owned()));
        bench.write("switch", "2");
        assert_eq!(look(&mut bench), (false, "0".to_owned()));
        bench.write("switch", "0");
        assert_eq!(bench.read("d.scheduled"), "true");
        assert_eq!(look(&mut bench), (false, "4".to_owned()));
        bench.write("switch", "1");
        assert_eq!(look(&mut bench), (false, "8".to_owned()));
        bench.write("i2.reset", "");
        assert_eq!(look(&mut bench), (false, "12".to_owned()));
    }

    #[test]
    fn the_simple_one_lets_consumers_poll() {
        let config = "i1 :: InfiniteSource(LIMIT 4) -> e :: SimplePullSwitch(-1) -> d :: Discard;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.turns(5);
        assert_eq!((bench.read("d.scheduled"), bench.read("d.count")), ("true".to_owned(), "0".to_owned()));
        bench.write("switch", "0");
        bench.turns(20);
        assert_eq!((bench.read("d.scheduled"), bench.read("d.count")), ("false".to_owned(), "4".to_owned()));
    }

    #[test]
    fn pulls_from_the_chosen_input() {
        let config = "InfiniteSource(DATA a, LIMIT 2) -> Queue -> e :: PullSwitch(1);
            InfiniteSource(DATA b, LIMIT 2) -> Queue -> [1] e;";
        let mut bench = Bench::with_config(config, 0, 1);
        bench.run();
        assert_eq!(bench.pull(0, 1)[0].1.data(), b"b");
        bench.write("switch", "0");
        assert_eq!(bench.pull(0, 1)[0].1.data(), b"a");
        bench.write("switch", "2");
        assert_eq!(bench.read("switch"), "-1");
        assert!(bench.pull(0, 1).is_empty());
    }
}
