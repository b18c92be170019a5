//! The packets that came to an element, as they came.

use crate::recording::Recording;
use dpdk::KeptPacket;
use locks::IgnorePoison;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The most packets that are kept of those that come to an element.
pub(crate) const MOST_PACKETS: usize = 8192;

/// Batches of packets in the order in which an element got them, each with its input.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) batches: Vec<(usize, Vec<KeptPacket>)>,
    packets: usize,
}

impl Stream {
    /// Adds a batch, unless there are enough.
    pub(crate) fn add(&mut self, input: usize, packets: impl ExactSizeIterator<Item = KeptPacket>) {
        if self.packets < MOST_PACKETS && packets.len() > 0 {
            self.packets += packets.len();
            self.batches.push((input, packets.collect()));
        }
    }
    /// A number that tells packets from others, whatever their order and number.
    pub(crate) fn digest(&self) -> u64 {
        let hash = |what: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            what(&mut hasher);
            hasher.finish()
        };
        let packets =
            self.batches.iter().flat_map(|(input, packets)| packets.iter().map(move |p| (*input, p)));
        let all: BTreeSet<u64> =
            packets.map(|(input, packet)| hash(&|h| (input, packet.data()).hash(h))).collect();
        hash(&|h| all.hash(h))
    }
    /// Bytes of a packet on average.
    pub(crate) fn bytes(&self) -> f64 {
        let all: usize = self.batches.iter().flat_map(|(_, packets)| packets).map(KeptPacket::data_len).sum();
        if self.packets == 0 { 0.0 } else { all as f64 / self.packets as f64 }
    }
}

/// What elements that record and play packets share with the rest of the program.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) stream: Arc<Mutex<Stream>>,
    /// Of those that are recorded.
    pub(crate) recording: Option<Arc<Recording>>,
}

/// Where those elements find it: a configuration is text, which says the number.
static SHARED: Mutex<BTreeMap<u64, Shared>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A stream that elements find by its number as long as this lives.
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) stream: Arc<Mutex<Stream>>,
}

impl Numbered {
    /// A stream that is recorded, or, without a recording, played.
    pub(crate) fn new(stream: Arc<Mutex<Stream>>, recording: Option<Arc<Recording>>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        SHARED.lock().ignore_poison().insert(number, Shared { stream: Arc::clone(&stream), recording });
        Self { number, stream }
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        SHARED.lock().ignore_poison().remove(&self.number);
    }
}

/// What has this number.
pub(crate) fn find(number: u64) -> Option<Shared> {
    SHARED.lock().ignore_poison().get(&number).cloned()
}
