//! # InputSwitch
//! Lets the packets of one input through and drops those of the others.
//!
//! ## Synopsis
//! `InputSwitch([OUTPUT])`
//!
//! ## Arguments
//! - `OUTPUT` (*int*, default 0): the input that is let through. The keyword is Click's; `INPUT` means the
//!   same.
//!
//! ## Ports
//! Any number of push inputs, one push output.
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
//! sw :: InputSwitch(1);
//! InfiniteSource(LIMIT 3) -> sw;
//! InfiniteSource(LIMIT 3, STOP true) -> [1] sw;
//! sw -> Discard;
//! ```
//!
//! ## See also
//! Switch, PullSwitch

use super::engine::text;
use crate::prelude::*;

const INPUT_SWITCHED_OFF: DropReason = DropReason::new("input switched off");

/// The `InputSwitch` element.
pub struct InputSwitch {
    input: i32,
}

impl Element for InputSwitch {
    const CLASS: &'static str = "InputSwitch";
    const LIVE: bool = true;
    const PORTS: &'static str = "-/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[INPUT_SWITCHED_OFF.when("the packet came by another input")];
    const MANUAL: &'static str = manual!("plumbing/inputswitch");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let named: Option<i32> = args.k("INPUT")?;
        let input = args.p("OUTPUT")?.or(named).unwrap_or(0);
        if usize::try_from(input).is_ok_and(|i| i >= cx.n_inputs()) {
            return Err(format!("input must be < {}", cx.n_inputs()).into());
        }
        Ok(Self { input })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["switch", "config"] {
            h.read(name, |e| e.input.to_string());
        }
        h.write("switch", |e, v, cx| {
            let input: i32 = text::value(v, "InputSwitch input must be integer")?;
            let exists = usize::try_from(input).is_ok_and(|i| i < cx.n_inputs());
            e.input = if exists { input } else { -1 };
            Ok(())
        });
    }
}

impl Vector for InputSwitch {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        if usize::try_from(self.input) == Ok(port) {
            cx.output_batch(0, batch);
        } else {
            cx.drop_batch(batch, INPUT_SWITCHED_OFF);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn lets_one_input_through() {
        let mut bench = Bench::with_ports("InputSwitch(1)", 2, 1);
        assert!(bench.push(0, b"a").is_empty());
        assert_eq!(bench.push(1, b"b"), [(0, b"b".to_vec())]);
        bench.write("switch", "0");
        assert_eq!(bench.push(0, b"c"), [(0, b"c".to_vec())]);
        bench.write("switch", "7");
        assert_eq!(bench.read("switch"), "-1");
        assert!(bench.push(0, b"d").is_empty());
        assert_eq!(bench.drops(), [("input switched off".to_owned(), 2)]);
    }

    #[test]
    fn the_input_must_exist() {
        assert!(Bench::error("InputSwitch(3)").contains("input must be < 1"));
    }
}
