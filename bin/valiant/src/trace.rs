//! `valiant trace`: the ways of single packets through the elements of a running router.

use crate::remote::{SocketArgs, connect, refused, seconds};
use clap::Args;
use launch::logging::error;
use launch::output::print;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wire::ethernet::ETHERTYPE_IPV4;
use wire::{Ethernet, Ipv4, protocol};

pub(crate) const EXAMPLES: &str = "\
Of each burst that comes in, the last packet is followed, until there are enough: from element to element, through queues and over workers, with the time of each step. The packet goes on as it would; copies of it (Tee) are not followed. While packets are followed, all task runs are timed, which takes some cycles for each burst and element.

Examples:
  valiant trace                               ten packets of the router with `-p 7777`
  valiant trace -n 3 --every 1000             one of a thousand bursts
  valiant trace --at rt                       packets that come to the element rt
  valiant trace --timeline trace.json         for a browser's trace viewer (chrome://tracing, ui.perfetto.dev)
  valiant trace --json | jq .packets[0].events

Exit status: 0 done, 1 the router could not be asked, or no packet came, 2 wrong usage.";

/// How often to look for what has been recorded.
const LOOK: Duration = Duration::from_millis(50);

/// How much longer the router goes on than packets are waited for, in seconds.
const GRACE: f64 = 10.0;

/// Which packets of which router.
#[derive(Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    socket: SocketArgs,
    /// How many packets to follow, at most 1000.
    #[arg(short = 'n', long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// Follow a packet of one burst in so many.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Follow packets that come to this element, or that it receives or makes, rather than all that come in.
    #[arg(long, value_name = "ELEMENT")]
    at: Option<String>,
    /// For how many seconds to wait for packets, and for them to leave.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: f64,
    /// Write a timeline to a file, in the Trace Event Format.
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
}

/// What the handler `trace.json` says.
#[derive(Deserialize)]
struct Traced {
    cycles_per_second: f64,
    /// It has not ended.
    tracing: bool,
    lost_events: u64,
    packets: Vec<Packet>,
}

#[derive(Deserialize)]
struct Packet {
    bytes: u64,
    head: String,
    ended: bool,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    cycles: u64,
    worker: usize,
    element: String,
    class: String,
    burst: u64,
    what: String,
    input: Option<u64>,
    by: Option<String>,
    reason: Option<String>,
}

impl Event {
    fn says(&self) -> String {
        match (&*self.what, self.input, &self.by, &self.reason) {
            ("begins", ..) => "comes in".to_owned(),
            ("enters", Some(0) | None, ..) => "enters".to_owned(),
            ("enters", Some(input), ..) => format!("enters [{input}]"),
            ("is pulled", _, Some(by), _) => format!("is pulled by {by}"),
            ("is dropped", .., Some(reason)) => format!("is dropped: {reason}"),
            (other, ..) => other.to_owned(),
        }
    }
}

/// The headers of a frame, or of an IP packet without one, in a few words.
fn summary(head: &str) -> String {
    let byte =
        |at: usize| head.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Vec<u8> = (0..head.len() / 2).map_while(byte).collect();
    let frame = Ethernet::split(&bytes);
    let of_frame =
        frame.as_ref().filter(|(header, _)| header.ethertype() == ETHERTYPE_IPV4).map(|(_, rest)| *rest);
    let is_ip = |ip: &&[u8]| {
        Ipv4::split(ip).is_some_and(|(header, _)| header.version() == 4 && header.header_len() >= 20)
    };
    let Some((ip, rest)) = of_frame.into_iter().chain([&bytes[..]]).find(is_ip).and_then(Ipv4::split) else {
        return frame.map_or_else(String::new, |(header, _)| format!("type 0x{:04x}", header.ethertype()));
    };
    let transport =
        rest.get(ip.header_len() - wire::ipv4::HEADER_LEN..).filter(|_| ip.fragment_offset() == 0);
    let ports = transport
        .filter(|_| [protocol::TCP, protocol::UDP].contains(&ip.protocol()))
        .and_then(|rest| rest.first_chunk::<4>());
    let port = |at: usize| {
        ports.map_or_else(String::new, |p| format!(":{}", u16::from_be_bytes([p[at], p[at + 1]])))
    };
    let name = match ip.protocol() {
        protocol::ICMP => "ICMP".to_owned(),
        protocol::TCP => "TCP".to_owned(),
        protocol::UDP => "UDP".to_owned(),
        other => format!("protocol {other}"),
    };
    format!("{name} {}{} > {}{}", ip.src(), port(0), ip.dst(), port(2))
}

