//! Rings with names, between a `ToDPDKRing` and a `FromDPDKRing` of one configuration.
//!
//! In FastClick these are rings of DPDK, which a secondary process can look up. Valiant's memory is its own
//! (`--in-memory`), so that no other process finds anything in it; both ends are in one process, and the ring
//! is a queue that each end locks once for each batch.

use crate::prelude::*;
use lang::args::{Raw, split_args};
use locks::IgnorePoison;
use runtime::WorkerId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The classes of the ends.
pub(in crate::devices) const CLASSES: [&str; 2] = ["ToDPDKRing", "FromDPDKRing"];

/// Nobody takes packets yet.
const NOBODY: usize = usize::MAX;

/// A ring.
pub(in crate::devices) struct Ring {
    packets: Mutex<VecDeque<Packet>>,
    capacity: usize,
    len: AtomicUsize,
    /// The worker that takes packets.
    taker: AtomicUsize,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        let packets = Mutex::new(VecDeque::with_capacity(capacity));
        Self { packets, capacity, len: AtomicUsize::new(0), taker: AtomicUsize::new(NOBODY) }
    }

    /// Puts in packets from the front of `batch`, as far as there is room; returns how many.
    pub(in crate::devices) fn put(&self, batch: &mut Batch) -> usize {
        let mut packets = self.packets.lock().ignore_poison();
        let n = batch.len().min(self.capacity.saturating_sub(packets.len()));
        packets.extend(batch.drain(..n));
        self.len.store(packets.len(), Ordering::Release);
        n
    }
    /// Takes up to `most` packets; returns how many.
    pub(in crate::devices) fn take(&self, most: usize, batch: &mut Batch) -> usize {
        if self.len() == 0 {
            return 0;
        }
        let mut packets = self.packets.lock().ignore_poison();
        let n = packets.len().min(most);
        batch.extend(packets.drain(..n));
        self.len.store(packets.len(), Ordering::Release);
        n
    }
    pub(in crate::devices) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }
    /// The calling worker takes packets from now on.
    pub(in crate::devices) fn taken_by(&self, worker: WorkerId) {
        self.taker.store(worker.0, Ordering::Release);
    }
    pub(in crate::devices) fn taker(&self) -> Option<WorkerId> {
        Some(self.taker.load(Ordering::Acquire)).filter(|worker| *worker != NOBODY).map(WorkerId)
    }
}

/// A ring that is made, or found, when all elements are configured.
pub(in crate::devices) type RingSlot = Arc<OnceLock<Arc<Ring>>>;

/// The name of the ring of an end, and whether that end makes it: whoever makes it names it after itself and
/// the other, whoever looks it up the other way round.
fn name(from: &str, to: &str, looks_up: bool) -> (String, bool) {
    let (first, second) = if looks_up { (to, from) } else { (from, to) };
    (format!("{first}_2_{second}"), !looks_up)
}

/// The ring that the end with this configuration string names, whether it makes it, and its `NDESC`.
fn named_by(config: &str) -> Option<(String, bool, u32)> {
    let (mut from, mut to, mut looks_up, mut makes, mut capacity) = (None, None, false, false, 0);
    for (at, arg) in split_args(config).iter().enumerate() {
        let text = arg.text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let value = || Some(lang::unquote(rest.trim()));
        let on = || lang::args::parse::<bool>(rest.trim()).unwrap_or(false);
        match word {
            "FROM_PROC" => from = value(),
            "TO_PROC" => to = value(),
            "FORCE_LOOKUP" => looks_up = on(),
            "FORCE_CREATE" => makes = on(),
            "NDESC" => capacity = lang::args::parse(rest.trim()).unwrap_or(0),
            _ if rest.is_empty() && at == 1 => from = Some(lang::unquote(text)),
            _ if rest.is_empty() && at == 2 => to = Some(lang::unquote(text)),
            _ => {}
        }
    }
    let (name, makes) = name(&from?, &to?, looks_up && !makes);
    Some((name, makes, capacity))
}

/// The arguments that both ends have.
pub(in crate::devices) struct Ends {
    pub(in crate::devices) ring: RingSlot,
    pub(in crate::devices) burst: usize,
}

