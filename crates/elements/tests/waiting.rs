//! Packets wait for a full burst only if others come soon.
//!
//! DPDK needs root here; without, the test prints why it is skipped.

#[path = "../../../tests/skip.rs"]
mod skip;

use runtime::Options;
use runtime::testing::Bench;
use skip::skip;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Packets sent, and packets that wait.
fn state(bench: &mut Bench) -> (String, String) {
    (bench.read("t.count"), bench.read("t.waiting"))
}

fn is(sent: u64, waiting: u64) -> (String, String) {
    (sent.to_string(), waiting.to_string())
}

#[test]
fn packets_that_come_seldom_are_sent_at_once() {
    if !fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        skip("it needs root");
        return;
    }
    // In simulated time, each turn takes the 10 us between two packets of the source.
    let config = "e :: Null -> t :: ToDPDKDevice(net_null0, TIMEOUT 20us); TimedSource(0.00001) -> Discard;";
    let options = Options { simulated_time: true, batch_size: 64, ..Options::default() };
    let mut bench = Bench::with(&elements::registry(), config, 1, 0, options);
    bench.turns(5);
    bench.push(0, &[0; 60]);
    // Whether others come soon is not known of the first.
    bench.turns(5);
    assert_eq!(state(&mut bench), is(1, 0));

    bench.push(0, &[0; 60]);
    assert_eq!(state(&mut bench), is(2, 0), "the one before it came long ago");
    bench.push(0, &[0; 60]);
    assert_eq!(state(&mut bench), is(2, 1), "the one before it has just come");
    bench.push(0, &[0; 60]);
    assert_eq!(state(&mut bench), is(2, 2));
    bench.turns(5);
    assert_eq!(state(&mut bench), is(4, 0), "no others came");
}
