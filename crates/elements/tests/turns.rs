//! One run of a task ends, however many packets it has to move, so that other tasks, handlers and signals get
//! their turn.

use runtime::Options;
use runtime::testing::Bench;

/// The most packets that a run moves, and the size of a batch.
const MOST: u64 = (1 << 16) + 256;
/// The number of packets. A run that does not end takes all of them.
const ALL: u64 = 1 << 17;

fn bench(config: &str, batch_size: usize) -> Bench {
    let options = Options { batch_size, ..Options::default() };
    Bench::with(&elements::registry(), config, 0, 0, options)
}

fn number(bench: &mut Bench, handler: &str) -> u64 {
    bench.read(handler).parse().unwrap()
}

#[test]
fn no_run_moves_more_packets_than_a_bounded_number() {
    const MANY: &str = "DATA x, LIMIT 131072";
    let full = "InfiniteSource(DATA x, LIMIT 9) -> q :: Queue(9) -> Unqueue(ACTIVE false) -> Discard;";
    let configs = [
        format!("InfiniteSource({MANY}, BURST 2147483647) -> c :: Counter -> Discard;"),
        format!(
            "InfiniteSource({MANY}, BURST 2147483647) -> Null -> Tee(1) -> c :: Counter -> Null -> Discard;"
        ),
        format!("InfiniteSource({MANY}) -> c :: Counter -> PullNull -> Discard(BURST 0);"),
        format!("InfiniteSource({MANY}) -> c :: Counter -> PullNull -> Discard(BURST 4294967295);"),
        format!("InfiniteSource({MANY}) -> PullNull -> c :: Counter -> Unqueue(-1) -> Discard;"),
        format!(
            "InfiniteSource({MANY}) -> PullNull -> c :: Counter -> Unqueue(2147483647) -> Null -> Discard;"
        ),
        // On such a fast link a packet takes no time.
        format!("InfiniteSource({MANY}) -> PullNull -> c :: Counter -> LinkUnqueue(0s, 10GBps) -> Discard;"),
        format!("InfiniteSource({MANY}) -> PullNull -> c :: Counter -> LinkUnqueue(1ms, 10GBps) -> Discard;"),
        // All packets are dropped before they arrive.
        format!(
            "{full} InfiniteSource({MANY}) -> PullNull -> c :: Counter -> RED(0, 1, 1, QUEUES q) -> Unqueue(4) -> Discard;"
        ),
        format!(
            "InfiniteSource({MANY}) -> PullNull -> c :: Counter -> RandomSample(DROP 1) -> Unqueue(-1) -> Discard;"
        ),
    ];
    for config in configs {
        for batch_size in [1, 32, 256] {
            let mut bench = bench(&config, batch_size);
            let mut count = 0;
            // In the first turn an element may only notify that there are packets.
            for _ in 0..4 {
                bench.turn();
                let now = number(&mut bench, "c.count");
                assert!(now - count <= MOST, "{} in one run: {config} with {batch_size}", now - count);
                count = now;
            }
            assert!(count > 0, "{config} with {batch_size}");
        }
    }
}

#[test]
fn a_large_burst_over_a_long_way_is_no_forwarding_loop() {
    let nulls = "-> Null ".repeat(20);
    let configs = [
        format!("InfiniteSource(DATA x, LIMIT 131072, BURST 131072) {nulls} -> d :: Discard;"),
        format!("InfiniteSource(DATA x, LIMIT 131072) -> PullNull -> Unqueue(-1) {nulls} -> d :: Discard;"),
    ];
    for config in configs {
        let mut bench = bench(&config, 1);
        for _ in 0..1000 {
            bench.turn();
            if number(&mut bench, "d.count") == ALL {
                break;
            }
        }
        let drops = bench.router().read("drops", "").unwrap();
        assert_eq!((number(&mut bench, "d.count"), drops.as_str()), (ALL, ""), "{config}");
    }
}
