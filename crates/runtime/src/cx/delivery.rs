//! Delivery: emitted packets are staged, and given to the next elements when the emitting element has
//! returned, depth first, in the order of emission.

use super::core::{Core, Staged};
use super::graph::{Cx, Graph, Lenders, Node};

/// The most deliveries that one run of a task may cause; beyond that, its packets are assumed to be in a loop
/// and are dropped.
pub(super) const MAX_DELIVERIES: u32 = 1 << 20;

impl Core {
    /// Delivers everything that waits. Returns whether there was anything.
    pub(super) fn settle(&mut self, graph: &Graph) -> bool {
        let any = !self.scratch.staged.is_empty() || !self.scratch.deferred.is_empty();
        self.scratch.staged.reverse();
        self.drain(graph, 0, None);
        loop {
            if !self.scratch.deferred.is_empty() {
                let deferred = std::mem::take(&mut self.scratch.deferred);
                self.scratch.staged.extend(deferred.into_iter().rev());
            } else if let Some(call) = self.later.pop_front() {
                self.deliveries += 1;
                if self.deliveries > MAX_DELIVERIES {
                    let lost = self.later.len() as u64 + 1;
                    self.later.clear();
                    let from = &graph.slots[call.from as usize].name;
                    self.hub.lose_writes(from, &call.handler, lost);
                    continue;
                }
                let cx = &mut Cx { graph, core: self, me: call.from, base: 0, lent: None };
                if let Err(e) = cx.write_handler(call.to, &call.handler, &call.value) {
                    cx.hub().call_failed(cx.name(), &e);
                }
                self.scratch.staged.reverse();
            } else {
                return any;
            }
            self.drain(graph, 0, None);
        }
    }

    /// Delivers what is staged above `base`, last entry first, depth first.
    pub(super) fn drain(&mut self, graph: &Graph, base: usize, lent: Option<&dyn Lenders>) {
        while self.scratch.staged.len() > base {
            let Some(mut s) = self.scratch.staged.pop() else { return };
            let mut rest = None;
            if s.batch.len() > self.batch_size {
                rest = Some(s.batch.split_off(self.batch_size));
            }
            if let Some(batch) = rest {
                self.scratch.staged.push(Staged { to: s.to, port: s.port, batch });
            }
            self.deliver(graph, s, lent);
        }
    }

    fn deliver(&mut self, graph: &Graph, mut s: Staged, lent: Option<&dyn Lenders>) {
        if s.batch.is_empty() {
            return self.recycle(s.batch);
        }
        // A batch that leaves an element as a whole is handed on directly as long as nothing else is to be
        // delivered before.
        loop {
            let slot = &graph.slots[s.to as usize];
            let Ok(mut node) = slot.node.try_borrow_mut() else {
                // The element is in the middle of a pull that pushed back to it: it gets the packets
                // afterwards.
                return self.scratch.deferred.push(s);
            };
            self.deliveries += 1;
            if self.deliveries > MAX_DELIVERIES {
                slot.stats.count_drop(crate::DropReason::LOOP, s.batch.len() as u64);
                return self.recycle(s.batch);
            }
            if self.weight > 0 {
                self.arrives(graph, &mut s);
            }
            self.enter(s.to);
            slot.stats.count_in(s.batch.len());
            let mark = self.scratch.staged.len();
            let mut cx = Cx { graph, core: self, me: s.to, base: mark, lent };
            let mut port = if usize::from(s.port) < slot.outputs.len() { usize::from(s.port) } else { 0 };
            let mut passed = 0;
            if slot.steps && s.port == 0 {
                let done = node.step(&mut s.batch, &mut cx);
                (passed, port) = (done.packets, done.output);
            }
            if passed < s.batch.len() {
                if !slot.maps {
                    push_rest(&mut **node, passed, port, s, &mut cx);
                    break self.in_order(mark);
                }
                if passed == 0 {
                    node.map(&mut s.batch, &mut cx);
                } else {
                    let mut rest = cx.core.spare();
                    rest.extend(s.batch.drain(passed..));
                    node.map(&mut rest, &mut cx);
                    s.batch.append(&mut rest);
                    cx.core.recycle(rest);
                }
            }
            drop(node);
            match slot.outputs.get(port).filter(|o| !o.pull && !s.batch.is_empty()) {
                Some(out) if self.scratch.staged.len() == mark => {
                    slot.stats.count_out(s.batch.len());
                    slot.stats.count_emission();
                    (s.to, s.port) = (out.to, out.port);
                }
                _ => {
                    Cx { graph, core: self, me: s.to, base: mark, lent }.output_batch(port, s.batch);
                    break self.in_order(mark);
                }
            }
        }
    }

    /// What was staged first is delivered first.
    #[inline]
    fn in_order(&mut self, mark: usize) {
        if self.scratch.staged.len() > mark + 1 {
            self.scratch.staged[mark..].reverse();
        }
    }
}

/// Pushes the packets of a batch that an element's fast path has not passed; the others leave by `output`,
/// before what the element emits.
fn push_rest(node: &mut dyn Node, passed: usize, output: usize, mut s: Staged, cx: &mut Cx<'_>) {
    if passed == 0 {
        return node.push(usize::from(s.port), s.batch, cx);
    }
    let mut rest = cx.core.spare();
    rest.extend(s.batch.drain(passed..));
    cx.output_batch(output, s.batch);
    node.push(usize::from(s.port), rest, cx);
}
