//! # Switch
//! Sends all packets to one output, which can be changed while the router runs.
//!
//! ## Synopsis
//! `Switch([OUTPUT])`
//!
//! ## Arguments
//! - `OUTPUT` (*int*, default 0): the output; negative drops all packets.
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Handlers
//! - `config` (read/write): reads as `switch`, so that a saved configuration keeps the choice.
//! - `switch` (read/write): the output. Beyond the outputs it reads as -1; negative drops
//!   all packets.
//!
//! ## Threads
//! Each worker has its own instance; a write changes all of them.
//!
//! ## Example
//! ```click
//! sw :: Switch(1);
//! InfiniteSource(LIMIT 3, STOP true) -> sw -> Discard;
//! sw [1] -> Print(one) -> Discard;
//! ```
//!
//! ## See also
//! StaticSwitch, PullSwitch, InputSwitch, Bypass, PaintSwitch

use super::engine::text;
use crate::llrpc;
use crate::prelude::*;

/// The `Switch` element.
pub struct Switch {
    output: i32,
}

impl Element for Switch {
    const CLASS: &'static str = "Switch";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::SWITCHED_OFF.when("the output is negative")];
    const MANUAL: &'static str = manual!("plumbing/switch");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let output: i32 = args.p("OUTPUT")?.unwrap_or(0);
        if usize::try_from(output).is_ok_and(|o| o >= cx.n_outputs()) {
            return Err(format!("output must be < {}", cx.n_outputs()).into());
        }
        Ok(Self { output })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["switch", "config"] {
            h.read(name, |e| e.output.to_string());
        }
        h.write("switch", |e, v, cx| {
            let output: i32 = text::value(v, "Switch output must be integer")?;
            let beyond = usize::try_from(output).is_ok_and(|o| o >= cx.n_outputs());
            e.output = if beyond { -1 } else { output };
            Ok(())
        });
        h.llrpc(llrpc::GET_SWITCH, llrpc::switched);
        h.llrpc(llrpc::SET_SWITCH, llrpc::switch_output);
    }
}

impl Vector for Switch {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        match usize::try_from(self.output) {
            Ok(port) => cx.output_batch(port, batch),
            Err(_) => cx.drop_batch(batch, drops::SWITCHED_OFF),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn follows_its_handler() {
        let mut bench = Bench::with_ports("Switch(1)", 1, 3);
        assert_eq!(bench.push(0, b"a"), [(1, b"a".to_vec())]);
        bench.write("switch", "2");
        assert_eq!(bench.push(0, b"b"), [(2, b"b".to_vec())]);
        bench.write("switch", "3");
        assert_eq!((bench.read("switch"), bench.read("config")), ("-1".to_owned(), "-1".to_owned()));
        assert!(bench.push(0, b"c").is_empty());
        bench.write("switch", "-5");
        assert_eq!(bench.read("switch"), "-5");
        assert_eq!(bench.drops(), [("switched off".to_owned(), 1)]);
        assert!(bench.try_write("switch", "x").is_err());
    }

    #[test]
    fn the_output_must_exist() {
        assert!(Bench::error("Switch(1)").contains("output must be < 1"));
    }
}
