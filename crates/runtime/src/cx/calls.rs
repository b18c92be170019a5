//! Handlers that elements call while they run: their own, other elements', global ones.

use super::core::Call;
use super::graph::{Cx, Handler, Reader, Slot, Writer, find};
use crate::ElementId;
use crate::builtin::{check_global, element_handler};
use crate::handler::{CallArgs, Caller, HandlerError, KnownHandler};
use crate::hub::Hub;
use crate::names::Names;
use crate::stats::{Counter, StatsSnapshot};
use std::any::Any;
use std::sync::Arc;

impl Cx<'_> {
    /// Reads a handler of this worker's replica of an element, from the data path (`Script` elements do).
    ///
    /// # Errors
    /// No such handler, or the element is busy with the very packet that caused the call.
    pub fn read_handler(&mut self, id: ElementId, name: &str, arg: &str) -> Result<String, HandlerError> {
        let own = self.handler(id, name).and_then(|h| match h.readable() {
            false if element_handler(name) => Err(HandlerError::NotReadable(name.into())),
            _ => Ok(h),
        });
        let handler = match own {
            Ok(handler) => handler,
            Err(e) => return self.read_general(id, name).unwrap_or(Err(e)),
        };
        let _names = Names::of(&self.graph.texts, self.name_of(id));
        match handler.reader {
            Some(Reader::Worker(f, _)) => {
                self.on(id, |element, cx| f(element, arg, cx))?.map_err(HandlerError::Failed)
            }
            Some(Reader::Counter(f)) => match &self.graph.slots[id.0 as usize].counts {
                Some(counts) => {
                    let counters = counts.counters.get(handler.name).map_or(&[][..], |c| c);
                    Ok(counters.iter().map(Counter::get).sum::<u64>().to_string())
                }
                None => {
                    let n = self.on(id, |element, _| f(element).map(|c| c.get()))?;
                    Ok(n.unwrap_or(0).to_string())
                }
            },
            Some(Reader::Shared(kind, f)) => {
                let state = self.graph.shared.of_handler(self.name_of(id), kind)?;
                f(&*state, arg).map_err(HandlerError::Failed)
            }
            Some(Reader::Called(kind, f)) => {
                let state = self.graph.shared.of_handler(self.name_of(id), kind)?;
                f(&*state, self, &CallArgs { name, value: arg, write: false })
            }
            Some(Reader::Stats(f)) => Ok(f(&self.graph.slots[id.0 as usize].totals())),
            Some(Reader::SharedStats(kind, f)) => {
                let state = self.graph.shared.of_handler(self.name_of(id), kind)?;
                let stats = self.graph.slots[id.0 as usize].totals();
                f(&*state, &stats).map_err(HandlerError::Failed)
            }
            None => Err(HandlerError::NotReadable(name.into())),
        }
    }

    /// Writes a handler of this worker's replica of an element.
    ///
    /// # Errors
    /// As for [`Cx::read_handler`].
    pub fn write_handler(&mut self, id: ElementId, name: &str, value: &str) -> Result<(), HandlerError> {
        let handler = self.handler(id, name)?;
        let _names = Names::of(&self.graph.texts, self.name_of(id));
        match handler.writer {
            Some(Writer::Worker(f)) => {
                self.on(id, |element, cx| f(element, value, cx))?.map_err(HandlerError::Failed)?;
            }
            Some(Writer::Shared(kind, f)) => {
                let state = self.graph.shared.of_handler(self.name_of(id), kind)?;
                f(&*state, value).map_err(HandlerError::Failed)?;
            }
            Some(Writer::Called(kind, f)) => {
                let state = self.graph.shared.of_handler(self.name_of(id), kind)?;
                f(&*state, self, &CallArgs { name, value, write: true })?;
            }
            None => return Err(HandlerError::NotWritable(name.into())),
        }
        if let Some(argument) = handler.argument {
            self.core.hub.note_argument(self.name_of(id), argument, value);
            if let Some(about) = &self.graph.about {
                about.set_argument(id.0 as usize, argument, value);
            }
        } else if name == "config" {
            self.core.hub.note_arguments(self.name_of(id), value);
            if let Some(about) = &self.graph.about {
                about.set_arguments(id.0 as usize, value);
            }
        }
        Ok(())
    }

    /// The element whose handler is meant: without an element name, the calling element if it has such a
    /// handler, otherwise (`None`) a global handler.
    fn whose(&self, element: Option<&str>, handler: &str) -> Result<Option<ElementId>, HandlerError> {
        match element {
            Some(name) => self.find(name).map(Some).ok_or_else(|| HandlerError::NoElement(name.into())),
            None => Ok(self.handler(self.id(), handler).ok().map(|_| self.id())),
        }
    }

    /// Whether [`Cx::call`] could call this handler.
    ///
    /// # Errors
    /// There is no such element or handler, or it cannot be written.
    pub fn can_write(&self, element: Option<&str>, handler: &str) -> Result<(), HandlerError> {
        match self.whose(element, handler)? {
            Some(id) if self.reconfigures(id, handler) => Ok(()),
            Some(id) if self.handler(id, handler)?.writable() => Ok(()),
            Some(id) => Err(HandlerError::NotWritable(format!("{}.{handler}", self.name_of(id)))),
            None => check_global(handler, true),
        }
    }

    /// Writes a handler on behalf of the element, on all workers, as soon as that can be done: now if the
    /// other element is on this worker only and is not running, or lends itself ([`Cx::lend`]); otherwise
    /// when it has returned. Errors are printed, under Click's name they are not. Without an element name,
    /// the handler is the calling element's own or otherwise a global one.
    pub fn call(&mut self, element: Option<&str>, handler: &str, value: &str) {
        let done = match self.whose(element, handler) {
            Ok(None) if handler == "stop" => {
                self.request_stop();
                Ok(())
            }
            Ok(Some(id)) if self.is_here(id) && !self.reconfigures(id, handler) => {
                if self.is_free(id) {
                    self.write_handler(id, handler, value)
                } else {
                    let (handler, value) = (handler.to_owned(), value.to_owned());
                    self.core.later.push_back(Call { from: self.me, to: id, handler, value });
                    Ok(())
                }
            }
            Ok(id) => {
                let of = id.map_or("", |id| self.name_of(id));
                self.core.hub.post_write(self.name(), &format!("{of}.{handler}"), value);
                Ok(())
            }
            Err(e) => Err(e),
        };
        if let Err(e) = done {
            self.core.hub.call_failed(self.name(), &e);
        }
    }

    fn handler(&self, id: ElementId, name: &str) -> Result<Handler, HandlerError> {
        let slot =
            self.graph.slots.get(id.0 as usize).ok_or_else(|| HandlerError::NoElement(String::new()))?;
        find(&slot.handlers, name, &self.graph.shared, &slot.name)
            .cloned()
            .ok_or_else(|| HandlerError::NoHandler(format!("{}.{name}", slot.name)))
    }

    /// Calls a handler of an element that is not running, or that is lent ([`Cx::lend`]).
    fn on<R>(
        &mut self,
        id: ElementId,
        f: impl FnOnce(&mut dyn Any, &mut Cx<'_>) -> R,
    ) -> Result<R, HandlerError> {
        let (slot, lent) = (&self.graph.slots[id.0 as usize], self.lent);
        let base = self.core.scratch.staged.len();
        let mut cx = Cx { graph: self.graph, core: self.core, me: id.0, base, lent };
        if let Ok(mut node) = slot.node.try_borrow_mut() {
            return Ok(f(node.element(), &mut cx));
        }
        let (mut f, mut result) = (Some(f), None);
        if let Some(lent) = lent {
            lent.with(id.0, &mut |element| result = f.take().map(|f| f(element, &mut cx)));
        }
        result.ok_or_else(|| {
            HandlerError::Failed(format!("'{}' is busy with the packet that caused this call", slot.name))
        })
    }

    /// Whether a handler gives an element other arguments, which the control thread does.
    fn reconfigures(&self, id: ElementId, handler: &str) -> bool {
        let slot = &self.graph.slots[id.0 as usize];
        handler == "config" && slot.live && !slot.handlers.iter().any(|h| h.name == handler && h.writable())
    }

    /// Whether handlers of an element can be called now.
    fn is_free(&self, id: ElementId) -> bool {
        self.graph.slots[id.0 as usize].node.try_borrow_mut().is_ok()
            || self.lent.is_some_and(|lent| lent.with(id.0, &mut |_| ()))
    }

    /// Whether the only instance of an element is on this worker, or there is only this worker.
    fn is_here(&self, id: ElementId) -> bool {
        let slot = &self.graph.slots[id.0 as usize];
        self.core.hub.workers() < 2 || (slot.single && slot.runs_here)
    }

    /// Splits `element.handler` and finds the element from the scope of `from`; without an element name it is
    /// a global handler.
    fn target<'s>(&self, from: &str, spec: &'s str) -> Result<(Option<ElementId>, &'s str), HandlerError> {
        match spec.split_once('.') {
            None | Some(("", _)) => Ok((None, spec.trim_start_matches('.'))),
            Some((element, handler)) => match self.graph.find_from(from, element) {
                Some(id) => Ok((Some(id), handler)),
                None => Err(HandlerError::NoElement(element.to_owned())),
            },
        }
    }
}