impl Traced {
    fn ns(&self, cycles: u64) -> f64 {
        cycles as f64 * 1e9 / self.cycles_per_second
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (number, packet) in self.packets.iter().enumerate() {
            let Some(first) = packet.events.first() else { continue };
            let _ = writeln!(
                text,
                "packet {}: {} bytes, {}, in a burst of {}",
                number + 1,
                packet.bytes,
                summary(&packet.head),
                first.burst
            );
            let mut worker = None;
            for (at, event) in packet.events.iter().enumerate() {
                let after = self.ns(event.cycles - first.cycles);
                let next =
                    packet.events.get(at + 1).map(|next| self.ns(next.cycles.saturating_sub(event.cycles)));
                let here = next.map_or_else(String::new, |ns| format!("{ns:.0}"));
                let moved =
                    if worker.is_some_and(|before| before != event.worker) { "  another worker" } else { "" };
                worker = Some(event.worker);
                let _ = writeln!(
                    text,
                    "  {after:>12.0} ns  {here:>10}  worker {}  {} ({}) {}, burst of {}{moved}",
                    event.worker,
                    event.element,
                    event.class,
                    event.says(),
                    event.burst
                );
            }
            if !packet.ended {
                text.push_str("                its way had not ended: it waits, was changed into another packet, or was kept by an element\n");
            }
            text.push('\n');
        }
        if !text.is_empty() {
            text.insert_str(0, "ns after it came in, ns until the next step\n\n");
        }
        if self.lost_events > 0 {
            let _ =
                writeln!(text, "{} steps were not recorded: there was no room for more", self.lost_events);
        }
        text
    }

    /// In the Trace Event Format: a line for each worker, and a piece for each step of each packet.
    fn timeline(&self) -> Value {
        let start = self.packets.iter().flat_map(|p| p.events.first()).map(|e| e.cycles).min().unwrap_or(0);
        let us = |cycles: u64| self.ns(cycles.saturating_sub(start)) / 1e3;
        let mut events =
            vec![json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "valiant"}})];
        let mut workers: Vec<usize> =
            self.packets.iter().flat_map(|p| p.events.iter().map(|e| e.worker)).collect();
        workers.sort_unstable();
        workers.dedup();
        events.extend(workers.iter().map(|worker| {
            json!({"ph": "M", "pid": 1, "tid": worker, "name": "thread_name", "args": {"name": format!("worker {worker}")}})
        }));
        for (number, packet) in self.packets.iter().enumerate() {
            for (at, event) in packet.events.iter().enumerate() {
                let end = packet.events.get(at + 1).map_or(event.cycles, |next| next.cycles);
                events.push(json!({
                    "ph": "X", "pid": 1, "tid": event.worker, "name": event.element, "cat": event.class,
                    "ts": us(event.cycles), "dur": us(end) - us(event.cycles),
                    "args": {"packet": number + 1, "what": event.says(), "burst": event.burst, "bytes": packet.bytes},
                }));
                // An arrow to the next step.
                let phase = if at == 0 {
                    "s"
                } else if at + 1 == packet.events.len() {
                    "f"
                } else {
                    "t"
                };
                events.push(json!({
                    "ph": phase, "id": number + 1, "pid": 1, "tid": event.worker, "name": "packet", "cat": "packet",
                    "ts": us(event.cycles), "bp": "e",
                }));
            }
        }
        json!({"traceEvents": events, "displayTimeUnit": "ns"})
    }
}

