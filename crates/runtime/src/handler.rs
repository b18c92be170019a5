//! Handlers: the named values of an element that can be read and written while the router runs.

use crate::cx::Cx;
use crate::element::Element;
use crate::stats::{Counter, StatsSnapshot};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// How the answers of several workers' replicas become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// The replicas agree: the first one's answer.
    First,
    /// The answers are numbers: their sum.
    Sum,
    /// The answers are lists: one after the other.
    Concat,
}

type ReadFn = dyn Fn(&mut dyn Any, &str, &mut Cx<'_>) -> Result<String, String> + Send + Sync;
type WriteFn = dyn Fn(&mut dyn Any, &str, &mut Cx<'_>) -> Result<(), String> + Send + Sync;
type CounterFn = dyn Fn(&dyn Any) -> Option<Counter> + Send + Sync;
type CalledFn = dyn Fn(&(dyn Any + Send + Sync), &mut dyn Caller, &Asked<'_>) -> Result<String, HandlerError>
    + Send
    + Sync;
type DynamicFn = dyn Fn(&(dyn Any + Send + Sync)) -> Dynamic + Send + Sync;
type SharedReadFn = dyn Fn(&(dyn Any + Send + Sync), &str) -> Result<String, String> + Send + Sync;
type StatsFn = dyn Fn(&(dyn Any + Send + Sync), &StatsSnapshot) -> Result<String, String> + Send + Sync;
type SharedWriteFn = dyn Fn(&(dyn Any + Send + Sync), &str) -> Result<(), String> + Send + Sync;

/// The side from which a handler is called: the control side ([`crate::Router`]) or a worker ([`Cx`]). Names of elements
/// are looked up from the scope of the element `from` (empty: from outside).
pub trait Caller {
    /// Reads `element.handler` or a global handler.
    ///
    /// # Errors
    /// No such element or handler, it cannot be read, or it failed.
    fn read(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError>;
    /// Writes a handler.
    ///
    /// # Errors
    /// No such element or handler, it cannot be written, or it refused the value.
    fn write(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError>;
    /// What is known of a handler that is to be read (or written).
    ///
    /// # Errors
    /// No such element or handler, or it cannot be read (or written).
    fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<Known, HandlerError>;
    /// Now, in nanoseconds since the epoch.
    fn now_ns(&self) -> u64;
    /// The router-wide state.
    fn hub(&self) -> &Arc<crate::Hub>;
}

/// A handler that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// `element.handler` with the element's full name, or a global handler's name.
    pub name: String,
    /// Whether reading takes a parameter.
    pub takes_parameter: bool,
    /// Whether it is for the configuration itself only, not for control sockets.
    pub private: bool,
    /// Whether what is written is a secret that no message may show.
    pub secret: bool,
}

/// A call of a handler that acts through its caller.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The handler's name.
    pub name: &'a str,
    /// The parameter or the value.
    pub value: &'a str,
    /// Whether it is written.
    pub write: bool,
}

/// The handlers that an element has beside those of its class.
#[derive(Clone, Debug, Default)]
pub struct Dynamic {
    /// Handlers that can be read.
    pub readable: Vec<String>,
    /// Whether every name is a handler that can be read and written.
    pub any: bool,
}

/// How a read handler gets its value.
#[derive(Clone)]
pub(crate) enum Reader {
    /// On the worker, between two vectors.
    Worker(Arc<ReadFn>, Combine),
    /// On the reader's thread, from a counter that the worker writes.
    Counter(Arc<CounterFn>),
    /// On the reader's thread, from state that synchronises itself.
    Shared(std::any::TypeId, Arc<SharedReadFn>),
    /// On the reader's thread, from state that synchronises itself and other handlers.
    Called(std::any::TypeId, Arc<CalledFn>),
    /// On the reader's thread, from what the runtime counts for the element.
    Stats(fn(&StatsSnapshot) -> String),
    /// The same, with state that synchronises itself.
    SharedStats(std::any::TypeId, Arc<StatsFn>),
}

/// How a write handler acts.
#[derive(Clone)]
pub(crate) enum Writer {
    /// On every worker's replica, between two vectors.
    Worker(Arc<WriteFn>),
    /// On the writer's thread, on state that synchronises itself.
    Shared(std::any::TypeId, Arc<SharedWriteFn>),
    /// On the writer's thread, on state that synchronises itself and with other handlers.
    Called(std::any::TypeId, Arc<CalledFn>),
}

/// One handler of a class.
#[derive(Clone)]
pub struct Handler {
    /// The name after the dot.
    pub name: &'static str,
    pub(crate) reader: Option<Reader>,
    pub(crate) writer: Option<Writer>,
    /// Whether reading takes a parameter.
    pub takes_parameter: bool,
    /// Whether it is for the configuration itself only, not for control sockets.
    pub private: bool,
    /// Whether what is written is a secret that no message may show.
    pub secret: bool,
    /// For the entry that stands for handlers with other names: which ones there are.
    pub(crate) dynamic: Option<(std::any::TypeId, Arc<DynamicFn>)>,
}

impl Handler {
    /// The handlers with other names, if this entry stands for them.
    pub(crate) fn others(&self, store: &crate::SharedStore, element: &str) -> Option<Dynamic> {
        let (kind, f) = self.dynamic.as_ref()?;
        store.get(element, *kind).map(|state| f(&*state))
    }
    /// Whether it can be read.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.reader.is_some()
    }
    /// Whether it can be written.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.writer.is_some()
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}{}",
            self.name,
            if self.readable() { " r" } else { "" },
            if self.writable() { "w" } else { "" }
        )
    }
}

