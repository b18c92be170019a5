//! The three classification languages: any patterns compile or are refused with a reason, and the programs
//! answer for any packet, the same one by one and many at once.
//!
//! Input: a byte that chooses language and number of outputs, lines of patterns up to an empty line, packets.
#![no_main]

use classify::{Compiled, Errors, IpParts, MAX_OUTPUT, NO_MATCH, NoNames, Program};
use libfuzzer_sys::fuzz_target;

fn check(compiled: Result<Compiled, Errors>, ip: bool, packet: &[u8]) {
    let program: Program = match compiled {
        Ok(compiled) => compiled.program,
        Err(errors) => {
            assert!(!errors.0.is_empty());
            return;
        }
    };
    assert!(!program.text().is_empty());
    for end in [packet.len(), packet.len().min(20), packet.len().min(14), 0] {
        let packet = &packet[..end];
        let one = if ip { program.match_ip(packet) } else { program.match_bytes(packet) };
        assert!(one == NO_MATCH || one <= usize::from(MAX_OUTPUT as u16), "{one}");
        let mut many = Vec::new();
        if ip {
            program.match_ip_many([packet, packet], &mut many);
            program.match_parts(&IpParts { mac: packet, network: packet, transport: packet });
            program.match_parts(&IpParts { mac: &[], network: packet, transport: &[] });
        } else {
            program.match_many([packet, packet], &mut many);
        }
        assert_eq!(many, [one, one]);
        if let Some(always) = program.output_everything() {
            assert_eq!(always, one);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let end = rest.windows(2).position(|w| w == b"\n\n").unwrap_or(rest.len());
    let (patterns, packet) = (&rest[..end], rest.get(end + 2..).unwrap_or(&[]));
    let text = String::from_utf8_lossy(patterns);
    let patterns: Vec<&str> = text.split('\n').collect();
    let outputs = (choice & 4 != 0).then_some(usize::from(choice >> 3));
    match choice & 3 {
        0 => check(classify::classifier(&patterns, outputs), false, packet),
        1 => check(classify::ip_filter(&patterns, outputs, &NoNames), true, packet),
        _ => check(classify::ip_classifier(&patterns, outputs, &NoNames), true, packet),
    }
});