impl Slot {
    /// The counts of all workers.
    pub(super) fn totals(&self) -> StatsSnapshot {
        let Some(counts) = &self.counts else { return self.stats.snapshot() };
        let mut sum = StatsSnapshot::default();
        counts.stats.iter().for_each(|s| sum.merge(&s.snapshot()));
        sum
    }
}

impl Caller for Cx<'_> {
    fn read(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError> {
        match self.target(from, spec)? {
            (Some(id), handler) => self.read_handler(id, handler, arg),
            (None, handler) => {
                check_global(handler, false)?;
                self.read_global(handler)
            }
        }
    }
    fn write(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError> {
        let (id, handler) = self.target(from, spec)?;
        let Some(id) = id else {
            check_global(handler, true)?;
            if handler == "stop" {
                self.request_stop();
            } else {
                self.core.hub.post_write(self.name(), &format!(".{handler}"), value);
            }
            return Ok(());
        };
        if self.reconfigures(id, handler) {
            let name = self.name_of(id).to_owned();
            self.call(Some(&name), handler, value);
            return Ok(());
        }
        let there =
            matches!(self.handler(id, handler)?.writer, Some(Writer::Shared(..) | Writer::Called(..)));
        if there || (self.is_here(id) && self.is_free(id)) {
            return self.write_handler(id, handler, value);
        }
        // It cannot be called here or now: an error is printed when the call is made.
        let name = self.name_of(id).to_owned();
        self.can_write(Some(&name), handler)?;
        self.call(Some(&name), handler, value);
        Ok(())
    }
    fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<KnownHandler, HandlerError> {
        let (id, handler) = self.target(from, spec)?;
        let Some(id) = id else {
            check_global(handler, write)?;
            return Ok(KnownHandler {
                name: handler.to_owned(),
                takes_parameter: false,
                private: false,
                secret: false,
            });
        };
        let name = format!("{}.{handler}", self.name_of(id));
        let general =
            || KnownHandler { name: name.clone(), takes_parameter: false, private: false, secret: false };
        if write && self.reconfigures(id, handler) {
            return Ok(general());
        }
        let h = match self.handler(id, handler) {
            Err(_) if element_handler(handler) && !write => return Ok(general()),
            Err(_) if element_handler(handler) => return Err(HandlerError::NotWritable(name)),
            own => own?,
        };
        match write {
            true if !h.writable() => Err(HandlerError::NotWritable(name)),
            false if !h.readable() && element_handler(handler) => Ok(general()),
            false if !h.readable() => Err(HandlerError::NotReadable(name)),
            _ => Ok(KnownHandler {
                name,
                takes_parameter: h.takes_parameter,
                private: h.private,
                secret: h.secret,
            }),
        }
    }
    fn now_ns(&self) -> u64 {
        Cx::now_ns(self)
    }
    fn hub(&self) -> &Arc<Hub> {
        Cx::hub(self)
    }
}
