//! Handler calls from the control thread: they run on all workers that have a replica, and have one answer.

use super::Router;
use super::builtin::{read_element, read_global, write_global};
use crate::ElementId;
use crate::builtin::{check_global, element_handler, is_global};
use crate::control::Control;
use crate::cx::{Reader, Writer, find};
use crate::declare::HOME_THREAD;
use crate::element::Sharing;
use crate::handler::{CallArgs, Caller, Combine, HandlerError, KnownHandler, Llrpc};
use crate::hub::Hub;
use crate::names::Names;
use crate::stats::Counter;
use crate::store::SharedStore;
use std::sync::Arc;
use tracing::Level;

impl Router {
    /// Splits `element.handler` and finds the element; without a dot it is a global handler.
    ///
    /// # Errors
    /// There is no such element.
    pub fn parse_handler(&self, from: &str, spec: &str) -> Result<(Option<ElementId>, String), HandlerError> {
        if is_global(spec) {
            return Ok((None, spec.to_owned()));
        }
        if let Some((element, handler)) = spec.split_once('.') {
            if element.is_empty() {
                return Ok((None, handler.to_owned()));
            }
            let id = self.find(from, element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
            return Ok((Some(id), handler.to_owned()));
        }
        if let Some(id) = self.find(from, spec) {
            return Ok((Some(id), String::new()));
        }
        Ok((None, spec.to_owned()))
    }

    /// Reads a handler, `element.handler` or a global one, with a parameter (usually empty).
    ///
    /// # Errors
    /// No such element or handler, it cannot be read, or it failed.
    pub fn read(&mut self, spec: &str, arg: &str) -> Result<String, HandlerError> {
        self.read_from("", spec, arg)
    }
    /// [`Router::read`] with names looked up from the scope of an element.
    ///
    /// # Errors
    /// See there.
    pub fn read_from(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError> {
        dpdk::crash::called("read", spec, arg.len());
        let (id, name) = self.parse_handler(from, spec)?;
        if matches!(&*name, "config" | "flatconfig") {
            self.note_changes();
        }
        let Some(id) = id else { return read_global(self, &name) };
        let element = &self.loaded.elements[id.0 as usize];
        let own = find(&element.handlers, &name, &self.loaded.store, &element.name);
        let Some(handler) = own.filter(|h| h.readable() || !element_handler(&name)).cloned() else {
            return read_element(self, id, &name).ok_or_else(|| HandlerError::NoHandler(spec.to_owned()));
        };
        if name == HOME_THREAD && handler.writable() {
            return Ok(element.home.to_string());
        }
        let _names = Names::of(&self.loaded.plan.names, &element.name);
        match handler.reader {
            None => Err(HandlerError::NotReadable(spec.to_owned())),
            Some(Reader::Counter(_)) => {
                let counters = element.counters.get(handler.name).map_or(&[][..], |c| c);
                Ok(counters.iter().map(Counter::get).sum::<u64>().to_string())
            }
            Some(Reader::Shared(kind, f)) => {
                let state = self.loaded.store.of_handler(&element.name, kind)?;
                f(&*state, arg).map_err(HandlerError::Failed)
            }
            Some(Reader::Called(kind, f)) => {
                let state = self.loaded.store.of_handler(&element.name, kind)?;
                f(&*state, self, &CallArgs { name: &name, value: arg, write: false })
            }
            Some(Reader::Stats(f)) => Ok(f(&element.totals())),
            Some(Reader::SharedStats(kind, f)) => {
                let state = self.loaded.store.of_handler(&element.name, kind)?;
                f(&*state, &element.totals()).map_err(HandlerError::Failed)
            }
            Some(Reader::Worker(f, combine)) => {
                let mut answers = Vec::new();
                for worker in self.homes(id) {
                    let (f, arg) = (Arc::clone(&f), arg.to_owned());
                    let answer = self.on_worker(worker, move |w| {
                        let _names = w.names_of(id.0);
                        w.core.with_node(&w.graph, id.0, |node, cx| f(node.element(), &arg, cx))
                    })?;
                    answers.push(answer.unwrap_or_else(|| Err("busy".into())).map_err(HandlerError::Failed)?);
                    if combine == Combine::First {
                        break;
                    }
                }
                Ok(combined(combine, answers))
            }
        }
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// No such element or handler, it cannot be written, or it refused the value.
    pub fn write(&mut self, spec: &str, value: &str) -> Result<(), HandlerError> {
        let done = self.write_from("", spec, value);
        for warning in self.hub.take_warnings() {
            self.hub.log(Level::WARN, "", &format!("{spec}: {warning}"));
        }
        done
    }
    /// [`Router::write`] with names looked up from the scope of an element.
    ///
    /// # Errors
    /// See there.
    pub fn write_from(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError> {
        dpdk::crash::called("write", spec, value.len());
        let (id, name) = self.parse_handler(from, spec)?;
        self.note_changes();
        let Some(id) = id else { return write_global(self, &name, value) };
        let element = &self.loaded.elements[id.0 as usize];
        let reconfigures = element.live && name == "config";
        let own = find(&element.handlers, &name, &self.loaded.store, &element.name);
        let Some(handler) = own.filter(|h| h.writable() || !reconfigures).cloned() else {
            return match element_handler(&name) {
                true if reconfigures => self.reconfigure(id, value),
                true => Err(HandlerError::NotWritable(spec.to_owned())),
                false => Err(HandlerError::NoHandler(spec.to_owned())),
            };
        };
        if name == HOME_THREAD && handler.writable() {
            return self.move_task(id, value);
        }
        let _names = Names::of(&self.loaded.plan.names, &element.name);
        let done = match handler.writer {
            None => return Err(HandlerError::NotWritable(spec.to_owned())),
            Some(Writer::Shared(kind, f)) => {
                let state = self.loaded.store.of_handler(&element.name, kind)?;
                let done = f(&*state, value).map_err(HandlerError::Failed);
                self.hub.ring();
                done
            }
            Some(Writer::Called(kind, f)) => {
                let state = self.loaded.store.of_handler(&element.name, kind)?;
                f(&*state, self, &CallArgs { name: &name, value, write: true }).map(drop)
            }
            Some(Writer::Worker(f)) => {
                for worker in self.homes(id) {
                    let (f, value) = (Arc::clone(&f), value.to_owned());
                    self.on_worker(worker, move |w| {
                        let _names = w.names_of(id.0);
                        w.core.with_node(&w.graph, id.0, |node, cx| f(node.element(), &value, cx))
                    })?
                    .unwrap_or_else(|| Err("busy".into()))
                    .map_err(HandlerError::Failed)?;
                }
                Ok(())
            }
        };
        if let Some(argument) = handler.argument.filter(|_| done.is_ok()) {
            self.note_argument(id, argument, value);
        } else if name == "config" && done.is_ok() {
            self.note_arguments(id, value);
        }
        done
    }

    /// Whether a handler exists and can be read (or written).
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_handler(&self, spec: &str, write: bool) -> Result<(), HandlerError> {
        self.look_up("", spec, write).map(drop)
    }

    /// Whether there is no such global handler in this router.
    pub(super) fn lacks(&self, name: &str) -> bool {
        self.options.lacks() == Some(name)
    }

    /// Information about a handler that is to be read (or written).
    ///
    /// # Errors
    /// No such element or handler, or it cannot be read (or written).
    pub fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<KnownHandler, HandlerError> {
        let (id, name) = self.parse_handler(from, spec)?;
        let Some(id) = id else {
            if self.lacks(&name) {
                return Err(HandlerError::NoHandler(spec.to_owned()));
            }
            check_global(&name, write)?;
            return Ok(KnownHandler { name, takes_parameter: false, private: false, secret: false });
        };
        let element = &self.loaded.elements[id.0 as usize];
        let full = format!("{}.{name}", element.name);
        let reconfigures = element.live && name == "config";
        match find(&element.handlers, &name, &self.loaded.store, &element.name) {
            Some(h) if write && !h.writable() && !reconfigures => {
                Err(HandlerError::NotWritable(spec.to_owned()))
            }
            Some(h) if !write && !h.readable() && !element_handler(&name) => {
                Err(HandlerError::NotReadable(spec.to_owned()))
            }
            Some(h) => Ok(KnownHandler {
                name: full,
                takes_parameter: h.takes_parameter,
                private: h.private,
                secret: h.secret,
            }),
            None if element_handler(&name) && (!write || reconfigures) => {
                Ok(KnownHandler { name: full, takes_parameter: false, private: false, secret: false })
            }
            None if element_handler(&name) => Err(HandlerError::NotWritable(spec.to_owned())),
            None => Err(HandlerError::NoHandler(spec.to_owned())),
        }
    }

    /// State that elements share, for handlers whose names an element decides.
    pub(crate) fn store(&self) -> &SharedStore {
        &self.loaded.store
    }

    /// The workers that have a replica of an element.
    fn homes(&self, id: ElementId) -> Vec<usize> {
        let element = &self.loaded.elements[id.0 as usize];
        match element.sharing {
            Sharing::Single => vec![element.home],
            _ => (0..self.options.workers.max(1)).collect(),
        }
    }
}

impl Caller for Router {
    fn read(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError> {
        self.read_from(from, spec, arg)
    }
    fn write(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError> {
        self.write_from(from, spec, value)
    }
    fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<KnownHandler, HandlerError> {
        Router::look_up(self, from, spec, write)
    }
    fn now_ns(&self) -> u64 {
        Router::now_ns(self)
    }
    fn hub(&self) -> &Arc<Hub> {
        Router::hub(self)
    }
}

impl Control for Router {
    fn generation(&self) -> u64 {
        Router::generation(self)
    }
    fn exit(&mut self) {
        Router::exit(self);
    }
    fn runs_timers(&self) -> bool {
        self.timers
    }
    fn llrpc(&self, element: &str, number: u32) -> Option<Llrpc> {
        let class = self.registry.get(self.loaded.elements[self.find("", element)?.0 as usize].class)?;
        class.llrpcs.iter().find(|(known, _)| *known == number).map(|(_, call)| *call)
    }
}

fn combined(how: Combine, answers: Vec<String>) -> String {
    match how {
        Combine::First => answers.into_iter().next().unwrap_or_default(),
        Combine::Concat => answers.concat(),
        Combine::Sum => {
            let whole: Option<i128> = answers.iter().map(|a| a.trim().parse::<i128>().ok()).sum();
            whole.map(|n| n.to_string()).unwrap_or_else(|| {
                let sum: f64 = answers.iter().filter_map(|a| a.trim().parse::<f64>().ok()).sum();
                sum.to_string()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_workers_become_one() {
        let answers = |a: &[&str]| a.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(combined(Combine::Sum, answers(&["1", "41\n"])), "42");
        assert_eq!(combined(Combine::Sum, answers(&["0.5", "1"])), "1.5");
        assert_eq!(combined(Combine::Concat, answers(&["a\n", "b\n"])), "a\nb\n");
        assert_eq!(combined(Combine::First, answers(&["7"])), "7");
    }
}
