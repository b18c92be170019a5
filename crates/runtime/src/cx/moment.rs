//! How the task and the timers of an element stand, so that it can go on in another graph.

use super::core::Core;
use super::graph::{Graph, Output};

/// How the task and the timers of an element stand.
pub(crate) struct Moment {
    scheduled: bool,
    tickets: u32,
    timers: Vec<(u32, u64)>,
    nonempty: bool,
    full: bool,
}

impl Core {
    /// How an element's task and timers stand.
    pub(crate) fn moment(&self, graph: &Graph, slot: u32) -> Moment {
        let (place, of) = (slot as usize, &graph.slots[slot as usize]);
        let full = |out: &Output| out.notifiers.iter().any(|slot| self.full[*slot as usize]);
        // What it waits for may be on another worker now, where nobody would wake it: it looks once more.
        let waits = of.inputs.iter().any(|input| input.pull) || of.outputs.iter().any(full);
        Moment {
            scheduled: self.run.scheduled(slot) || waits,
            tickets: self.run.tickets(slot),
            timers: self.timers.of(slot),
            nonempty: self.nonempty[place],
            full: self.full[place],
        }
    }
    /// Continues with an element's task and timers where they stood.
    pub(crate) fn resume(&mut self, slot: u32, moment: Moment) {
        let place = slot as usize;
        (self.nonempty[place], self.full[place]) = (moment.nonempty, moment.full);
        self.run.set_tickets(slot, moment.tickets);
        if moment.scheduled {
            self.run.schedule(slot);
        } else {
            self.run.unschedule(slot);
        }
        for (id, _) in self.timers.of(slot) {
            self.timers.cancel(slot, id);
        }
        for (id, at_ns) in moment.timers {
            let stamp = self.clock.stamp();
            self.timers.set(slot, id, at_ns, stamp);
        }
    }
}
