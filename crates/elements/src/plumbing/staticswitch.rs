//! # StaticSwitch
//! Sends all packets to one output, chosen once and for all.
//!
//! ## Synopsis
//! `StaticSwitch(OUTPUT)`
//!
//! ## Arguments
//! - `OUTPUT` (*int*): the output. Negative, or a number that is no output, drops all packets.
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! sw :: StaticSwitch(0);
//! InfiniteSource(LIMIT 3, STOP true) -> sw -> Discard;
//! sw [1] -> Discard;
//! ```
//!
//! ## See also
//! Switch, StaticPullSwitch

use crate::prelude::*;

/// The `StaticSwitch` element.
pub struct StaticSwitch {
    output: Option<usize>,
}

impl Element for StaticSwitch {
    const CLASS: &'static str = "StaticSwitch";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::SWITCHED_OFF.when("`OUTPUT` is not an output")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/staticswitch");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let output = usize::try_from(args.mp::<i32>("OUTPUT")?).ok();
        Ok(Self { output: output.filter(|o| *o < cx.n_outputs()) })
    }
}

impl Step for StaticSwitch {
    #[inline]
    fn step(&mut self, _packet: &mut Packet) -> bool {
        self.output.is_some()
    }
    fn output(&self) -> usize {
        self.output.unwrap_or_default()
    }
}

impl Vector for StaticSwitch {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        match self.output {
            Some(port) => cx.output_batch(port, batch),
            None => cx.drop_batch(batch, drops::SWITCHED_OFF),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn uses_its_output() {
        assert_eq!(Bench::with_ports("StaticSwitch(1)", 1, 2).push(0, b"a"), [(1, b"a".to_vec())]);
    }

    #[test]
    fn drops_without_one() {
        for output in ["-1", "2"] {
            let mut bench = Bench::with_ports(&format!("StaticSwitch({output})"), 1, 2);
            assert!(bench.push(0, b"a").is_empty());
            assert_eq!(bench.drops(), [("switched off".to_owned(), 1)]);
        }
        assert!(Bench::error("StaticSwitch()").contains("OUTPUT"));
    }
}