/// Has the router record, and waits for it.
fn recorded(args: &TraceArgs) -> Result<Value, ExitCode> {
    let mut client = connect(&args.socket).map_err(|e| refused(&args.socket, &e))?;
    let failed = |e: std::io::Error| refused(&args.socket, &e);
    let at = args.at.as_ref().map_or_else(String::new, |name| format!(" at {name}"));
    // It ends by itself later, if this process cannot end it.
    let order = format!("{} every {}{at} for {}", args.count, args.every, args.seconds + GRACE);
    client.write("trace", order.as_bytes()).map_err(failed)?;
    let began = Instant::now();
    loop {
        std::thread::sleep(LOOK);
        let text = client.read("trace.json", "").map_err(failed)?;
        let mut report: Value = serde_json::from_str(&text).map_err(unreadable)?;
        let traced = Traced::deserialize(&report).map_err(unreadable)?;
        if !traced.tracing {
            error(
                "the router has ended the trace: its configuration was replaced, or somebody else ended it",
            );
            return Err(ExitCode::FAILURE);
        }
        let ended = traced.packets.iter().filter(|packet| packet.ended).count();
        if ended >= args.count as usize || began.elapsed().as_secs_f64() >= args.seconds {
            client.write("trace", b"0").map_err(failed)?;
            // Each worker has recorded as many.
            if let Some(packets) = report["packets"].as_array_mut() {
                packets.truncate(args.count as usize);
            }
            return Ok(report);
        }
    }
}

fn unreadable(e: serde_json::Error) -> ExitCode {
    error(&format!("trace.json: the router's answer cannot be read: {e}"));
    ExitCode::FAILURE
}

/// `valiant trace`.
pub(crate) fn trace(args: &TraceArgs) -> ExitCode {
    let read =
        recorded(args).and_then(|report| Ok((Traced::deserialize(&report).map_err(unreadable)?, report)));
    let (traced, report) = match read {
        Ok(read) => read,
        Err(status) => return status,
    };
    if traced.packets.is_empty() {
        let place = args.at.as_ref().map_or_else(|| "came in".to_owned(), |name| format!("came to {name}"));
        error(&format!("no packet {place} within {} s", args.seconds));
        return ExitCode::FAILURE;
    }
    if let Some(path) = &args.timeline
        && let Err(e) = std::fs::write(path, traced.timeline().to_string())
    {
        error(&format!("{}: {e}", path.display()));
        return ExitCode::FAILURE;
    }
    if args.socket.json {
        print(&format!("{report}\n"));
    } else {
        print(&traced.text());
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced() -> Traced {
        let event = |cycles: u64, worker: u64, element: &str, what: &str| json!({"cycles": cycles, "worker": worker, "element": element, "class": "C", "burst": 4, "what": what, "input": 1, "by": "u"});
        let packet = json!({
            "bytes": 60, "ended": true,
            "head": "0200000000020200000000010800450000200000000040110000c6120001c613000103e80009000c0000",
            "events": [event(3000, 0, "in", "begins"), event(6000, 0, "q", "enters"), event(9000, 1, "q", "is pulled")],
        });
        serde_json::from_value(
            json!({"cycles_per_second": 3e9, "tracing": true, "lost_events": 0, "packets": [packet]}),
        )
        .unwrap()
    }

    #[test]
    fn steps_have_times_and_workers() {
        let text = traced().text();
        assert!(
            text.contains("packet 1: 60 bytes, UDP 198.18.0.1:1000 > 198.19.0.1:9, in a burst of 4"),
            "{text}"
        );
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" ns  ")).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[1].trim_start().starts_with("1000 ns") && lines[1].contains("q (C) enters [1]"),
            "{text}"
        );
        assert!(lines[2].contains("is pulled by u") && lines[2].ends_with("another worker"), "{text}");
    }

    #[test]
    fn the_timeline_has_a_piece_for_each_step_on_its_worker() {
        let json = traced().timeline();
        let all = json["traceEvents"].as_array().unwrap();
        let pieces: Vec<&Value> = all.iter().filter(|e| e["ph"] == "X").collect();
        assert_eq!(pieces.len(), 3);
        assert_eq!((pieces[0]["ts"].as_f64(), pieces[0]["dur"].as_f64()), (Some(0.0), Some(1.0)));
        assert_eq!((&pieces[2]["tid"], &pieces[2]["name"]), (&json!(1), &json!("q")));
        assert_eq!(all.iter().filter(|e| e["name"] == "thread_name").count(), 2);
    }

    #[test]
    fn heads_of_any_kind_are_summed_up() {
        assert_eq!(summary(""), "");
        assert_eq!(summary("zz"), "");
        assert_eq!(summary(&"ff".repeat(64)), "type 0xffff");
        assert_eq!(summary("4500001c000000004001000001020304050607080000"), "ICMP 1.2.3.4 > 5.6.7.8");
        assert!(summary(&format!("{}0800{}", "00".repeat(12), "4f".repeat(20))).starts_with("protocol 79"));
    }
}
