//! Configuration arguments: any text as the arguments of any class, which starts with them or says why not;
//! what starts gets a packet and some time, and its handlers can be read.
//!
//! Input: two bytes for the class, a byte for the number of ports where the class leaves it open, then the
//! text.
#![no_main]

use lang::{LoadOptions, Source};
use libfuzzer_sys::fuzz_target;
use runtime::testing::Bench;
use runtime::{HandlerError, Options, Packet, Registry};
use std::sync::LazyLock;

static REGISTRY: LazyLock<Registry> = LazyLock::new(elements::registry);

/// After the first three come files to read (route tables, sources) or to write (printers). An argument that
/// looks like a virtual device, of whatever class, makes the DPDK environment start in the background.
const LEFT_OUT: [&str; 4] = ["FILE", "PCAP", "@", "net_"];

const FRAME: [u8; 60] = [0x45; 60];

fuzz_target!(|data: &[u8]| {
    let Some(([high, low, ports], text)) = data.split_first_chunk::<3>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let which = usize::from(u16::from_be_bytes([*high, *low])) % REGISTRY.iter().count();
    let Some(class) = REGISTRY.iter().nth(which) else { return };
    if LEFT_OUT.iter().any(|f| text.contains(f)) {
        return;
    }
    // The text must be the whole argument, and not end it and begin something else.
    let declaration = format!("e :: {}({text})", class.name);
    let Ok(config) =
        lang::load(&[Source::new("fuzz", declaration.as_str())], &LoadOptions::default(), &*REGISTRY)
    else {
        return;
    };
    if !matches!(&config.elements[..], [e] if e.name == "e") || !config.requirements.is_empty() {
        return;
    }
    // Only configured, not started: it would open something outside the process.
    let unopened = class.opens.is_some();
    let options = Options { simulated_time: true, check_only: unopened, ..Options::default() };
    let mut bench = match Bench::attempt(&REGISTRY, &declaration, usize::from(*ports & 7), options) {
        Ok(bench) => bench,
        Err(message) => {
            assert!(message.contains(':') && message.len() > 10, "{message:?}");
            return;
        }
    };
    if unopened {
        return;
    }
    // Sources make as many packets at a time as they are told to, and the bench keeps them all.
    let many = text_has_large_number(&declaration);
    for _ in 0..if many { 0 } else { 3 } {
        if bench.router().elements().iter().any(|e| e.name == "in0") {
            drop(bench.send(0, Packet::from_bytes(&FRAME).expect("memory")));
        }
        bench.turn();
    }
    for handler in class.handlers.iter().filter(|h| h.readable()) {
        match bench.try_read(handler.name) {
            Ok(_) | Err(HandlerError::Failed(_)) => {}
            Err(other) => panic!("{}: {other}", handler.name),
        }
    }
});

/// Whether there are five digits in a row.
fn text_has_large_number(text: &str) -> bool {
    text.as_bytes().windows(5).any(|five| five.iter().all(u8::is_ascii_digit))
}
