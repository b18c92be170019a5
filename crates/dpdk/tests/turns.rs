//! Which buffers a worker of many ports uses, in a process of its own: the pool is the first one's.

#[path = "../../../tests/skip.rs"]
mod skip;

use std::collections::BTreeSet;

use dpdk::{Batch, EalOptions, Mempool, PortConfig, PortSpec, PortTable, WorkerThread};
use skip::skip;

const PORTS: usize = 8;
const BURST: usize = 64;

/// A turn takes a burst from each port before it gives any buffer back. The buffers that come back are those
/// that are taken next: they are still in the processor's caches, as the rest of the pool is not.
#[test]
fn turns_over_many_ports_use_the_same_buffers() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return skip("it needs root");
    }
    let mut table = PortTable::new();
    let needs = PortConfig { rx_queues: 1, tx_queues: 1, burst: BURST, ..PortConfig::default() };
    for number in 0..PORTS {
        table.request(&PortSpec::parse(&format!("net_null{number}")).unwrap(), &needs);
    }
    table.start_all(&EalOptions::default()).unwrap();
    let _worker = WorkerThread::register(None).unwrap();
    let mut queues: Vec<_> = table.ports().iter().map(|port| port.rx_queue(0).unwrap()).collect();
    let mut used = BTreeSet::new();
    for _ in 0..100 {
        let mut batch = Batch::with_capacity(PORTS * BURST);
        for queue in &mut queues {
            assert_eq!(queue.rx_burst(BURST, &mut batch), BURST);
        }
        used.extend(batch.iter().map(|packet| packet.data().as_ptr() as usize));
    }
    let all = Mempool::buffers();
    assert!(used.len() <= 2 * PORTS * BURST, "{} of {all} buffers were used", used.len());
}