/// Reads them, and has the ring made.
pub(in crate::devices) fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Ends, ArgError> {
    args.p::<Raw>("MEM_POOL")?;
    let from = args.p::<String>("FROM_PROC")?.unwrap_or_default();
    let to = args.p::<String>("TO_PROC")?.unwrap_or_default();
    let burst = args.k_or::<u16>("BURST", 0)?;
    let capacity = args.k_or::<u32>("NDESC", 0)?;
    args.k::<i32>("NUMA_ZONE")?;
    for flag in ["SP_ENQ", "SC_DEQ"] {
        args.k::<bool>(flag)?;
    }
    let looks_up = args.k_or("FORCE_LOOKUP", false)?;
    let makes = args.k_or("FORCE_CREATE", false)?;
    if from.is_empty() || to.is_empty() {
        return Err(args.error("Enter FROM_PROC and TO_PROC names"));
    }
    const LARGEST: u32 = 1 << 20;
    if capacity > LARGEST {
        return Err(args.error(format!("NDESC must be at most {LARGEST}")));
    }
    let (name, makes) = name(&from, &to, looks_up && !makes);
    let ends = cx.config().elements.iter().filter(|e| CLASSES.contains(&e.class.as_str()));
    let maker = |config: &str| named_by(config).filter(|(of, makes, _)| *makes && *of == name);
    let makers = ends.filter_map(|e| maker(&e.config).map(|(.., capacity)| (e.name.as_str(), capacity)));
    let makers: Vec<(&str, u32)> = makers.collect();
    let capacity = match makers[..] {
        [] => {
            let help = "rings between processes are not possible, because no other process sees this one's memory: \
                        two routers are connected by memif (net_memif)";
            return Err(args.error(format!("no element makes the ring {name}; {help}")));
        }
        [(first, _), ..] if makes && first != cx.name() => {
            return Err(args.error(format!("{first} makes the ring {name} too; use FORCE_LOOKUP at one end")));
        }
        // Whoever makes it says how long it is.
        [(_, 0), ..] => 1024,
        [(_, capacity), ..] => capacity.min(LARGEST) as usize,
    };
    let ring = RingSlot::default();
    let (place, hub) = (Arc::clone(&ring), Arc::clone(cx.hub()));
    if makes {
        cx.holds_together(capacity);
    }
    // Both ends open it under one key.
    cx.before_start(move || {
        // Set once, here.
        let _ = place.set(hub.resource(&format!("ring {name}"), || Ok(Ring::new(capacity)))?);
        Ok(())
    });
    let burst = if burst == 0 { cx.batch_size().max(32) } else { usize::from(burst) };
    Ok(Ends { ring, burst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_named_after_both_ends() {
        let made = |text: &str| Some((text.to_owned(), true, 0));
        assert_eq!(named_by("MEM_POOL 1, FROM_PROC a, TO_PROC b"), made("a_2_b"));
        assert_eq!(named_by("1, a, \"b\", BURST 3"), made("a_2_b"));
        assert_eq!(named_by("1, b, a, FORCE_LOOKUP true"), Some(("a_2_b".to_owned(), false, 0)));
        assert_eq!(named_by("1, a, b, NDESC 7"), Some(("a_2_b".to_owned(), true, 7)));
        assert_eq!(named_by("1, b, a, FORCE_LOOKUP true, FORCE_CREATE true"), made("b_2_a"));
        assert_eq!(named_by("1, FROM_PROC a"), None);
    }

    #[test]
    fn a_ring_keeps_order_and_takes_no_more_than_it_has_room_for() {
        let ring = Ring::new(3);
        let mut batch: Batch = (0..5).map(|n| Packet::from_bytes(&[n]).unwrap()).collect();
        assert_eq!((ring.put(&mut batch), batch.len(), ring.len()), (3, 2, 3));
        let mut out = Batch::new();
        assert_eq!((ring.take(2, &mut out), ring.put(&mut batch)), (2, 2));
        assert_eq!((ring.take(9, &mut out), ring.take(9, &mut out), ring.len()), (3, 0, 0));
        let bytes: Vec<u8> = out.iter().map(|packet| packet.data()[0]).collect();
        assert_eq!(bytes, [0, 1, 2, 3, 4]);
    }
}
