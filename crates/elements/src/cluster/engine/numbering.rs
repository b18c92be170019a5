//! Numbers the packets of this node, so that their output node can restore their order.

use super::spread::Verdict;
use super::state::ClusterState;
use super::transit::addresses;
use crate::prelude::*;
use cluster::{MacCode, NodeId, SourceCode};

/// The stream in which a packet is numbered: the packets that go over links to one external port.
fn stream(state: &ClusterState, verdicts: &[Verdict], batch: &[Packet], i: usize) -> Option<(NodeId, u8)> {
    verdicts.get(i)?.node(state.nodes()).filter(|link| *link != state.me())?;
    let (to, _) = addresses(batch.get(i)?.data()).ok()?;
    MacCode::decode(to, state.nodes()).ok().map(|code| (code.node, code.port))
}

/// Writes sequence numbers of their streams into packets; `verdicts` has the output of each packet.
pub(in crate::cluster) fn number(state: &ClusterState, verdicts: &[Verdict], batch: &mut Batch) {
    let mut start = 0;
    while start < batch.len() {
        let Some((node, port)) = stream(state, verdicts, batch, start) else {
            start += 1;
            continue;
        };
        let same = |i: &usize| stream(state, verdicts, batch, *i) == Some((node, port));
        let end = start + 1 + (start + 1..batch.len()).take_while(same).count();
        let run = batch.get_mut(start..end).unwrap_or_default();
        if let Some(before) = state.number(node, port, run.len() as u64) {
            for (packet, n) in run.iter_mut().zip(before..) {
                let source = SourceCode { node: state.me(), number: SourceCode::number_after(n) }.encode();
                if let (Some(front), Some(source)) = (packet.data_mut().first_chunk_mut::<12>(), source) {
                    front[6..].copy_from_slice(&source);
                }
            }
        }
        start = end;
    }
}
