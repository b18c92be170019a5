//! How a class declares its handlers.

use crate::cx::{CalledFn, Cx, Handler, Reader, Writer};
use crate::handler::{CallArgs, Caller, Combine, Dynamic, HandlerError, Llrpc};
use crate::sched::MAX_TICKETS;
use crate::sides::Sides;
use crate::stats::{Counter, StatsSnapshot};
use std::marker::PhantomData;
use std::sync::Arc;

/// The handlers of class `T`, as [`crate::Element::handlers`] declares them.
pub struct Handlers<T> {
    list: Vec<Handler>,
    llrpcs: Vec<(u32, Llrpc)>,
    of: PhantomData<fn(T)>,
}

/// The handler for the worker that runs an element's task.
pub(crate) const HOME_THREAD: &str = "home_thread";

const WRONG: &str = "handler called on another element's state";

impl<T: 'static> Handlers<T> {
    /// The handlers that `declare`, a class's [`crate::Element::handlers`], declares.
    pub(crate) fn declared(declare: fn(&mut Self)) -> (Vec<Handler>, Vec<(u32, Llrpc)>) {
        let mut h = Self { list: Vec::new(), llrpcs: Vec::new(), of: PhantomData };
        declare(&mut h);
        (h.list, h.llrpcs)
    }

    fn entry(&mut self, name: &'static str) -> &mut Handler {
        let at = self.list.iter().position(|h| h.name == name).unwrap_or_else(|| {
            self.list.push(Handler {
                name,
                reader: None,
                writer: None,
                takes_parameter: false,
                private: false,
                secret: false,
                flags: "",
                argument: None,
                dynamic: None,
                only: None,
            });
            self.list.len() - 1
        });
        &mut self.list[at]
    }

    fn reader(
        &mut self,
        name: &'static str,
        combine: Combine,
        f: impl Fn(&mut T, &str, &mut Cx<'_>) -> Result<String, String> + Send + Sync + 'static,
    ) {
        self.entry(name).reader = Some(Reader::Worker(
            Arc::new(move |any, arg, cx| f(any.downcast_mut().ok_or(WRONG)?, arg, cx)),
            combine,
        ));
    }

    /// A read handler whose answer is the same on all workers, or is that of the first.
    pub fn read(&mut self, name: &'static str, f: fn(&T) -> String) {
        self.reader(name, Combine::First, move |t, _, _| Ok(f(t)));
    }
    /// A read handler whose answers are numbers that add up over the workers.
    pub fn sum(&mut self, name: &'static str, f: fn(&T) -> u64) {
        self.reader(name, Combine::Sum, move |t, _, _| Ok(f(t).to_string()));
    }
    /// A read handler whose answers are lists.
    pub fn list(&mut self, name: &'static str, f: fn(&T) -> String) {
        self.reader(name, Combine::Concat, move |t, _, _| Ok(f(t)));
    }
    /// A read handler that needs the context (for instance the time), may fail, and gets the parameter if
    /// [`Handlers::parameter`] declares one.
    pub fn read_with(
        &mut self,
        name: &'static str,
        combine: Combine,
        f: fn(&mut T, &str, &mut Cx<'_>) -> Result<String, String>,
    ) {
        self.reader(name, combine, f);
    }
    /// Declares that reading a handler takes a parameter.
    pub fn parameter(&mut self, name: &'static str) {
        self.entry(name).takes_parameter = true;
    }
    /// Click's handlers of an element with a task: `scheduled` (read), `home_thread`, `tickets` (read/write).
    pub fn task(&mut self) {
        self.reader("scheduled", Combine::First, |_, _, cx| Ok(cx.scheduled().to_string()));
        self.reader(HOME_THREAD, Combine::First, |_, _, cx| Ok(cx.worker().0.to_string()));
        self.write(HOME_THREAD, |_, value, cx| {
            let worker: usize = value.trim().parse().map_err(|_| "bad thread")?;
            if worker >= cx.hub().workers() {
                return Err("bad thread".into());
            }
            // The control thread moves tasks.
            if worker != cx.worker().0 {
                cx.hub().post_write(cx.name(), &format!("{}.{HOME_THREAD}", cx.name()), value);
            }
            Ok(())
        });
        self.reader("tickets", Combine::First, |_, _, cx| Ok(cx.tickets().to_string()));
        self.write("tickets", |_, value, cx| {
            let tickets = value.trim().parse::<i64>().map_err(|_| "syntax error")?;
            cx.set_tickets(tickets.clamp(1, MAX_TICKETS.into()) as u32);
            Ok(())
        });
    }
    /// [`Handlers::task`] for elements with such ports: others have no task.
    pub fn task_only(&mut self, with: fn(&Sides) -> bool) {
        self.task();
        self.only(&["scheduled", HOME_THREAD, "tickets"], with);
    }
    /// Declares that only elements with such ports have these handlers.
    pub fn only(&mut self, names: &[&'static str], with: fn(&Sides) -> bool) {
        for name in names {
            self.entry(name).only = Some(with);
        }
    }
    /// A read handler on a counter: read by any thread without interrupting the worker, summed over workers.
    pub fn counter(&mut self, name: &'static str, f: fn(&T) -> &Counter) {
        self.entry(name).reader =
            Some(Reader::Counter(Arc::new(move |any| any.downcast_ref::<T>().map(|t| f(t).clone()))));
    }
    /// A read handler on the runtime's counters for the element: read by any thread, summed over workers.
    pub fn stats(&mut self, name: &'static str, f: fn(&StatsSnapshot) -> String) {
        self.entry(name).reader = Some(Reader::Stats(f));
    }
    /// [`Handlers::stats`] with the state that the replicas share.
    pub fn shared_stats<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &StatsSnapshot) -> Result<String, String>,
    ) {
        self.entry(name).reader = Some(Reader::SharedStats(
            std::any::TypeId::of::<S>(),
            Arc::new(move |any, stats| f(any.downcast_ref().ok_or(WRONG)?, stats)),
        ));
    }
    /// A read handler on the state that the replicas share ([`crate::ConfigCx::shared`]); runs on the
    /// reader's thread and never interrupts a worker.
    pub fn shared_read<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &str) -> Result<String, String>,
    ) {
        self.entry(name).reader = Some(Reader::Shared(
            std::any::TypeId::of::<S>(),
            Arc::new(move |any, arg| f(any.downcast_ref().ok_or(WRONG)?, arg)),
        ));
    }
    /// [`Handlers::shared_read`] with a parameter.
    pub fn shared_read_with<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &str) -> Result<String, String>,
    ) {
        self.shared_read(name, f);
        self.parameter(name);
    }
    /// A read handler on the state that the element shares and on other handlers; runs on the caller's
    /// thread.
    pub fn called_read<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &mut dyn Caller, &CallArgs<'_>) -> Result<String, HandlerError>,
    ) {
        let called = called(f);
        let entry = self.entry(name);
        entry.reader = Some(Reader::Called(std::any::TypeId::of::<S>(), called));
        entry.takes_parameter = true;
    }
    /// A write handler on the state that the element shares and on other handlers; runs on the caller's
    /// thread.
    pub fn called_write<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &mut dyn Caller, &CallArgs<'_>) -> Result<String, HandlerError>,
    ) {
        self.entry(name).writer = Some(Writer::Called(std::any::TypeId::of::<S>(), called(f)));
    }
    /// Handlers whose names depend on the configuration; `which` returns the rules for them.
    pub fn called_any<S: Send + Sync + 'static>(
        &mut self,
        which: fn(&S) -> Dynamic,
        f: fn(&S, &mut dyn Caller, &CallArgs<'_>) -> Result<String, HandlerError>,
    ) {
        self.called_read("*", f);
        self.called_write("*", f);
        let kind = std::any::TypeId::of::<S>();
        let nothing = Dynamic::default;
        self.entry("*").dynamic =
            Some((kind, Arc::new(move |any| any.downcast_ref().map_or_else(nothing, which))));
    }
    /// Declares that what is written becomes the value of an argument: that with the keyword, or the one at
    /// the position if it is not given by keyword. The handlers `config` and `flatconfig` then show it.
    pub fn argument(&mut self, name: &'static str, position: usize, keyword: &'static str) {
        self.entry(name).argument = Some((position, keyword));
    }
    /// The order in which Click's class adds its handlers, and their flags, behind a blank: `.` the value
    /// changes rarely, `%` it is taken and given as it is, `$` reading takes long, `U` seldom used, `D` for
    /// old configurations only, `b` what is written is ignored, `c` a boolean. The handler `handlers` lists
    /// them with these flags, the last one first; handlers that are not named here count as added before.
    /// The flag `=`, which is the last one and is not shown, says that Click's class computes its arguments
    /// from this value: then `config` does not have the flag for values that change rarely. To be called
    /// when all are declared.
    pub fn listed(&mut self, order: &[&'static str]) {
        for item in order {
            let (name, flags) = item.split_once(' ').unwrap_or((item, ""));
            let at = self.list.iter().position(|h| h.name == name);
            debug_assert!(at.is_some(), "no handler {name} is declared");
            if let Some(at) = at {
                let mut handler = self.list.remove(at);
                handler.flags = flags;
                self.list.push(handler);
            }
        }
    }
    /// Declares an LLRPC with the number that Click's clients send for it.
    pub fn llrpc(&mut self, number: u32, f: Llrpc) {
        self.llrpcs.push((number, f));
    }
    /// Declares that reading a handler takes no parameter, although it acts through its caller.
    pub fn no_parameter(&mut self, name: &'static str) {
        self.entry(name).takes_parameter = false;
    }
    /// Makes a handler unavailable over control sockets.
    pub fn private(&mut self, name: &'static str) {
        self.entry(name).private = true;
    }
    /// Declares that the written value is a secret, such as a key: messages show only the handler's name.
    pub fn secret(&mut self, name: &'static str) {
        self.entry(name).secret = true;
    }
    /// A write handler, run on every worker's replica between two batches.
    pub fn write(&mut self, name: &'static str, f: fn(&mut T, &str, &mut Cx<'_>) -> Result<(), String>) {
        self.entry(name).writer =
            Some(Writer::Worker(Arc::new(move |any, arg, cx| f(any.downcast_mut().ok_or(WRONG)?, arg, cx))));
    }
    /// A write handler on the state that the replicas share; runs once, on the writer's thread.
    pub fn shared_write<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &str) -> Result<(), String>,
    ) {
        self.entry(name).writer = Some(Writer::Shared(
            std::any::TypeId::of::<S>(),
            Arc::new(move |any, arg| f(any.downcast_ref().ok_or(WRONG)?, arg)),
        ));
    }
}

fn called<S: 'static>(
    f: fn(&S, &mut dyn Caller, &CallArgs<'_>) -> Result<String, HandlerError>,
) -> Arc<CalledFn> {
    Arc::new(move |any, caller, asked| {
        let state = any.downcast_ref().ok_or_else(|| HandlerError::Failed(WRONG.into()))?;
        f(state, caller, asked)
    })
}
