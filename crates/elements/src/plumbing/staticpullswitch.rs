//! # StaticPullSwitch
//! Pulls from one input, chosen once and for all.
//!
//! ## Synopsis
//! `StaticPullSwitch(INPUT)`
//!
//! ## Arguments
//! - `INPUT` (*int*): the input. Negative, or a number that is no input, lets nothing through.
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! sw :: StaticPullSwitch(0);
//! InfiniteSource(LIMIT 3, STOP true) -> Queue -> sw -> Discard;
//! Idle -> [1] sw;
//! ```
//!
//! ## See also
//! PullSwitch, StaticSwitch

use crate::prelude::*;

/// The `StaticPullSwitch` element.
pub struct StaticPullSwitch {
    input: Option<usize>,
}

impl Element for StaticPullSwitch {
    const CLASS: &'static str = "StaticPullSwitch";
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "l/l";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/staticpullswitch");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let input = usize::try_from(args.mp::<i32>("INPUT")?).ok();
        Ok(Self { input: input.filter(|i| *i < cx.n_inputs()) })
    }
}

impl Vector for StaticPullSwitch {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if let Some(input) = self.input {
            cx.pull(input, max, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn first(input: &str) -> Option<Vec<u8>> {
        let config = format!(
            "InfiniteSource(DATA a, LIMIT 2) -> Queue -> e :: StaticPullSwitch({input});
            InfiniteSource(DATA b, LIMIT 2) -> Queue -> [1] e;"
        );
        let mut bench = Bench::with_config(&config, 0, 1);
        bench.run();
        bench.pull(0, 1).first().map(|(_, p)| p.data().to_vec())
    }

    #[test]
    fn pulls_from_its_input() {
        assert_eq!(first("1"), Some(b"b".to_vec()));
        assert_eq!(first("0"), Some(b"a".to_vec()));
        assert_eq!(first("2"), None);
        assert_eq!(first("-1"), None);
    }
}
