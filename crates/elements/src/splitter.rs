//! Splits a batch into one batch for each output.

use crate::prelude::*;

/// What goes to one output.
#[derive(Default)]
struct Bin {
    packets: Batch,
    bytes: u64,
}

/// A batch for each output. Allocates when it is made, and not again; a packet costs a few instructions, as
/// nothing is looked for.
pub(crate) struct Splitter {
    bins: Box<[Bin]>,
    filled: Vec<usize>,
}

impl Splitter {
    /// For so many outputs.
    pub(crate) fn new(outputs: usize) -> Self {
        Self { bins: (0..outputs).map(|_| Bin::default()).collect(), filled: Vec::with_capacity(outputs) }
    }

    /// Gives each output its packets, in their order, with the sum of their lengths; first the output of the
    /// first packet. `outputs` has an output for each packet; those for which there is none go to `nowhere`.
    #[inline]
    pub(crate) fn split(
        &mut self,
        mut batch: Batch,
        outputs: impl Iterator<Item = usize>,
        cx: &mut Cx<'_>,
        mut nowhere: impl FnMut(usize, Packet, &mut Cx<'_>),
        mut each: impl FnMut(usize, Batch, u64, &mut Cx<'_>),
    ) {
        for (packet, output) in batch.drain(..).zip(outputs) {
            let Some(bin) = self.bins.get_mut(output) else {
                nowhere(output, packet, cx);
                continue;
            };
            if bin.packets.is_empty() {
                self.filled.push(output);
                bin.packets = cx.spare_batch();
            }
            bin.bytes += packet.len() as u64;
            bin.packets.push(packet);
        }
        cx.recycle(batch);
        for output in self.filled.drain(..) {
            if let Some(bin) = self.bins.get_mut(output) {
                let Bin { packets, bytes } = std::mem::take(bin);
                each(output, packets, bytes, cx);
            }
        }
    }
}
