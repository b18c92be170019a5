//! Capture files: FromDump reads any bytes as a pcap or pcapng file and stops, whatever is wrong with them;
//! ToDump writes down what it read.
#![no_main]

use lang::{LoadOptions, Source};
use libfuzzer_sys::fuzz_target;
use runtime::{Options, Registry, Router};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| Arc::new(elements::registry()));
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("valiant-fuzz-{}.pcap", std::process::id())));

/// Files that other programs unpack are theirs to fuzz.
const PACKED: [&[u8]; 3] = [b"\x1f\x8b", b"BZ", b"\xfd7"];
/// Many more than any input has packets.
const TURNS: u32 = 100_000;

fuzz_target!(|data: &[u8]| {
    if PACKED.iter().any(|magic| data.starts_with(magic)) {
        return;
    }
    std::fs::write(&*FILE, data).expect("a file can be written");
    for more in ["", ", FORCE_IP true", ", TIMING true"] {
        let text = format!("d :: FromDump({}, STOP true{more}) -> c :: Counter -> Discard", FILE.display());
        let options = Options { simulated_time: true, ..Options::default() };
        let sources = [Source::new("fuzz", text)];
        let Ok(mut router) = Router::new(&sources, LoadOptions::default(), Arc::clone(&REGISTRY), options)
        else {
            continue;
        };
        let mut turns = 0;
        router.drive(|| {
            turns += 1;
            turns > TURNS
        });
        assert!(turns <= TURNS, "does not come to an end");
        router.read("d.filepos", "").expect("a position");
        router.read("d.packet_filepos", "").expect("a position");
        router.read("d.encap", "").expect("a link type");
    }
});
