//! What happens when a pool has no buffers left. The test has a process of its own, since other tests need
//! buffers.

#[path = "../../../tests/skip.rs"]
mod skip;

use dpdk::{Batch, Eal, EalOptions, Mempool, Packet, PortConfig, PortSpec, open, set_thread_pool};
use locks::IgnorePoison;
use skip::skip;
use std::sync::{Mutex, MutexGuard};

/// Only one test at a time uses the pool.
static POOL: Mutex<()> = Mutex::new(());

/// Starts the environment, or prints why the test is skipped.
fn alone() -> Option<MutexGuard<'static, ()>> {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip("it needs root");
        return None;
    }
    let guard = POOL.lock().ignore_poison();
    Eal::init(&EalOptions::default()).expect("DPDK starts");
    Some(guard)
}

/// Takes `n` buffers, or all that the pool has.
fn take(pool: Mempool, n: usize) -> Batch {
    let mut all = Batch::new();
    set_thread_pool(Some(pool));
    while all.len() < n && all.push_empty(1) == 1 {}
    set_thread_pool(None);
    all
}

fn heap(n: u8) -> Packet {
    let packet = Packet::from_bytes(&[n; 60]).unwrap();
    assert!(packet.is_heap());
    packet
}

/// A buffer of the pool with 60 bytes.
fn pooled(from: &mut Batch, n: u8) -> Packet {
    let mut packet = from.pop().unwrap();
    assert!(packet.assign(&[n; 60]) && !packet.is_heap());
    packet
}

fn port(spec: &str) -> std::sync::Arc<dpdk::Port> {
    let needs = PortConfig { rx_queues: 1, tx_queues: 1, ..PortConfig::default() };
    open(&PortSpec::parse(spec).unwrap(), &needs).unwrap()
}

#[test]
fn a_packet_of_the_heap_does_not_stop_a_queue_that_has_no_buffer_for_it() {
    let Some(_alone) = alone() else { return };
    let port = port("net_null0");
    let mut tx = port.tx_queue(0).unwrap();
    let mut all = take(port.pool(), usize::MAX);
    assert_eq!(port.pool().available(), 0);

    // The driver frees at once what it is given: there is a buffer for the fourth packet, but there was none
    // for the first two.
    let mut batch = Batch::from(vec![heap(1), heap(2), pooled(&mut all, 3), heap(4)]);
    assert_eq!(tx.tx_burst(&mut batch), 2);
    assert!(batch.is_empty());
    assert_eq!((tx.copied(), tx.starved(), tx.lost()), (1, 2, 0));
    assert_eq!(port.pool().available(), 1);

    // Only heap packets, and no buffer of the pool.
    let mut rest = take(port.pool(), usize::MAX);
    all.append(&mut rest);
    let mut batch: Batch = (0..100).map(heap).collect();
    assert_eq!((tx.tx_burst(&mut batch), batch.len(), tx.starved()), (0, 0, 102));

    // The buffers are free again.
    drop(all);
    let mut batch: Batch = (0..100).map(heap).collect();
    assert_eq!((tx.tx_burst(&mut batch), batch.len(), tx.starved()), (100, 0, 102));
}

#[test]
fn a_full_queue_keeps_what_waits_and_one_without_buffers_gets_those_that_come_back() {
    let Some(_alone) = alone() else { return };
    let port = port("net_ring0");
    let (mut tx, mut rx) = (port.tx_queue(0).unwrap(), port.rx_queue(0).unwrap());
    let mut all = take(port.pool(), usize::MAX);

    // The packets with buffers go into the ring as far as it has space; the heap packet waits behind them for
    // a buffer.
    let mut batch: Batch = (0..1500).map(|_| pooled(&mut all, 7)).collect();
    batch.push(heap(8));
    let sent = tx.tx_burst(&mut batch);
    assert!((1..1500).contains(&sent) && batch.len() == 1501 - sent, "{sent}");
    assert_eq!((tx.tx_burst(&mut batch), batch.len(), tx.starved()), (0, 1501 - sent, 0));

    // A reader empties the ring: the waiting packets are sent, the last one in a buffer that was freed.
    let mut got = Batch::new();
    while rx.rx_burst(256, &mut got) > 0 {}
    assert_eq!(got.len(), sent);
    drop(got.pop());
    assert_eq!((tx.tx_burst(&mut batch), batch.len()), (1501 - sent, 0));
    assert_eq!((tx.copied(), tx.starved()), (1, 0));
    drop((got, all));
    let mut got = Batch::new();
    while rx.rx_burst(256, &mut got) > 0 {}
    assert_eq!(got.last().unwrap().data(), [8; 60]);
}
