//! Properties of all elements of the section: no packet is lost without being counted, batches and workers
//! change no count, and a new configuration keeps the counts.

use runtime::testing::Bench;
use runtime::{Options, Packet};

const ONE_INPUT: [(&str, usize); 22] = [
    ("Align(8, 3)", 1),
    ("AverageCounter()", 1),
    ("Block(3)", 2),
    ("Bypass(true)", 2),
    ("CheckPaint(0)", 2),
    ("Counter()", 1),
    ("HashSwitch(3, 9)", 3),
    ("Idle()", 0),
    ("Null()", 1),
    ("Pad(40)", 1),
    ("Paint(4)", 1),
    ("PaintSwitch()", 3),
    ("Print(x, 8, ACTIVE false)", 1),
    ("RandomSample(0.5)", 1),
    ("RandomSwitch()", 3),
    ("Resize(-7, 9)", 1),
    ("RoundRobinSwitch()", 4),
    ("SetTimestampDelta()", 1),
    ("StaticSwitch(7)", 2),
    ("Strip(20)", 1),
    ("Truncate(20)", 1),
    ("Unstrip(300)", 1),
];

/// Packets of all lengths up to 80 bytes, with all colors.
fn packets() -> Vec<Packet> {
    let packet = |n: u8| {
        let mut packet = Packet::from_bytes(&vec![n; usize::from(n % 80)]).expect("memory");
        packet.set_paint(n % 4);
        packet
    };
    (0..240).map(packet).collect()
}

#[test]
fn every_packet_leaves_or_is_counted() {
    for batch_size in [1, 32] {
        for (declaration, outputs) in ONE_INPUT {
            let options = Options { batch_size, ..Options::default() };
            let config = format!("e :: {declaration};");
            let mut bench = Bench::with(&crate::registry(), &config, 1, outputs, options);
            let left = bench.send_batch(0, packets()).len() as u64;
            let dropped: u64 = bench.drops().iter().map(|d| d.1).sum();
            assert_eq!(left + dropped, 240, "{declaration}, batches of {batch_size}");
        }
    }
}

#[test]
fn order_within_a_port_is_kept_in_batches() {
    for (declaration, outputs) in [("RoundRobinSwitch()", 3), ("PaintSwitch()", 4), ("Tee()", 2)] {
        let options = Options { batch_size: 32, ..Options::default() };
        let mut bench = Bench::with(&crate::registry(), &format!("e :: {declaration};"), 1, outputs, options);
        let out = bench.send_batch(0, packets());
        for port in 0..outputs {
            let numbers: Vec<u8> =
                out.iter().filter(|(o, p)| *o == port && p.len() > 0).map(|(_, p)| p.data()[0]).collect();
            assert!(numbers.is_sorted() && !numbers.is_empty(), "{declaration} port {port}");
        }
    }
}

#[test]
fn vectors_and_workers_change_no_count() {
    for (workers, batch_size) in [(1, 1), (1, 32), (2, 1), (3, 32)] {
        let config = "s :: InfiniteSource(DATA abc, LIMIT 200) -> e :: Counter(COUNT_CALL 140 sw.switch 1)
            -> sw :: Switch -> Queue(2000) -> d :: Discard; sw [1] -> x :: Discard;";
        let options = Options { workers, batch_size, ..Options::default() };
        let mut bench = Bench::with(&crate::registry(), config, 0, 0, options);
        bench.turns(600);
        let mut read = |handler: &str| bench.read(handler).parse::<u64>().expect("a number");
        assert_eq!((read("s.count"), read("e.count"), read("e.byte_count")), (200, 200, 600));
        let (before, after) = (read("d.count"), read("x.count"));
        assert_eq!(before + after, 200);
        // The call comes at exactly the right packet on one worker with batches of one; else a little later.
        assert!(
            if (workers, batch_size) == (1, 1) { after == 61 } else { after > 20 },
            "{workers} {batch_size} {after}"
        );
    }
}

#[test]
fn a_new_configuration_keeps_the_counts() {
    let text = |more: &str| {
        format!(
            "s :: InfiniteSource(LIMIT 10) -> e :: Counter(COUNT_CALL 14 sw.switch 1{more}) -> sw :: Switch -> d :: Discard; sw [1] -> Discard;"
        )
    };
    for more in ["", ", BYTE_COUNT_CALL 100000000 stop"] {
        let options = Options { hotswap: true, ..Options::default() };
        let mut bench = Bench::with(&crate::registry(), &text(""), 0, 0, options);
        bench.run();
        let next = lang::Source::new("next", format!("{}\nbench_caught :: BenchCaught;", text(more)));
        assert!(bench.router().hotswap(next).is_ok());
        assert_eq!(
            (bench.read("s.count"), bench.read("count"), bench.read("d.count")),
            ("10".into(), "10".into(), "10".into())
        );
        bench.write("s.reset", "");
        bench.run();
        // The fourteenth packet of both configurations together triggers the call.
        assert_eq!((bench.read("count"), bench.read("d.count")), ("20".into(), "13".into()));
    }
}
