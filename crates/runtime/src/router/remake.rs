//! Live reconfiguration: an element gets other arguments while the router runs.

use super::Router;
use super::swap::HOLD_LIMIT;
use crate::ElementId;
use crate::build::remake;
use crate::builtin::with_argument;
use crate::cx::{Counts, Node, Reader};
use crate::handler::HandlerError;
use crate::stats::Counter;
use crate::worker::{Order, Report};
use lang::Diagnostics;
use std::collections::HashMap;
use std::sync::Arc;
use tracing::Level;

impl Router {
    /// Gives an element other arguments, between two batches, on all workers at once. It keeps its state as
    /// in a hot swap. If an argument is wrong, nothing changes.
    ///
    /// # Errors
    /// All errors in the arguments; or a worker that does not answer.
    pub(super) fn reconfigure(&mut self, id: ElementId, arguments: &str) -> Result<(), HandlerError> {
        let _building = accounts::inherit().build();
        let (slot, index) = (id.0, id.0 as usize);
        let remade = remake(&self.loaded, index, arguments, &self.options, &self.clock, &self.hub);
        let mut new = remade.map_err(|diags| HandlerError::Failed(messages(&diags)))?;
        let limit = self.answer_limit.min(HOLD_LIMIT);
        for worker in 0..new.nodes.len() {
            self.on_worker(worker, |_| ())?;
        }
        let name = self.loaded.elements[index].name.clone();
        let counters = counters(&self.loaded.elements[index].handlers, &mut new.nodes);
        let stats = self.loaded.elements[index].stats.clone();
        let counts = Arc::new(Counts { counters: counters.clone(), stats });
        let (hub, store) = (Arc::clone(&self.hub), Arc::clone(&self.loaded.store));
        // Until the new element is in its place: its task may be due at once.
        let mut team = self.hold(limit)?;
        for (worker, node) in new.nodes.iter_mut().enumerate() {
            let Some(unready) = node.take() else { continue };
            if let Report::Initialized(ready, acts, done) =
                team.order(worker, Order::Initialize(slot, unready))?
            {
                done.map_err(HandlerError::Failed)?;
                new.acts.extend(acts);
                *node = Some(ready);
            }
        }
        for (_, act) in new.acts {
            if let Err(message) = act() {
                hub.log(Level::ERROR, &name, &format!("{name}: {message}"));
            }
        }
        store.adopt(&name, &new.store);
        let mut old = Vec::new();
        for (worker, node) in new.nodes.into_iter().enumerate() {
            match team.order(worker, Order::Replace(slot, node, Arc::clone(&counts))) {
                Ok(Report::Replaced(node)) => old.push(node),
                Ok(_) => {}
                // Only a worker that fails during the switch does not answer, and that stops the router.
                Err(e) => hub.log(Level::ERROR, "", &e.to_string()),
            }
        }
        drop(team);
        self.count_removed(&name, old);
        self.loaded.config = Arc::new(new.config);
        self.loaded.about.set_arguments(index, arguments);
        self.loaded.plan.holding = new.holding;
        let element = &mut self.loaded.elements[index];
        element.config.clone_from(&self.loaded.config.elements[index].config);
        element.counters = counters;
        for (name, mut task) in new.control {
            match self.control.iter().position(|(known, _)| *known == name) {
                Some(at) => {
                    task.take_over(self.control[at].1.as_any());
                    (self.control[at], self.control_due[at]) = ((name, task), Some(0));
                }
                None => {
                    self.control.push((name, task));
                    self.control_due.push(Some(0));
                    self.control_stamp.push(0);
                }
            }
        }
        self.hub.warn_caller(new.warnings.into_iter().map(|warning| format!("warning: {}", warning.message)));
        self.hub.ring();
        Ok(())
    }

    /// Notes in an element's arguments that a handler has changed one of them: `keyword`, or the one at
    /// `position` if it is not given by keyword.
    pub(super) fn note_argument(&mut self, id: ElementId, (position, keyword): (usize, &str), value: &str) {
        let before = &self.loaded.config.elements[id.0 as usize].config;
        let arguments = with_argument(before, position, keyword, value.trim());
        self.note_arguments(id, &arguments);
    }

    /// Notes what workers have changed by handlers.
    pub(super) fn note_changes(&mut self) {
        for ((element, position, keyword), value) in self.hub.take_arguments() {
            match self.find("", &element) {
                Some(id) if keyword.is_empty() => self.note_arguments(id, &value),
                Some(id) => self.note_argument(id, (position, keyword), &value),
                None => {}
            }
        }
    }

    /// Notes the present arguments of an element.
    pub(super) fn note_arguments(&mut self, id: ElementId, arguments: &str) {
        let index = id.0 as usize;
        arguments.clone_into(&mut Arc::make_mut(&mut self.loaded.config).elements[index].config);
        arguments.clone_into(&mut self.loaded.elements[index].config);
        self.loaded.about.set_arguments(index, arguments);
    }
}

/// The counters of an element's new replicas, by the names of their handlers.
fn counters(
    handlers: &[crate::cx::Handler],
    nodes: &mut [Option<Box<dyn Node>>],
) -> HashMap<&'static str, Vec<Counter>> {
    let mut counters: HashMap<&'static str, Vec<Counter>> = HashMap::new();
    for node in nodes.iter_mut().flatten() {
        for handler in handlers {
            if let Some(Reader::Counter(f)) = &handler.reader
                && let Some(counter) = f(&*node.element())
            {
                counters.entry(handler.name).or_default().push(counter);
            }
        }
    }
    counters
}

fn messages(diags: &Diagnostics) -> String {
    let all: Vec<&str> = diags.iter().map(|d| d.message.as_str()).collect();
    all.join("\n")
}
