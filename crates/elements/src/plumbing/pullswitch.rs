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
//! Any number of pull inputs, one pull output.
//!
//! ## Handlers
//! - `config` (read): as `switch`, so that a saved configuration keeps the choice.
//! - `switch` (read/write): the input. A number that is no input lets nothing through and reads as -1.
//!
//! ## Threads
//! Each worker has its own; a write reaches all of them.
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

use super::text;
use crate::prelude::*;

/// The `PullSwitch` element.
pub struct PullSwitch {
    input: Option<usize>,
}

fn existing(input: i32, inputs: usize) -> Option<usize> {
    usize::try_from(input).ok().filter(|i| *i < inputs)
}

impl Element for PullSwitch {
    const CLASS: &'static str = "PullSwitch";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
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
            Ok(())
        });
    }
}

impl Vector for PullSwitch {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if let Some(input) = self.input {
            cx.pull(input, max, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

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
