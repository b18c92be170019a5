//! Delivery: emitted packets are staged, and given to the next elements when the emitting element has
//! returned, depth first, in the order of emission; a chain of elements processes a batch as a whole.

use super::core::{Core, How, Staged};
use super::graph::{Cx, Fused, Graph, LONGEST, Members, Node, Reached};
use dpdk::{Batch, Packet};
use std::cell::RefMut;
use tracing::Level;

/// The most deliveries that one run of a task may cause; beyond that, its packets are assumed to be in a loop
/// and are dropped.
pub(super) const MAX_DELIVERIES: u32 = 1 << 20;

impl Core {
    /// Delivers everything that waits. Returns whether there was anything.
    pub(super) fn settle(&mut self, graph: &Graph) -> bool {
        let any = !self.staged.is_empty() || !self.deferred.is_empty();
        self.staged.reverse();
        self.drain(graph, 0);
        loop {
            if !self.deferred.is_empty() {
                let deferred = std::mem::take(&mut self.deferred);
                self.staged.extend(deferred.into_iter().rev());
            } else if let Some(call) = self.later.pop_front() {
                self.deliveries += 1;
                if self.deliveries > MAX_DELIVERIES {
                    let lost = self.later.len() as u64 + 1;
                    self.later.clear();
                    let from = &graph.slots[call.from as usize].name;
                    self.hub.lose_writes(from, &call.handler, lost);
                    continue;
                }
                let cx = &mut Cx { graph, core: self, me: call.from, base: 0 };
                if let Err(e) = cx.write_handler(call.to, &call.handler, &call.value) {
                    cx.log(Level::WARN, &format!("{}: {e}", cx.name()));
                }
                self.staged.reverse();
            } else {
                return any;
            }
            self.drain(graph, 0);
        }
    }

    /// Delivers what is staged above `base`, last entry first, depth first.
    pub(super) fn drain(&mut self, graph: &Graph, base: usize) {
        while self.staged.len() > base {
            let Some(mut s) = self.staged.pop() else { return };
            let mut rest = None;
            if s.batch.len() > self.batch_size {
                rest = Some(s.batch.split_off(self.batch_size));
            }
            if let Some(batch) = rest {
                self.staged.push(Staged { batch, ..s_target(&s) });
            }
            self.deliver(graph, s);
        }
    }

    fn deliver(&mut self, graph: &Graph, mut s: Staged) {
        if s.batch.is_empty() {
            return self.recycle(s.batch);
        }
        // Elements that map packets hand their batch on directly as long as nothing else is to be delivered
        // before.
        loop {
            let slot = &graph.slots[s.to as usize];
            if let Some(fused) = &slot.fused
                && s.port == 0
                && s.how == How::Any
            {
                match self.run_chain(graph, fused, s) {
                    Ok(next) => {
                        s = next;
                        continue;
                    }
                    Err(None) => return,
                    Err(Some(same)) => s = same,
                }
            }
            let Ok(mut node) = slot.node.try_borrow_mut() else {
                // The element is in the middle of a pull that pushed back to it: it gets the packets
                // afterwards.
                return self.deferred.push(s);
            };
            self.deliveries += 1;
            if self.deliveries > MAX_DELIVERIES {
                slot.stats.count_drop(crate::DropReason::LOOP, s.batch.len() as u64);
                return self.recycle(s.batch);
            }
            self.enter(s.to);
            slot.stats.count_in(s.batch.len());
            let mark = self.staged.len();
            let mut cx = Cx { graph, core: self, me: s.to, base: mark };
            if !slot.maps {
                node.push(usize::from(s.port), s.batch, &mut cx);
                if s.how == How::Second {
                    let first = slot.outputs.first().map(|o| (o.to, o.port));
                    self.staged[mark..].sort_by_key(|s| Some((s.to, s.port)) != first);
                }
                break self.in_order(mark);
            }
            node.map(&mut s.batch, &mut cx);
            drop(node);
            let port = if usize::from(s.port) < slot.outputs.len() { usize::from(s.port) } else { 0 };
            match slot.outputs.get(port).filter(|o| !o.pull && !s.batch.is_empty()) {
                Some(out) if self.staged.len() == mark => {
                    slot.stats.count_out(s.batch.len());
                    slot.stats.count_emission();
                    (s.to, s.port, s.how) = (out.to, out.port, How::Any);
                }
                _ => {
                    Cx { graph, core: self, me: s.to, base: mark }.output_batch(port, s.batch);
                    break self.in_order(mark);
                }
            }
        }
    }

    /// What was staged first is delivered first.
    #[inline]
    fn in_order(&mut self, mark: usize) {
        if self.staged.len() > mark + 1 {
            self.staged[mark..].reverse();
        }
    }

