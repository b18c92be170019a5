//! Splits a batch into one batch for each output.

use crate::prelude::*;

/// So many outputs are looked at for those that lead to the same input: it takes a time that grows with the
/// square.
const JOINED: usize = 8;

/// The packets for one output.
#[derive(Default)]
struct Bin {
    packets: Batch,
    bytes: u64,
}

/// A batch for each output. Memory is allocated only when the value is made. A packet costs a few
/// instructions, as there is no search.
pub(crate) struct Splitter {
    bins: Box<[Bin]>,
    filled: Vec<usize>,
}

impl Splitter {
    /// For this many outputs.
    pub(crate) fn new(outputs: usize) -> Self {
        Self { bins: (0..outputs).map(|_| Bin::default()).collect(), filled: Vec::with_capacity(outputs) }
    }

    /// For how many outputs it is.
    pub(crate) fn outputs(&self) -> usize {
        self.bins.len()
    }

    /// Replaces outputs by the first ones that lead to the same inputs, so that packets of several outputs go
    /// on together, in the order in which they came.
    pub(crate) fn join(&self, outputs: &mut [usize], cx: &Cx<'_>) {
        let mut firsts = [0; JOINED];
        let ports = self.outputs().min(JOINED);
        for (port, first) in firsts.iter_mut().enumerate().take(ports) {
            *first = cx.first_to_same(port);
        }
        for output in outputs {
            *output = firsts.get(*output).filter(|_| *output < ports).copied().unwrap_or(*output);
        }
    }

    /// Calls `each` for each output with its packets, in their order, and the sum of their lengths, beginning
    /// with the output of the first packet. `outputs` has an output for each packet. A packet whose output
    /// does not exist goes to `nowhere`.
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
