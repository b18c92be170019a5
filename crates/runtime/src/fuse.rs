//! The optimizer: finds chains of elements that can be fused into one loop.
//!
//! A *chain* is a sequence of elements, each connected to the next from output 0 (of a classifier: from any
//! output) to input 0, whose types are registered together ([`crate::Registry::fuse`]) and whose classes
//! declare a step ([`crate::Element::STEP`]). A packet that takes
//! the fast path of every element of the chain goes through all of them in one loop, compiled for just these
//! classes, without being staged and dispatched between them. From the first packet that needs a general path
//! (a bad header, an expired TTL, an unknown neighbor), the rest of the batch passes the elements one by one,
//! as it would without the optimizer.
//!
//! The graph stays as it is. Every element keeps its place, name, state, handlers and counters; a chain only
//! borrows them. So handlers work, drops are counted where they happen, and a hot swap changes between
//! optimized and plain routers. Two differences can be observed: the order in which elements see a packet
//! that returns by a side output into its own chain, and the cycles, which are divided evenly among a chain's
//! elements.

use crate::chain::Fusion;
use crate::class::Class;
use crate::cx::Fused;
use crate::element::Sharing;
use crate::ports::{Processing, Sides};
use lang::Config;

/// The longest chain that begins at each element, if one does.
///
/// Chains may overlap: if two interfaces lead to one header check, each has a chain, and both contain the
/// check.
pub(crate) fn find(
    config: &Config,
    classes: &[Class],
    sides: &[Sides],
    fusions: &[Fusion],
) -> Vec<Option<Fused>> {
    // Where packets go from each output that pushes to an input 0: (output, element), by output.
    let mut next: Vec<Vec<(usize, usize)>> = vec![Vec::new(); classes.len()];
    for c in &config.connections {
        let pushed = sides[c.from.element].outputs.get(c.from.port) == Some(&Processing::Push);
        if c.to.port == 0 && pushed {
            next[c.from.element].push((c.from.port, c.to.element));
        }
    }
    next.iter_mut().for_each(|n| n.sort_unstable());
    let along = |head: usize, fusion: &Fusion| -> Option<Fused> {
        let mut members: Vec<u32> = Vec::with_capacity(fusion.steps.len());
        let mut outputs: Vec<u16> = Vec::with_capacity(fusion.steps.len());
        let mut at = head;
        for (i, step) in fusion.steps.iter().enumerate() {
            let known = &classes[at];
            if known.step != Some(*step) || known.sharing == Sharing::Single || members.contains(&(at as u32))
            {
                return None;
            }
            members.push(at as u32);
            let wanted = fusion.steps.get(i + 1);
            let (output, to) = next[at].iter().find(|(output, to)| {
                (*output == 0 || step.chooses) && wanted.is_none_or(|w| classes[*to].step == Some(*w))
            })?;
            outputs.push(*output as u16);
            at = *to;
        }
        Some(Fused {
            members: members.into(),
            outputs: outputs.into(),
            choosing: fusion.steps.iter().map(|step| step.chooses).collect(),
            part: fusion.part,
            run: fusion.run,
        })
    };
    (0..classes.len())
        .map(|head| fusions.iter().filter_map(|f| along(head, f)).max_by_key(|f| f.members.len()))
        .collect()
}
