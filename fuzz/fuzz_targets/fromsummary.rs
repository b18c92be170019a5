//! Packet summaries: FromIPSummaryDump reads any text line by line and stops, whatever is wrong with it;
//! ToIPSummaryDump prints everything that it made of it.
//!
//! Input: a byte that says which fields lines have that come before a `!data` line, then the file.
#![no_main]

use lang::{LoadOptions, Source};
use libfuzzer_sys::fuzz_target;
use runtime::{Options, Registry, Router};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| Arc::new(elements::registry()));
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("valiant-fuzz-{}.dump", std::process::id())));

/// Files that other programs unpack are theirs to fuzz.
const PACKED: [&[u8]; 3] = [b"\x1f\x8b", b"BZ", b"\xfd7"];
/// Many more than any input has lines.
const TURNS: u32 = 10_000;
/// All fields, in groups that lines can be filled with.
const FIELDS: [&str; 8] = [
    "timestamp ip_src sport ip_dst dport ip_proto ip_len",
    "ntimestamp ip_hl ip_tos ip_dscp ip_ecn ip_len ip_id ip_frag ip_fragoff ip_ttl ip_proto ip_sum ip_src ip_dst",
    "ip_src ip_dst ip_proto ip_opt tcp_seq tcp_ack tcp_off tcp_flags tcp_window tcp_urp tcp_opt",
    "ip_proto udp_len payload_len payload",
    "ip_proto icmp_type icmp_code icmp_type_name icmp_code_name icmp_flowid icmp_seq icmp_nextmtu",
    "eth_src eth_dst eth_type wire_len link aggregate first_timestamp count",
    "ip_capture_len payload ip_fragoff",
    "ts_sec ts_usec ts_usec1 direction paint sport dport payload_len",
];
const OPTIONS: [&str; 4] =
    ["", ", CHECKSUM true", ", MULTIPACKET true, PROTO 17", ", TIMING true, FLOWID 1.2.3.4 5 6.7.8.9 10 T"];

fuzz_target!(|data: &[u8]| {
    let Some((choice, text)) = data.split_first() else { return };
    if PACKED.iter().any(|magic| text.starts_with(magic)) {
        return;
    }
    std::fs::write(&*FILE, text).expect("a file can be written");
    let (fields, more) = (FIELDS[usize::from(choice & 7)], OPTIONS[usize::from(choice >> 3 & 3)]);
    let config = format!(
        "d :: FromIPSummaryDump({}, STOP true, CONTENTS {fields}{more})
            -> c :: Counter -> ToIPSummaryDump(/dev/null, CONTENTS {all}) -> Discard",
        FILE.display(),
        all = FIELDS[usize::from(choice >> 5)],
    );
    let options = Options { simulated_time: true, ..Options::default() };
    let sources = [Source::new("fuzz", config)];
    let mut router = match Router::new(&sources, LoadOptions::default(), Arc::clone(&REGISTRY), options) {
        Ok(router) => router,
        // An empty file; anything else would be wrong with the words above.
        Err(diags) => {
            let messages = diags.render_plain(diags.sources());
            assert!(messages.contains(".dump: "), "{messages}");
            return;
        }
    };
    let mut turns = 0;
    router.drive(|| {
        turns += 1;
        turns > TURNS
    });
    // With MULTIPACKET a line may stand for four billion packets; then they come.
    let packets: u64 = router.read("c.count", "").expect("a count").parse().expect("a number");
    let many = more.contains("MULTIPACKET") && packets > u64::from(TURNS / 2);
    assert!(turns <= TURNS || many, "does not come to an end");
    router.read("d.filepos", "").expect("a position");
});