    /// Delivers a batch to a chain. `Ok`: all packets went through, and the value is their next destination.
    /// `Err(None)`: the results are staged. `Err(Some)`: nothing has happened, and the chain's first element
    /// has to be run by itself.
    #[inline]
    fn run_chain(&mut self, graph: &Graph, chain: &Fused, mut s: Staged) -> Result<Staged, Option<Staged>> {
        let members = &*chain.members;
        let mut nodes: [Option<RefMut<'_, Box<dyn Node>>>; LONGEST] = [const { None }; LONGEST];
        for (node, member) in nodes.iter_mut().zip(members) {
            match graph.slots[*member as usize].node.try_borrow_mut() {
                Ok(free) => *node = Some(free),
                Err(_) => return Err(Some(s)),
            }
        }
        let Some(borrowed) = nodes.get_mut(..members.len()) else { return Err(Some(s)) };
        if self.deliveries > MAX_DELIVERIES {
            return Err(Some(s));
        }
        self.deliveries += members.len() as u32;
        self.enter(s.to);
        let mark = self.staged.len();
        let mut cx = Cx { graph, core: self, me: s.to, base: mark };
        let reached = (chain.run)(&mut Members(borrowed), &chain.outputs, &mut s.batch, &mut cx);
        if self.weight > 0 {
            self.share_out(members);
        }
        let last = members.last().map_or(s.to, |m| *m);
        let n = reached.packets;
        if n == s.batch.len() {
            for member in members {
                let stats = &graph.slots[*member as usize].stats;
                stats.count_in(n);
                stats.count_out(n);
                stats.count_emission();
            }
            let Some(out) = graph.slots[last as usize].outputs.first() else { return Err(None) };
            return Ok(Staged { to: out.to, port: out.port, how: How::Any, batch: s.batch });
        }
        if reached == Reached::NOWHERE {
            return Err(Some(s));
        }
        self.go_on(graph, chain, &mut nodes, reached, s);
        Err(None)
    }

    /// Passes the packets that a chain could not process through the general path of its elements, and stages
    /// all results in the order in which the elements would emit them one by one.
    #[cold]
    fn go_on(
        &mut self,
        graph: &Graph,
        chain: &Fused,
        nodes: &mut [Option<RefMut<'_, Box<dyn Node>>>; LONGEST],
        reached: Reached,
        mut s: Staged,
    ) {
        let members = &*chain.members;
        let mark = self.staged.len();
        let n = reached.packets;
        let mut rest = self.spare();
        rest.extend(s.batch.drain(n..));
        // The first packet has got further than those after it.
        let mut ahead = (reached.elements > 0).then(|| rest.remove(0));
        let mut stopped = None;
        // Packets that classifiers send elsewhere, and packets that come after those of the chain.
        let mut later: Vec<Staged> = Vec::new();
        for (k, member) in members.iter().enumerate() {
            let slot = &graph.slots[*member as usize];
            let passed = n + usize::from(ahead.is_some() && k < reached.elements);
            slot.stats.count_passed(passed);
            if stopped.is_some() {
                continue;
            }
            if k == reached.elements
                && let Some(packet) = ahead.take()
            {
                rest.insert(0, packet);
            }
            if rest.is_empty() {
                continue;
            }
            // Each element's other emissions are batches of their own, as they are outside a chain.
            let base = self.staged.len();
            if chain.choosing.get(k) == Some(&true) {
                self.enter(*member);
                slot.stats.count_in(rest.len());
                let mut others = self.spare();
                let output = chain.outputs.get(k).map_or(0, |o| *o);
                let first = rest.first().map(Packet::data_address);
                if let Some(borrowed) = nodes.get_mut(..members.len()) {
                    (chain.part)(&mut Members(borrowed), k, output, &mut rest, &mut others);
                }
                slot.stats.count_out(rest.len());
                let stayed = rest.first().map(Packet::data_address) == first;
                match nodes.get_mut(k) {
                    Some(Some(node)) if !others.is_empty() => {
                        node.push(0, others, &mut Cx { graph, core: self, me: *member, base });
                        if passed > 0 || stayed {
                            later.splice(0..0, self.staged.drain(base..));
                        }
                    }
                    _ => self.recycle(others),
                }
                continue;
            }
            match nodes.get_mut(k) {
                Some(Some(node)) if slot.maps => {
                    self.enter(*member);
                    slot.stats.count_in(rest.len());
                    node.map(&mut rest, &mut Cx { graph, core: self, me: *member, base });
                    slot.stats.count_out(rest.len());
                    slot.stats.count_emission();
                }
                _ => stopped = Some((*member, passed > 0)),
            }
        }
        let last = members.last().and_then(|m| graph.slots[*m as usize].outputs.first());
        if let Some(out) = last {
            if stopped.is_none() {
                s.batch.append(&mut rest);
            }
            self.staged.push(Staged { to: out.to, port: out.port, how: How::Any, batch: s.batch });
        }
        if let Some(packet) = ahead
            && let Some(&member) = members.get(reached.elements)
        {
            let mut batch = self.spare();
            batch.push(packet);
            self.staged.push(Staged { to: member, port: 0, how: How::Plain, batch });
        }
        if let Some((member, passed)) = stopped {
            let how = if passed { How::Second } else { How::Plain };
            self.staged.push(Staged { to: member, port: 0, how, batch: rest });
        } else {
            self.recycle(rest);
        }
        self.staged.append(&mut later);
        self.in_order(mark);
    }
}

fn s_target(s: &Staged) -> Staged {
    Staged { to: s.to, port: s.port, how: s.how, batch: Batch::new() }
}
