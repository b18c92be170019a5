//! # SetCycleCount
//! Notes the processor's cycle counter in each packet.
//!
//! With CycleCountAccum, this shows how many cycles packets take from one place to another, the time that
//! they wait in queues included. Packets of one batch have the same count.
//!
//! ## Synopsis
//! `SetCycleCount()`
//!
//! ## Ports
//! One input, one output; agnostic. The count is in the annotation of 8 bytes at offset 40.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1000, STOP true) -> SetCycleCount -> Counter -> c :: CycleCountAccum -> Discard;
//! DriverManager(wait, print "$(div $(c.cycles) $(c.count)) cycles");
//! ```
//!
//! ## See also
//! CycleCountAccum, RoundTripCycleCount

use crate::prelude::*;
use dpdk::offset;

/// The `SetCycleCount` element.
pub struct SetCycleCount;

impl Element for SetCycleCount {
    const CLASS: &'static str = "SetCycleCount";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::user(offset::PERFCTR, 8);
    const MANUAL: &'static str = manual!("analysis/setcyclecount");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

/// Notes the counter in packets.
fn note(packets: &mut [Packet]) {
    let now = dpdk::cycles().to_ne_bytes();
    for packet in packets {
        packet.store_user(offset::PERFCTR, now);
    }
}

impl Vector for SetCycleCount {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        note(&mut batch);
        cx.output_batch(0, batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.pull(0, max, out);
        note(out.get_mut(before..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn counts_go_up() {
        let mut bench = Bench::new("SetCycleCount()");
        let mut count = || {
            let out = bench.send(0, Packet::from_bytes(b"x").unwrap());
            u64::from_ne_bytes(out[0].1.load_user(offset::PERFCTR).unwrap())
        };
        let first = count();
        assert!(first > 0 && count() > first);
    }
}
