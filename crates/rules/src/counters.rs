//! What rules have counted: a counter for each rule that counts, which many threads add to.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The counters of the first chunk; each further chunk has as many as all before it together.
const FIRST: u32 = 1024;
const CHUNKS: usize = (crate::verdict::COUNTERS / FIRST).ilog2() as usize + 1;

/// Counters by number. Memory comes when the first of a chunk is used.
#[derive(Debug)]
pub(crate) struct Counters([OnceLock<Box<[AtomicU64]>>; CHUNKS]);

impl Default for Counters {
    fn default() -> Self {
        Self([const { OnceLock::new() }; CHUNKS])
    }
}

/// The chunk of a number, how many are in it, and the number's place there.
fn place(number: u32) -> (usize, u32, u32) {
    match number / FIRST {
        0 => (0, FIRST, number),
        times => {
            let start = FIRST << times.ilog2();
            (times.ilog2() as usize + 1, start, number - start)
        }
    }
}

impl Counters {
    /// One that begins at 0.
    pub(crate) fn begin(&self, number: u32) {
        let (chunk, many, at) = place(number);
        if let Some(chunk) = self.0.get(chunk) {
            let chunk = chunk.get_or_init(|| (0..many).map(|_| AtomicU64::new(0)).collect());
            chunk[at as usize].store(0, Relaxed);
        }
    }

    fn get(&self, number: u32) -> Option<&AtomicU64> {
        let (chunk, _, at) = place(number);
        self.0.get(chunk)?.get()?.get(at as usize)
    }

    /// Adds to one that has begun.
    pub(crate) fn add(&self, number: u32, packets: u64) {
        if let Some(counter) = self.get(number) {
            counter.fetch_add(packets, Relaxed);
        }
    }

    /// What it has counted.
    pub(crate) fn read(&self, number: u32) -> u64 {
        self.get(number).map_or(0, |counter| counter.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_counter_of_its_own() {
        let counters = Counters::default();
        let numbers = [0, 1, FIRST - 1, FIRST, 2 * FIRST - 1, 2 * FIRST, 5 * FIRST + 7];
        numbers.iter().for_each(|number| counters.begin(*number));
        numbers.iter().for_each(|number| counters.add(*number, u64::from(*number) + 1));
        numbers.iter().for_each(|number| assert_eq!(counters.read(*number), u64::from(*number) + 1));
        counters.begin(FIRST);
        assert_eq!((counters.read(FIRST), counters.read(FIRST - 1)), (0, u64::from(FIRST)));
        counters.add(64 * FIRST, 1);
        assert_eq!(counters.read(64 * FIRST), 0, "it has not begun");
        assert_eq!(place(crate::verdict::COUNTERS - 1).0, CHUNKS - 1);
    }
}
