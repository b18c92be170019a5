//! Every interleaving of small programs on the rings and on grace periods, explored by loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p valiant-tables --test loom --release`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tables::epoch::Epochs;
use tables::ring::{Ring, spsc};

#[test]
fn spsc_keeps_order_and_drops_the_rest() {
    loom::model(|| {
        let (mut p, mut c) = spsc::<Box<usize>>(2);
        let producer = thread::spawn(move || {
            let mut items: Vec<_> = (0..2).map(Box::new).collect();
            let mut sent = p.push_many(&mut items);
            assert_eq!(sent, 2);
            sent += p.push(Box::new(2)).is_ok() as usize;
            sent
        });
        let mut out = Vec::new();
        c.pop_many(2, &mut out);
        out.extend(c.pop());
        let sent = producer.join().unwrap();
        assert!(out.len() <= sent);
        assert!(out.iter().enumerate().all(|(i, item)| **item == i));
        assert_eq!(c.len(), sent - out.len());
        // loom's cells detect if the rest is dropped twice or while in use.
    });
}

#[test]
fn spsc_of_one_slot() {
    loom::model(|| {
        let (mut p, mut c) = spsc::<usize>(1);
        let producer = thread::spawn(move || (0..3).filter(|&i| p.push(i).is_ok()).collect::<Vec<_>>());
        let mut got: Vec<_> = (0..2).filter_map(|_| c.pop()).collect();
        let sent = producer.join().unwrap();
        got.extend(c.pop());
        assert_eq!(got, sent[..got.len()]);
        assert_eq!(got.len(), sent.len());
    });
}

#[test]
fn mpmc_two_producers() {
    loom::model(|| {
        let ring = Arc::new(Ring::<Box<usize>>::new(2));
        let threads: Vec<_> = (0..2)
            .map(|t| {
                let ring = ring.clone();
                thread::spawn(move || ring.push(Box::new(t)).is_ok() as usize)
            })
            .collect();
        let mut got = Vec::new();
        ring.pop_many(2, &mut got);
        let sent: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(sent, 2); // two slots: nobody is refused
        while let Some(item) = ring.pop() {
            got.push(item);
        }
        got.sort();
        assert_eq!(got, [Box::new(0), Box::new(1)]);
    });
}

#[test]
fn mpmc_two_consumers() {
    loom::model(|| {
        let ring = Arc::new(Ring::<Box<usize>>::new(2));
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let ring = ring.clone();
                thread::spawn(move || ring.pop().map(|b| *b))
            })
            .collect();
        let mut items = vec![Box::new(1), Box::new(2)];
        assert_eq!(ring.push_many(&mut items), 2);
        let mut got: Vec<_> = consumers.into_iter().filter_map(|c| c.join().unwrap()).collect();
        while let Some(item) = ring.pop() {
            got.push(*item);
        }
        got.sort();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn mpmc_one_slot_is_used_again() {
    loom::model(|| {
        let ring = Arc::new(Ring::<usize>::new(1));
        let other = ring.clone();
        let producer = thread::spawn(move || (0..2).filter(|&i| other.push(i).is_ok()).collect::<Vec<_>>());
        let mut got: Vec<_> = ring.pop().into_iter().collect();
        let sent = producer.join().unwrap();
        got.extend(ring.pop());
        assert_eq!(got, sent[..got.len()]);
    });
}

/// The table's use of grace periods in a small model: a link to one of two cells. The writer unlinks the
/// first cell and gives it a new meaning only after the grace period.
#[test]
fn grace_period() {
    loom::model(|| {
        let epochs = Arc::new(Epochs::new());
        let link = Arc::new(AtomicUsize::new(0));
        let cells = Arc::new([AtomicUsize::new(10), AtomicUsize::new(11)]);
        let reader = epochs.register();
        let (e, l, c) = (epochs.clone(), link.clone(), cells.clone());
        let thread = thread::spawn(move || {
            let entered = reader.enter(&e);
            let at = l.load(loom::sync::atomic::Ordering::Acquire);
            let value = c[at].load(Relaxed);
            assert_eq!(value, 10 + at, "a cell was used again under a reader");
            drop(entered);
        });
        link.store(1, loom::sync::atomic::Ordering::Release);
        let stamp = epochs.stamp();
        if stamp < epochs.oldest() {
            cells[0].store(99, Relaxed);
        }
        thread.join().unwrap();
    });
}
