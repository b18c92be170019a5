//! Nanoseconds per packet of two classifiers, and how long it takes to compile large ones.
//!
//! `cargo run --release -p valiant-classify --example match_rate`
//!
//! Timings on a shared machine are noise; each line is the median of 15 runs, with the fastest and the
//! slowest.

use classify::{IpParts, NoNames, Program, classifier, ip_filter};
use std::hint::black_box;
use std::time::Instant;

const PACKETS: usize = 4096;
const RUNS: usize = 15;

/// A small generator of reproducible numbers (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// An Ethernet frame: mostly IPv4, at times ARP.
fn frame(numbers: &mut Numbers) -> Vec<u8> {
    let mut frame = vec![0; 64];
    let kind = numbers.next() % 16;
    if kind < 2 {
        frame[12..14].copy_from_slice(&[8, 6]);
        frame[21] = 1 + kind as u8;
        return frame;
    }
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..].copy_from_slice(&packet(numbers)[..50]);
    frame
}

/// An IPv4 packet with a TCP or UDP header.
fn packet(numbers: &mut Numbers) -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[0] = 0x45;
    packet[8] = 64;
    packet[9] = if numbers.next().is_multiple_of(3) { 17 } else { 6 };
    packet[12..20].copy_from_slice(&numbers.next().to_be_bytes());
    packet[12] = 10;
    let port = numbers.next() as u16 % 64 + 1000;
    packet[20..22].copy_from_slice(&(numbers.next() as u16).to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet[33] = 0x10;
    packet
}

/// A firewall whose rules test hosts, networks, ports and flags.
fn firewall(rules: usize) -> Vec<String> {
    let mut firewall = vec!["deny src net 10.200.0.0/16".to_string(), "deny ip frag".to_string()];
    for rule in 2..rules - 1 {
        let port = 1000 + rule;
        firewall.push(match rule % 5 {
            0 => format!("allow src net 10.{}.0.0/16 && tcp dst port {port}", rule % 256),
            1 => format!("1 udp dst port {port} or {}", port + 200),
            2 => format!("deny tcp dst port {port} && !ack"),
            3 => format!("allow tcp && dst port {port} && src port > 1023"),
            _ => format!("allow dst host 192.168.{}.{} && tcp", rule / 256 % 256, rule % 256),
        });
    }
    firewall.push("deny all".to_string());
    firewall
}

fn report(what: &str, program: &Program, mut classify: impl FnMut() -> usize) {
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..16 {
                black_box(classify());
            }
            start.elapsed().as_nanos() as f64 / (16 * PACKETS) as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    let (median, low, high) = (runs[RUNS / 2], runs[0], runs[RUNS - 1]);
    println!("{what:32} {:4} steps  {median:6.2} ns/packet ({low:.2} to {high:.2})", program.len());
}

fn main() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let frames: Vec<Vec<u8>> = (0..PACKETS).map(|_| frame(&mut numbers)).collect();
    let packets: Vec<Vec<u8>> = (0..PACKETS).map(|_| packet(&mut numbers)).collect();

    let program = classifier(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"], None)
        .expect("it compiles")
        .program;
    report("Classifier of the IP router", &program, || {
        frames.iter().fold(0, |sum, frame| sum ^ program.match_bytes(frame))
    });
    let mut outputs = Vec::with_capacity(256);
    report("  in batches of 256", &program, || {
        let mut sum = 0;
        for batch in frames.chunks(256) {
            outputs.clear();
            program.match_many(batch.iter().map(|frame| &frame[..]), &mut outputs);
            sum ^= outputs[255];
        }
        sum
    });

    for rules in [50, 500, 4000] {
        let rules = firewall(rules);
        let start = Instant::now();
        let program = ip_filter(&rules, Some(2), &NoNames).expect("it compiles").program;
        let compiled = start.elapsed();
        report(&format!("IPFilter of {} rules", rules.len()), &program, || {
            packets.iter().fold(0, |sum, packet| sum ^ program.match_ip(packet))
        });
        report("  with parts known", &program, || {
            packets.iter().fold(0, |sum, packet| {
                let parts = IpParts { mac: &[], network: packet, transport: &packet[20..] };
                sum ^ program.match_parts(&parts)
            })
        });
        println!("  compiled in {:.1} ms", compiled.as_secs_f64() * 1e3);
    }

    for (what, rules) in hostile() {
        let start = Instant::now();
        let steps = ip_filter(&rules, None, &NoNames).map(|compiled| compiled.program.len());
        println!(
            "{what:32} {:9.1} ms, {}",
            start.elapsed().as_secs_f64() * 1e3,
            match steps {
                Ok(steps) => format!("{steps} steps"),
                Err(errors) => errors.0[0].to_string(),
            }
        );
    }
}

/// Rules that take long to compile.
fn hostile() -> Vec<(&'static str, Vec<String>)> {
    let mut numbers = Numbers(7);
    let ports =
        |from: u64| (0..8_000).map(|port| (port * 7 + from).to_string()).collect::<Vec<_>>().join(" or ");
    let mut random = |count: usize, length: u64| -> Vec<String> {
        let rule = |_| {
            let mut rule = format!("{} (true", numbers.next() % 4);
            for _ in 0..numbers.next() % length {
                let word =
                    ["and", "or", "and not", "or not", ") or (", ") and ("][numbers.next() as usize % 6];
                let test = [
                    "src port",
                    "dst port",
                    "port",
                    "ip ttl",
                    "ip id >",
                    "src host 10.0.0.",
                    "transp[0:4] & 255 ==",
                ];
                let test = test[numbers.next() as usize % 7];
                let space = if test.ends_with('.') { "" } else { " " };
                rule += &format!(" {word} {test}{space}{}", numbers.next() % 200 + 1);
            }
            rule + ")"
        };
        (0..count).map(rule).collect()
    };
    vec![
        (
            "one list of ports, twice",
            vec![format!("0 src port {}", ports(1)), format!("1 src port {}", ports(1))],
        ),
        (
            "two lists that differ",
            vec![format!("0 src port {}", ports(1)), format!("1 src port {}", ports(2))],
        ),
        (
            "comparisons",
            (0..500).map(|n| format!("0 port >= {} and port < {}", n * 37, 65535 - n * 11)).collect(),
        ),
        ("random, many small", random(2000, 5)),
        ("random, few large", random(4, 1500)),
        (
            "alternatives",
            (0..2000).map(|n| format!("{} tcp ? port {n} : udp ? port {n} : true", n % 2)).collect(),
        ),
        ("too many", (0..20_000).map(|n| format!("0 src port {n} and dst port {n}")).collect()),
    ]
}
