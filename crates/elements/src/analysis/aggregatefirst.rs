//! # AggregateFirst
//! Lets the first packet of each aggregate through.
//!
//! ## Synopsis
//! `AggregateFirst([NOTIFIER])`
//!
//! ## Arguments
//! - `NOTIFIER` (*element*, keyword): an element that numbers aggregates, such as AggregateIPFlows. When an
//!   aggregate has ended there, it is forgotten here, and its number can be used again.
//!
//! ## Ports
//! One agnostic input. The first packet with each aggregate annotation leaves by output 0, agnostic; all
//! later ones by output 1, push, if it is connected.
//!
//! ## Threads
//! All workers share what they have seen, a bit for each aggregate: 4 KiB for 32,768 neighboring numbers, and
//! 512 MiB if all of them occur.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true) -> AggregateIP(ip src) -> AggregateFirst -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! AggregateLast, AggregateIP, AggregateIPFlows, AggregateCounter, AggregateFilter

use super::engine::notifier::{self, Listener};
use crate::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const REPEATED: DropReason = DropReason::new("not the first of its aggregate");

/// Bits for 2^15 aggregates.
type Page = Box<[AtomicU64]>;
/// Pages that are made when they are needed.
type Plane = Box<[OnceLock<Page>]>;
const PAGE_WORDS: usize = 512;
const PAGES: usize = 1 << 11;
const PLANES: usize = 1 << 6;

/// Which aggregates have been seen: a bit for each, in pages that are made when they are needed.
#[derive(Default)]
struct Seen(OnceLock<Box<[OnceLock<Plane>]>>);

/// Makes as many empty places.
fn empty<T: Default>(n: usize) -> Box<[T]> {
    std::iter::repeat_with(T::default).take(n).collect()
}

impl Seen {
    /// The word with an aggregate's bit, if there is one or it is to be made, and the bit.
    #[inline]
    fn word(&self, aggregate: u32, make: bool) -> Option<(&AtomicU64, u64)> {
        let (word, page) = (aggregate as usize / 64, aggregate as usize >> 15);
        let (plane, page) = (page / PAGES, page % PAGES);
        let page = if make {
            let plane = self.0.get_or_init(|| empty(PLANES)).get(plane)?;
            plane.get_or_init(|| empty(PAGES)).get(page)?.get_or_init(|| empty(PAGE_WORDS))
        } else {
            self.0.get()?.get(plane)?.get()?.get(page)?.get()?
        };
        Some((page.get(word % PAGE_WORDS)?, 1 << (aggregate % 64)))
    }
    /// Whether an aggregate is new; it is not afterwards.
    #[inline]
    fn is_new(&self, aggregate: u32) -> bool {
        self.word(aggregate, true).is_some_and(|(word, bit)| {
            word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
        })
    }
}

impl Listener for Seen {
    fn ended(&self, aggregate: u32) {
        if let Some((word, bit)) = self.word(aggregate, false) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// The `AggregateFirst` element.
pub struct AggregateFirst {
    seen: Arc<Seen>,
}

impl Element for AggregateFirst {
    const CLASS: &'static str = "AggregateFirst";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::AGGREGATE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[REPEATED.when("an earlier packet had the same aggregate, and output 1 is not connected")];
    const MANUAL: &'static str = manual!("analysis/aggregatefirst");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let seen = cx.shared(Seen::default);
        let listener: Arc<dyn Listener> = Arc::<Seen>::clone(&seen);
        notifier::listen(args, cx, &listener)?;
        Ok(Self { seen })
    }
}

impl Simple for AggregateFirst {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.seen.is_new(packet.aggregate()) {
            return Some(packet);
        }
        cx.fail(packet, REPEATED);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn send(bench: &mut Bench, aggregate: u32) -> Option<usize> {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_aggregate(aggregate);
        bench.send(0, packet).first().map(|(port, _)| *port)
    }

    #[test]
    fn lets_the_first_through() {
        let mut bench = Bench::with_ports("AggregateFirst()", 1, 2);
        for aggregate in [0, 1, 63, 64, 0x7fff, 0x8000, 0x1234_5678, u32::MAX] {
            assert_eq!(send(&mut bench, aggregate), Some(0), "{aggregate}");
            assert_eq!(send(&mut bench, aggregate), Some(1), "{aggregate}");
        }
        let mut bench = Bench::with_ports("AggregateFirst()", 1, 1);
        assert_eq!((send(&mut bench, 5), send(&mut bench, 5)), (Some(0), None));
        assert_eq!(bench.drops(), [("not the first of its aggregate".to_owned(), 1)]);
    }

    #[test]
    fn an_ended_aggregate_is_forgotten() {
        let seen = Seen::default();
        assert!(seen.is_new(70_000) && !seen.is_new(70_000));
        seen.ended(70_000);
        seen.ended(5);
        assert!(seen.is_new(70_000) && seen.is_new(5) && !seen.is_new(5));
    }

    #[test]
    fn the_notifier_must_be_one() {
        let mut bench = Bench::with_config(
            "Idle -> af :: AggregateIPFlows -> Discard; e :: AggregateFirst(NOTIFIER af);",
            1,
            2,
        );
        assert_eq!(send(&mut bench, 1), Some(0));
        assert!(Bench::error("AggregateFirst(NOTIFIER e)").contains("is not an AggregateNotifier"));
    }
}
