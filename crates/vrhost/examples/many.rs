//! Many virtual routers on one thread: what a packet costs, and how long adding and removing one takes.
//!
//!     many [--program FILE] [--seconds S] [--whole] COUNT...
//!
//! For each COUNT, so many routers with the program (the default forwards) share two ports by VLAN; frames of
//! 60 bytes for all of them come from a file that DPDK's net_pcap repeats. With `--whole` and a count of one
//! there are no tags. Prints cycles a packet from the routers' part (its charge) and the rate.

use demux::Tag;
use dpdk::{EalOptions, PortSpec, WorkerThread};
use lang::{LoadOptions, Source};
use runtime::{Options, WorkerId};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vrhost::{Connection, Host, InterfaceSetup, PortSetup, RouterSetup};

const FORWARD: &str = "FromDevice($DEV0) -> Queue(512) -> ToDevice($DEV1); FromDevice($DEV1) -> Discard;";
/// Frames in the file.
const FRAMES: usize = 8192;

fn enter(_: WorkerId) -> Box<dyn Any> {
    dpdk::set_affinity(&[1]).expect("processor 1");
    Box::new(WorkerThread::register(None).expect("a thread of DPDK"))
}

fn write_frames(path: &Path, routers: usize, tagged: bool) -> std::io::Result<()> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for n in 0..FRAMES {
        let mut frame = vec![2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 99];
        if tagged {
            frame.extend([0x81, 0]);
            // In no order that a cache could guess.
            frame.extend((2 + n * 7919 % routers * 2).to_be_bytes()[6..].iter());
        }
        frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 168, 0, 1]);
        frame.extend([10, (n >> 8) as u8, n as u8, 1]);
        frame.resize(60, 0);
        file.extend([0; 8]);
        file.extend(60u32.to_le_bytes());
        file.extend(60u32.to_le_bytes());
        file.extend(frame);
    }
    std::fs::write(path, file)
}

fn main() {
    let mut counts = Vec::new();
    let (mut program, mut seconds, mut whole) = (FORWARD.to_owned(), 1.0, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--program" => {
                let file = arguments.next().expect("--program FILE");
                program = std::fs::read_to_string(file).expect("the program");
            }
            "--seconds" => seconds = arguments.next().and_then(|s| s.parse().ok()).expect("--seconds S"),
            "--whole" => whole = true,
            count => counts.push(count.parse::<usize>().expect("a number of routers, up to 2000")),
        }
    }
    let directory = std::env::temp_dir();
    let registry = Arc::new(elements::registry());
    for (at, &count) in counts.iter().enumerate() {
        let file = directory.join(format!("valiant-many-{}-{at}.pcap", std::process::id()));
        write_frames(&file, count, !whole).expect("a file of frames");
        let wan = format!("net_pcap{at},rx_pcap={},infinite_rx=1", file.display());
        let ports = [("wan", wan), ("lan", format!("net_null{at}"))]
            .map(|(name, spec)| PortSetup::new(name, PortSpec::parse(&spec).expect("a port")));
        let options = Options { batch_size: 64, optimize: true, ..Options::default() };
        let mut host = Host::start(&ports, options, &EalOptions::default(), Some(enter), false)
            .expect("the host starts");
        let _ = std::fs::remove_file(&file);
        let setup = |n: usize| RouterSetup {
            name: format!("r{n}"),
            sources: vec![Source::new("program", program.clone())],
            load: LoadOptions::default(),
            registry: Arc::clone(&registry),
            share: 1,
            queue: None,
            limits: runtime::Limits::default(),
            access: None,
            interfaces: (0..2u16)
                .map(|port| InterfaceSetup {
                    name: format!("DEV{port}"),
                    below: match whole {
                        true => Connection::WholePort(port.into()),
                        false => Connection::Port(port.into(), Tag::Vlan(2 + 2 * n as u16 + port)),
                    },
                    mac: [2, 0, 0, 0, 1, port as u8],
                    default: false,
                    rate: None,
                })
                .collect(),
        };
        let mut longest = Duration::ZERO;
        let began = Instant::now();
        for n in 0..count {
            let began = Instant::now();
            host.add(setup(n)).unwrap_or_else(|e| panic!("{}", e.render_plain(e.sources())));
            longest = longest.max(began.elapsed());
        }
        let all = began.elapsed();
        let totals = |host: &Host| {
            let status = host.status();
            let cycles: u64 = status.iter().map(|r| r.cycles).sum();
            let packets: u64 = status.iter().map(|r| r.interfaces[1].stats.tx_packets).sum();
            let lost: u64 = status.iter().map(|r| r.interfaces[0].stats.rx_missed).sum();
            (cycles, packets, lost)
        };
        let settle = Instant::now();
        while settle.elapsed() < Duration::from_millis(300) {
            std::thread::sleep(host.turn().min(Duration::from_millis(5)));
        }
        let (before, tsc, began) = (totals(&host), dpdk::cycles(), Instant::now());
        while began.elapsed().as_secs_f64() < seconds {
            std::thread::sleep(host.turn().min(Duration::from_millis(5)));
        }
        let (after, tsc) = (totals(&host), dpdk::cycles() - tsc);
        let packets = (after.1 - before.1) as f64;
        println!(
            "{count} routers: {:.0} cycles a packet, of which the routers {:.0}; {:.2} Mpps, lost {}; added in {:.1} ms, longest {:.1} ms",
            tsc as f64 / packets,
            (after.0 - before.0) as f64 / packets,
            packets / began.elapsed().as_secs_f64() / 1e6,
            after.2 - before.2,
            all.as_secs_f64() * 1e3,
            longest.as_secs_f64() * 1e3,
        );
        let began = Instant::now();
        for n in 0..count {
            host.remove(&format!("r{n}"));
        }
        println!("  removed in {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    }
}
