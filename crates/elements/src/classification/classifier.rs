//! # Classifier
//! Sorts packets by the bytes at given offsets.
//!
//! ## Synopsis
//! `Classifier(PATTERN0, ..., PATTERNn)`
//!
//! ## Arguments
//! - `PATTERN` (*clauses, separated by spaces*): each clause is `OFFSET/VALUE` or `OFFSET/VALUE%MASK`: a
//!   decimal offset from the start of the packet in bytes, and hexadecimal digits; `?` matches any digit. A
//!   clause with `!` in front must not match. All clauses of a pattern must hold. `-` matches every packet.
//!
//! ## Ports
//! One push input; one push output for each pattern. A packet leaves by the output of the first pattern that
//! it matches; one that matches none is dropped. A clause that reaches beyond the end of the packet does not
//! hold.
//!
//! ## Handlers
//! - `program` (read): the decision program, one test on a line.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
//! InfiniteSource(LIMIT 5, STOP true) -> c;
//! c[0] -> Discard; c[1] -> Discard; c[2] -> Discard; c[3] -> Discard;
//! ```
//!
//! ## See also
//! IPClassifier, IPFilter

use super::engine::program::Engine;
use crate::prelude::*;

/// The `Classifier` element.
pub struct Classifier(Engine);

impl Element for Classifier {
    const CLASS: &'static str = "Classifier";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::NO_PATTERN_MATCHES.when("the packet matches none of the patterns")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("classification/classifier");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let outputs = cx.n_outputs();
        Engine::compile(args, cx, |patterns, _| classify::classifier(patterns, Some(outputs))).map(Self)
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("program", |e| e.0.program.text().to_owned());
        h.listed(&["program ."]);
    }
}

impl Step for Classifier {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        self.0.is_usual_by_bytes(packet)
    }
    fn run(&mut self, packets: &mut [Packet], _cx: &mut Cx<'_>) -> usize {
        self.0.usual_by_bytes(packets)
    }
    fn output(&self) -> usize {
        self.0.usual
    }
}

impl Vector for Classifier {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.0.push_bytes(batch, cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn frame(ethertype: [u8; 2], op: u8) -> Vec<u8> {
        let mut f = vec![0; 42];
        f[12..14].copy_from_slice(&ethertype);
        f[21] = op;
        f
    }

    #[test]
    fn sorts_arp_and_ip() {
        let mut b = Bench::with_ports("Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800)", 1, 3);
        assert_eq!(b.push(0, &frame([8, 6], 1))[0].0, 0);
        assert_eq!(b.push(0, &frame([8, 6], 2))[0].0, 1);
        assert_eq!(b.push(0, &frame([8, 0], 0))[0].0, 2);
        assert!(b.push(0, &frame([0x86, 0xdd], 0)).is_empty());
        assert!(b.push(0, &[0; 12]).is_empty());
        assert_eq!(b.drops(), [("no pattern matches".to_owned(), 2)]);
    }

    #[test]
    fn a_mixed_batch_keeps_the_order_of_each_output() {
        let mut b = Bench::with_config("e :: Classifier(0/01, -);", 1, 2);
        let packets = [1u8, 2, 1, 3].map(|x| runtime::Packet::from_bytes(&[x, x]).unwrap()).into();
        let got: Vec<(usize, u8)> = b.send_batch(0, packets).iter().map(|(o, p)| (*o, p.data()[0])).collect();
        let of = |n| got.iter().filter(|(o, _)| *o == n).map(|(_, x)| *x).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![1, 1], vec![2, 3]));
    }

    #[test]
    fn bad_patterns_are_refused() {
        assert!(!Bench::error("Classifier(12-0800)").is_empty());
    }
}
