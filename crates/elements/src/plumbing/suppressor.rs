//! # Suppressor
//! Passes packets on from each input to the output of the same number, unless that port is switched off.
//!
//! ## Synopsis
//! `Suppressor()`
//!
//! ## Arguments
//! Any arguments are ignored.
//!
//! ## Ports
//! Any number of inputs and as many outputs; each pair is push or pull on its own.
//!
//! ## Handlers
//! - `active0`, `active1`, ... `active31` (read/write): whether the port of that number lets packets through,
//!   for each of the first 32.
//! - `reset` (write): lets all ports through.
//!
//! ## Threads
//! Each worker has its own instance; whether a port lets packets through is the same for all.
//!
//! ## Example
//! ```click
//! s :: Suppressor;
//! InfiniteSource(LIMIT 3, STOP true) -> s -> Discard;
//! Idle -> [1] s [1] -> Discard;
//! ```
//!
//! ## See also
//! Switch, EtherSpanTree

use super::engine::gates::Gates;
use super::engine::text;
use crate::prelude::*;
use std::sync::Arc;

const SUPPRESSED: DropReason = DropReason::new("suppressed");

/// The `Suppressor` element.
pub struct Suppressor {
    gates: Arc<Gates>,
}

fn read<const PORT: usize>(e: &mut Suppressor, _: &str, _: &mut Cx<'_>) -> Result<String, String> {
    e.gates.is_open(PORT).map(|open| open.to_string()).ok_or_else(|| format!("no port {PORT}"))
}

fn write<const PORT: usize>(e: &mut Suppressor, value: &str, _: &mut Cx<'_>) -> Result<(), String> {
    let active: bool = text::value(value, "type mismatch")?;
    if e.gates.set(PORT, active) { Ok(()) } else { Err(format!("no port {PORT}")) }
}

macro_rules! ports {
    ($h:ident: $($port:literal)*) => {$(
        $h.read_with(concat!("active", $port), Combine::First, read::<$port>);
        $h.write(concat!("active", $port), write::<$port>);
        $h.listed(&[concat!("active", $port, " c")]);
        $h.only(&[concat!("active", $port)], |ports| ports.n_inputs() > $port);
    )*};
}

impl Element for Suppressor {
    const CLASS: &'static str = "Suppressor";
    const PORTS: &'static str = "-/=";
    const FLOW: &'static str = "#/#";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[SUPPRESSED.when("the port is switched off")];
    const MANUAL: &'static str = manual!("plumbing/suppressor");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        args.rest();
        let ports = cx.n_inputs();
        Ok(Self { gates: cx.shared(|| Gates::new(ports)) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        ports!(h: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        h.write("reset", |e, _, _| {
            e.gates.open_all();
            Ok(())
        });
        h.listed(&["reset b"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.gates.copy(&old.gates);
    }
}

impl Vector for Suppressor {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        if self.gates.is_open(port) == Some(false) {
            cx.drop_batch(batch, SUPPRESSED);
        } else {
            cx.output_batch(port, batch);
        }
    }
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        if self.gates.is_open(port) != Some(false) {
            cx.pull_lending(self, port, max, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn ports_are_switched_one_by_one() {
        let mut bench = Bench::with_ports("Suppressor()", 2, 2);
        assert_eq!(bench.push(1, b"a"), [(1, b"a".to_vec())]);
        bench.write("active1", "false");
        assert_eq!((bench.read("active0"), bench.read("active1")), ("true".to_owned(), "false".to_owned()));
        assert!(bench.push(1, b"b").is_empty());
        assert_eq!(bench.push(0, b"c"), [(0, b"c".to_vec())]);
        assert_eq!(bench.drops(), [("suppressed".to_owned(), 1)]);
        bench.write("reset", "");
        assert_eq!(bench.push(1, b"d"), [(1, b"d".to_vec())]);
        assert!(bench.try_write("active2", "true").is_err());
        assert!(bench.try_write("active0", "x").is_err());
    }
}
