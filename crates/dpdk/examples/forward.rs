//! Forwards between ports, each to the next: `forward SECONDS PORT...`; prints packets per second.

use std::time::{Duration, Instant};

use dpdk::{Batch, EalOptions, PortConfig, PortSpec, PortTable, WorkerThread};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().ok_or("forward SECONDS PORT...")?.parse()?;
    let specs: Vec<PortSpec> = arguments.map(|port| PortSpec::parse(&port)).collect::<Result<_, _>>()?;
    let mut table = PortTable::new();
    for spec in &specs {
        table.request(
            spec,
            &PortConfig { rx_queues: 1, tx_queues: 1, promisc: true, ..PortConfig::default() },
        );
    }
    if let Err(errors) = table.start_all(&EalOptions::default()) {
        errors.iter().for_each(|error| eprintln!("{error}"));
        std::process::exit(1);
    }
    if let Some(eal) = dpdk::Eal::get() {
        eprintln!("started in {:?}", eal.startup());
        eal.notes().iter().for_each(|note| eprintln!("{note}"));
    }
    let ports: Vec<_> = specs.iter().filter_map(|spec| table.get(spec).cloned()).collect();
    for port in &ports {
        eprintln!("{}", port.choice());
        port.notes().iter().for_each(|note| eprintln!("  {note}"));
    }
    let _worker = WorkerThread::register(None)?;
    let mut receive = ports.iter().map(|port| port.rx_queue(0)).collect::<Result<Vec<_>, _>>()?;
    let mut transmit = ports.iter().map(|port| port.tx_queue(0)).collect::<Result<Vec<_>, _>>()?;
    let mut batch = Batch::with_capacity(64);
    let begin = Instant::now();
    let (mut forwarded, mut dropped) = (0u64, 0u64);
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..256 {
            for (i, queue) in receive.iter_mut().enumerate() {
                queue.rx_burst(32, &mut batch);
                let next = (i + 1) % transmit.len();
                forwarded += transmit[next].tx_burst(&mut batch) as u64;
                dropped += batch.len() as u64;
                batch.clear();
            }
        }
    }
    let rate = forwarded as f64 / begin.elapsed().as_secs_f64();
    println!("{rate:.0} pps, {dropped} dropped");
    Ok(())
}
