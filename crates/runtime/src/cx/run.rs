//! One run of a task or a timer: its packets are delivered, and its cycles are counted.

use super::core::{Core, Staged};
use super::graph::{Cx, Graph, Node};
use dpdk::Batch;

impl Core {
    /// Counts the cycles of the run that ends.
    fn end(&mut self, graph: &Graph, slot: u32, worked: bool) {
        self.enter(slot);
        if !self.summed.is_empty() {
            self.sum_up();
            let sums = &mut self.sums;
            let sum = |slot: u32| (slot, sums.get_mut(slot as usize).map_or(0, std::mem::take));
            self.scratch.journal.extend(self.summed.drain(..).map(sum));
        }
        if self.run_overflow > 0 {
            self.book_waste(graph, slot);
        }
        let weight = self.weight;
        if weight > 0 {
            self.time_next_too(slot);
        }
        if worked {
            for (slot, cycles) in self.scratch.journal.drain(..) {
                graph.slots[slot as usize].stats.add_cycles(cycles * weight);
            }
        } else {
            let cycles: u64 = self.scratch.journal.drain(..).map(|j| j.1).sum();
            graph.slots[slot as usize].stats.add_idle(cycles * weight);
        }
    }

    /// Accounts for the work on packets that were dropped downstream because an element was full: their share
    /// of the run's cycles.
    #[cold]
    fn book_waste(&mut self, graph: &Graph, slot: u32) {
        let lost = self.run_overflow;
        let cycles: u64 = self.scratch.journal.iter().map(|j| j.1).sum();
        let share =
            u128::from(cycles * self.weight) * u128::from(lost) / u128::from(self.run_packets.max(lost));
        graph.slots[self.overflowed_at as usize].stats.add_waste(lost, share as u64);
        self.overflows[slot as usize] += lost;
    }

    /// Runs an element's task. Returns whether it had work.
    pub(crate) fn run_task(&mut self, graph: &Graph, slot: u32) -> bool {
        self.begin(slot);
        self.wakers[slot as usize].valid = false;
        (self.running, self.again, self.needs_room) = (Some(slot), false, None);
        let worked = match graph.slots[slot as usize].node.try_borrow_mut() {
            Ok(mut node) => node.run_task(&mut Cx { graph, core: self, me: slot, base: 0, lent: None }),
            Err(_) => false,
        };
        let worked = self.settle(graph) || worked;
        self.running = None;
        if std::mem::take(&mut self.again) && !self.waits_for_room(graph, slot) {
            self.run.schedule(slot);
        }
        self.end(graph, slot, worked);
        worked
    }

    /// Whether the task that has just run is woken when there is room, as it wants to be.
    #[inline]
    fn waits_for_room(&mut self, graph: &Graph, slot: u32) -> bool {
        let Some(output) = self.needs_room else { return false };
        // One by one, tasks run in Click's order; who is bound to another worker is not woken here.
        !self.exact
            && graph.slots[slot as usize].runs_here
            && !Cx { graph, core: self, me: slot, base: 0, lent: None }.downstream_room(output)
    }

    /// Delivers packets that came from another worker.
    pub(crate) fn inject(&mut self, graph: &Graph, slot: u32, port: usize, batch: Batch) {
        self.begin(slot);
        self.run_packets = batch.len() as u64;
        self.scratch.staged.push(Staged { to: slot, port: port as u16, batch });
        self.settle(graph);
        self.end(graph, slot, true);
    }

    /// Runs an element's timer.
    pub(crate) fn run_timer(&mut self, graph: &Graph, slot: u32, id: u32) {
        self.begin(slot);
        if let Ok(mut node) = graph.slots[slot as usize].node.try_borrow_mut() {
            node.run_timer(id, &mut Cx { graph, core: self, me: slot, base: 0, lent: None });
        }
        self.settle(graph);
        self.end(graph, slot, true);
    }

    /// Runs `f` on an element as its task would run, and delivers what it emits.
    pub(crate) fn with_node<R>(
        &mut self,
        graph: &Graph,
        slot: u32,
        f: impl FnOnce(&mut dyn Node, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.rested();
        self.begin(slot);
        let r = {
            let mut node = graph.slots[slot as usize].node.try_borrow_mut().ok()?;
            f(&mut **node, &mut Cx { graph, core: self, me: slot, base: 0, lent: None })
        };
        self.settle(graph);
        self.end(graph, slot, true);
        Some(r)
    }

    #[inline]
    pub(super) fn set_nonempty(&mut self, graph: &Graph, slot: u32, nonempty: bool) {
        let flag = &mut self.nonempty[slot as usize];
        if *flag != nonempty {
            *flag = nonempty;
            if nonempty {
                let listeners = &graph.slots[slot as usize].listeners;
                listeners.empty.iter().for_each(|task| self.run.schedule(*task));
                // A gate that is open already ends the recursion, so cycles in the graph do not continue it.
                listeners.gates.iter().for_each(|gate| self.set_nonempty(graph, *gate, true));
            }
        }
    }
}
