//! Code that both directions of ESP share: the element, its batches and its crypto device.

use super::database::{Database, Index, Reader};
use super::hold::Hold;
use super::lanes::Split;
use crate::prelude::*;
use dpdk::crypto::{CryptoRun, MAX_JOBS, Verdict};
use std::sync::Arc;

/// One direction: the processing of packets before and after the crypto device.
pub(in crate::ipsec) trait EspDirection: Sized + Send + 'static {
    /// See [`Element::CLASS`].
    const CLASS: &'static str;
    /// See [`Element::READS`].
    const READS: Fields;
    /// See [`Element::WRITES`].
    const WRITES: Fields;
    /// See [`Element::DROPS`].
    const DROPS: &'static [DropCase];
    /// See [`Element::MANUAL`].
    const MANUAL: &'static str;
    /// The drop reason for packets whose association has been removed.
    const NO_ASSOCIATION: DropReason;
    /// What is known about a packet before the device processes it.
    type Known: Copy + Send + 'static;

    /// Reads the arguments after `SAD`.
    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError>;
    /// Continues with the state of the element that a hot swap replaces.
    fn take_state(&mut self, _old: &mut Self) {}
    /// Finds the association of each packet. Packets without one are dropped; `known` gets a value for each
    /// remaining packet.
    fn find(&self, index: &Index, known: &mut Vec<Self::Known>, batch: &mut Batch, cx: &mut Cx<'_>);
    /// The index of its association.
    fn place(known: &Self::Known) -> u32;
    /// Prepares packets of one device and adds them to a run of its queue `queue`. Packets that cannot be
    /// added are dropped.
    fn prepare<'a>(
        &mut self,
        index: &'a Index,
        known: &[Self::Known],
        run: &mut CryptoRun<'_, 'a>,
        queue: usize,
        batch: &mut Batch,
        cx: &mut Cx<'_>,
    );
    /// Takes the packets back from the device. Packets that fail a check are dropped. Without verdicts, the
    /// device has processed all of them successfully.
    fn finish(
        &mut self,
        index: &Index,
        known: &[Self::Known],
        verdicts: &[Verdict],
        batch: &mut Batch,
        cx: &mut Cx<'_>,
    );
}

/// `ESPEncap` or `ESPDecap`.
pub(in crate::ipsec) struct Esp<D: EspDirection> {
    direction: D,
    reader: Reader,
    queue: usize,
    known: Vec<D::Known>,
    verdicts: Vec<Verdict>,
    split: Split<D::Known>,
    hold: Hold,
    count: Counter,
}

impl<D: EspDirection> Element for Esp<D> {
    const CLASS: &'static str = D::CLASS;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = D::READS;
    const WRITES: Fields = D::WRITES;
    const DROPS: &'static [DropCase] = D::DROPS;
    const OPENS: Option<Opens> = Some(Opens::Crypto);
    const MANUAL: &'static str = D::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let sad: String = args.mp("SAD")?;
        let direction = D::configure(args, cx)?;
        let database: Arc<Database> = cx.shared_of(&sad, "an IPsecSAD")?;
        Ok(Self {
            direction,
            reader: Reader::new(database),
            queue: cx.worker().0,
            known: Vec::with_capacity(MAX_JOBS),
            verdicts: Vec::with_capacity(MAX_JOBS),
            split: Split::new(),
            hold: Hold::default(),
            count: Counter::default(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.write("reset_counts", |e, _, _| {
            e.count.set(0);
            Ok(())
        });
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(batch) = self.hold.due(cx) else { return false };
        self.deal_with(batch, cx);
        true
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        let batch = self.hold.take();
        self.deal_with(batch, cx);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.hold.take_state(&mut old.hold, cx);
        self.direction.take_state(&mut old.direction);
    }
}

impl<D: EspDirection> Vector for Esp<D> {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        if self.reader.gathers() || !self.hold.is_empty() {
            for batch in self.hold.add(batch, cx) {
                if !batch.is_empty() {
                    self.deal_with(batch, cx);
                }
            }
        } else {
            self.deal_with(batch, cx);
        }
    }

    /// No packets wait.
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut batch = cx.spare_batch();
        cx.pull_lending(self, 0, max.min(MAX_JOBS), &mut batch);
        if !batch.is_empty() {
            self.process(&mut batch, cx);
        }
        out.append(&mut batch);
        cx.recycle(batch);
    }
}

impl<D: EspDirection> Esp<D> {
    /// Processes a batch completely.
    fn deal_with(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        self.process(&mut batch, cx);
        cx.output_batch(0, batch);
    }

    /// Encrypts or decrypts a batch; the packets that remain in it go to output 0.
    fn process(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let index = self.reader.index();
        let mut known = std::mem::take(&mut self.known);
        known.clear();
        self.direction.find(&index, &mut known, batch, cx);
        let mut split = std::mem::take(&mut self.split);
        split.by_lane(&index, &known, D::place, batch, cx, |lane, known, batch, cx| {
            self.work(&index, lane, known, batch, cx);
        });
        self.split = split;
        self.known = known;
    }

    /// Has the device process the packets of one lane, in order; `known` has the values for these.
    fn work(&mut self, index: &Index, lane: u32, known: &[D::Known], batch: &mut Batch, cx: &mut Cx<'_>) {
        let Some(device) = index.lanes.get(lane as usize).map(|l| &l.device) else {
            return cx.drop_batch(batch.take(), D::NO_ASSOCIATION);
        };
        let Some(mut run) = device.queue(self.queue) else {
            return cx.drop_batch(batch.take(), drops::CRYPTO_REFUSED);
        };
        self.direction.prepare(index, known, &mut run, self.queue, batch, cx);
        if batch.is_empty() {
            return;
        }
        let n = batch.len() as u64;
        if !run.process(batch, &mut self.verdicts) {
            return cx.count_drops(n, drops::CRYPTO_SILENT);
        }
        self.direction.finish(index, known, &self.verdicts, batch, cx);
        self.count.add(batch.len() as u64);
    }
}
