//! # Tee
//! Sends a copy of each packet to every output.
//!
//! ## Synopsis
//! `Tee([N])`
//!
//! ## Arguments
//! - `N` (*int*): how many outputs there are. If given it must be the number of connected outputs.
//!
//! ## Ports
//! One push input, one or more push outputs. The last output gets the packet itself, those before it get
//! copies, in the order of the outputs.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! t :: Tee(2);
//! InfiniteSource(LIMIT 3, STOP true) -> t -> Print(first) -> Discard;
//! t [1] -> Print(second) -> Discard;
//! ```
//!
//! ## See also
//! PullTee, PaintTee, Hub

use crate::prelude::*;

/// The `Tee` element.
pub struct Tee;

/// Reads the argument of both tees.
pub(super) fn check_outputs(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<(), ArgError> {
    let have = cx.n_outputs();
    match args.p::<u32>("N")? {
        Some(n) if n as usize != have => Err(format!("{have} outputs implies {have} arms").into()),
        _ => Ok(()),
    }
}

/// Emits a copy of each packet of a batch.
pub(super) fn copy(batch: &Batch, port: usize, cx: &mut Cx<'_>) {
    let mut copies = cx.spare_batch();
    for packet in batch.iter() {
        match packet.duplicate() {
            Some(copy) => copies.push(copy),
            None => cx.count_drops(1, drops::OUT_OF_MEMORY),
        }
    }
    cx.output_batch(port, copies);
}

impl Element for Tee {
    const CLASS: &'static str = "Tee";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::NO_COPY];
    const MANUAL: &'static str = manual!("plumbing/tee");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        check_outputs(args, cx).map(|()| Self)
    }
}

impl Vector for Tee {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let last = cx.n_outputs().saturating_sub(1);
        for port in 0..last {
            copy(&batch, port, cx);
        }
        cx.output_batch(last, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn every_output_gets_the_packet_in_order() {
        let mut bench = Bench::with_ports("Tee(3)", 1, 3);
        let want: Vec<_> = (0..3).map(|port| (port, b"abc".to_vec())).collect();
        assert_eq!(bench.push(0, b"abc"), want);
    }

    #[test]
    fn copies_are_separate() {
        let mut bench = Bench::with_config("e :: Tee; e [1] -> Truncate(1) -> Discard;", 1, 1);
        assert_eq!(bench.push(0, b"abc"), [(0, b"abc".to_vec())]);
    }

    #[test]
    fn the_number_of_arms_must_be_right() {
        assert!(Bench::error("Tee(2)").contains("1 outputs implies 1 arms"));
    }
}