/// The handlers of class `T`, as [`Element::handlers`] declares them.
pub struct Handlers<T> {
    list: Vec<Handler>,
    of: PhantomData<fn(T)>,
}

const WRONG: &str = "handler called on another element's state";

impl<T: Element> Handlers<T> {
    pub(crate) fn of_class() -> Vec<Handler> {
        let mut h = Self { list: Vec::new(), of: PhantomData };
        T::handlers(&mut h);
        h.list
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
                dynamic: None,
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
    /// A read handler that needs the context (the time, say), may fail, and gets the parameter, if
    /// [`Handlers::parameter`] says that there is one.
    pub fn read_with(
        &mut self,
        name: &'static str,
        combine: Combine,
        f: fn(&mut T, &str, &mut Cx<'_>) -> Result<String, String>,
    ) {
        self.reader(name, combine, f);
    }
    /// Says that reading a handler takes a parameter.
    pub fn parameter(&mut self, name: &'static str) {
        self.entry(name).takes_parameter = true;
    }
    /// Click's handlers of an element with a task: `scheduled` and `home_thread` (read), `tickets` (read/write).
    pub fn task(&mut self) {
        self.reader("scheduled", Combine::First, |_, _, cx| Ok(cx.scheduled().to_string()));
        self.reader("home_thread", Combine::First, |_, _, cx| Ok(cx.worker().0.to_string()));
        self.reader("tickets", Combine::First, |_, _, cx| Ok(cx.tickets().to_string()));
        self.write("tickets", |_, value, cx| {
            let tickets = value.trim().parse().ok().filter(|n| *n > 0).ok_or("bad number of tickets")?;
            cx.set_tickets(tickets);
            Ok(())
        });
    }
    /// A read handler on a counter: read by any thread without disturbing the worker, summed over workers.
    pub fn counter(&mut self, name: &'static str, f: fn(&T) -> &Counter) {
        self.entry(name).reader =
            Some(Reader::Counter(Arc::new(move |any| any.downcast_ref::<T>().map(|t| f(t).clone()))));
    }
    /// A read handler on what the runtime counts for the element: read by any thread, summed over workers.
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
    /// A read handler on the state that the replicas share ([`crate::ConfigCx::shared`]); runs on the reader's
    /// thread and never disturbs a worker.
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
    /// A read handler on the state that the element shares and on other handlers; runs on the caller's side.
    pub fn called_read<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &mut dyn Caller, &Asked<'_>) -> Result<String, HandlerError>,
    ) {
        let called = called(f);
        let entry = self.entry(name);
        entry.reader = Some(Reader::Called(std::any::TypeId::of::<S>(), called));
        entry.takes_parameter = true;
    }
    /// A write handler on the state that the element shares and on other handlers; runs on the caller's side.
    pub fn called_write<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        f: fn(&S, &mut dyn Caller, &Asked<'_>) -> Result<String, HandlerError>,
    ) {
        self.entry(name).writer = Some(Writer::Called(std::any::TypeId::of::<S>(), called(f)));
    }
    /// Handlers whose names the configuration decides; `which` says which ones there are.
    pub fn called_any<S: Send + Sync + 'static>(
        &mut self,
        which: fn(&S) -> Dynamic,
        f: fn(&S, &mut dyn Caller, &Asked<'_>) -> Result<String, HandlerError>,
    ) {
        self.called_read("*", f);
        self.called_write("*", f);
        let kind = std::any::TypeId::of::<S>();
        let nothing = Dynamic::default;
        self.entry("*").dynamic =
            Some((kind, Arc::new(move |any| any.downcast_ref().map_or_else(nothing, which))));
    }
    /// Keeps a handler from control sockets.
    pub fn private(&mut self, name: &'static str) {
        self.entry(name).private = true;
    }
    /// Says that what is written is a secret, such as a key: messages show the handler's name only.
    pub fn secret(&mut self, name: &'static str) {
        self.entry(name).secret = true;
    }
    /// A write handler, run on every worker's replica between two vectors.
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
    f: fn(&S, &mut dyn Caller, &Asked<'_>) -> Result<String, HandlerError>,
) -> Arc<CalledFn> {
    Arc::new(move |any, caller, asked| {
        let state = any.downcast_ref().ok_or_else(|| HandlerError::Failed(WRONG.into()))?;
        f(state, caller, asked)
    })
}

/// The handler of a class (and its element) that a name means.
pub(crate) fn find<'a>(
    handlers: &'a [Handler],
    name: &str,
    store: &crate::SharedStore,
    element: &str,
) -> Option<&'a Handler> {
    handlers.iter().find(|h| h.name == name && h.dynamic.is_none()).or_else(|| {
        let other = handlers.iter().find(|h| h.dynamic.is_some())?;
        let others = other.others(store, element)?;
        (others.any || others.readable.iter().any(|n| n == name)).then_some(other)
    })
}

/// Why a handler call failed. The texts are those of Click's driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// There is no such element.
    #[error("no element named '{0}'")]
    NoElement(String),
    /// The element has no such handler.
    #[error("no handler named '{0}'")]
    NoHandler(String),
    /// The handler can only be written.
    #[error("'{0}' is a write handler")]
    NotReadable(String),
    /// The handler can only be read.
    #[error("'{0}' is a read handler")]
    NotWritable(String),
    /// The element refused.
    #[error("{0}")]
    Failed(String),
    /// The worker that owns the element did not answer.
    #[error("worker {0} does not answer")]
    NoAnswer(usize),
}
