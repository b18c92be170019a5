//! The element graph of one worker, as it runs, and the types that lead back to it. They are in one file
//! because each of them needs the next: a [`Graph`] has slots, a slot has an element ([`Node`]) and its
//! handlers, these are called with a [`Cx`], and a `Cx` has the graph.

use super::core::Core;
use crate::ElementId;
use crate::builtin::{About, element_handler};
use crate::handler::{CallArgs, Caller, Combine, Dynamic, HandlerError};
use crate::sides::Sides;
use crate::stats::{Counter, SlotStats, StatsSnapshot};
use crate::store::{SharedStore, find_scoped};
use dpdk::{Batch, Packet};
use lang::NameDb;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What an element may do while it runs.
///
/// Packets that it emits are delivered when it returns, in the order of emission, depth first; so no element
/// is ever entered while it runs. Only its handlers may be called meanwhile, where it lends itself to them:
/// [`Cx::lend`].
pub struct Cx<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) core: &'a mut Core,
    pub(crate) me: u32,
    /// The position at which this element's own emissions begin among the staged ones.
    pub(crate) base: usize,
    /// The elements that are in the middle of a call and may nevertheless be used by handlers: [`Cx::lend`].
    pub(super) lent: Option<&'a dyn Lenders>,
}

/// The elements that are in the middle of a call and lent to handlers ([`Cx::lend`]), the innermost first.
pub(crate) trait Lenders {
    /// Calls `f` with the element in a slot. Returns false, without a call, if it is not lent, or if one of
    /// its handlers is running already.
    fn with(&self, slot: u32, f: &mut dyn FnMut(&mut dyn Any)) -> bool;
}

/// The object-safe form in which the graph holds an element.
pub trait Node: Send {
    /// See [`crate::Vector::push`].
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>);
    /// See [`crate::Vector::pull`].
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>);
    /// Passes packets along the element's fast path ([`crate::Step`]), if its class has one.
    fn step(&mut self, _packets: &mut [Packet], _cx: &mut Cx<'_>) -> Passed {
        Passed { packets: 0, output: 0 }
    }
    /// Whether packets go in and come out one by one, so that [`Node::map`] can be used.
    fn maps(&self) -> bool {
        false
    }
    /// Processes a batch in place; packets that remain in it leave by the output with the number of the
    /// input, or by output 0.
    fn map(&mut self, _batch: &mut Batch, _cx: &mut Cx<'_>) {}
    /// See [`crate::Element::prefetch`].
    fn prefetch(&self, _step: usize) {}
    /// See [`crate::Element::initialize`].
    ///
    /// # Errors
    /// See there.
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String>;
    /// See [`crate::Element::run_task`].
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool;
    /// See [`crate::Element::run_timer`].
    fn run_timer(&mut self, id: u32, cx: &mut Cx<'_>);
    /// See [`crate::Element::finish`].
    fn finish(&mut self, _cx: &mut Cx<'_>) {}
    /// See [`crate::Element::abandon`].
    fn abandon(&mut self, _cx: &mut Cx<'_>) {}
    /// See [`crate::Element::take_state`]; does nothing if `old` holds another type.
    fn take_state(&mut self, old: &mut dyn Node, cx: &mut Cx<'_>);
    /// See [`crate::Element::reconfigured`].
    fn reconfigured(&mut self, old: &mut dyn Node, cx: &mut Cx<'_>) {
        self.take_state(old, cx);
    }
    /// The element itself, for handlers.
    fn element(&mut self) -> &mut dyn Any;
}

/// An input port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Input {
    pub(crate) pull: bool,
    /// The source of a pull input's packets: (slot, output port).
    pub(crate) from: (u32, u16),
    /// The elements upstream whose emptiness determines whether a pull can return packets.
    pub(crate) notifiers: Vec<u32>,
    /// Whether some element upstream sends no notifications.
    pub(crate) always_active: bool,
}

/// An output port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    pub(crate) pull: bool,
    /// The destination of a push output: (slot, input port).
    pub(crate) to: u32,
    pub(crate) port: u16,
    /// The elements downstream that determine whether a push is accepted: those that may be full.
    pub(crate) notifiers: Vec<u32>,
    /// The nearest elements downstream that hold packets and notify whether they have some.
    pub(crate) queues: Vec<u32>,
}

/// What an element's notifications wake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    /// Tasks that wait for packets.
    pub(crate) empty: Vec<u32>,
    /// Elements with [`crate::Notify::Gate`] that packets open.
    pub(crate) gates: Vec<u32>,
    /// Tasks that wait for space.
    pub(crate) room: Vec<u32>,
}

/// One element on one worker. What a delivery needs is in the first cache line.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) node: RefCell<Box<dyn Node>>,
    /// Whether it has a fast path that is used: [`Node::step`].
    pub(crate) steps: bool,
    pub(crate) stats: Arc<SlotStats>,
    pub(crate) outputs: Box<[Output]>,
    /// See [`Node::maps`].
    pub(crate) maps: bool,
    pub(crate) name: Arc<str>,
    pub(crate) class: &'static str,
    pub(crate) inputs: Vec<Input>,
    pub(crate) listeners: Listeners,
    /// Whether its tasks and timers run on this worker.
    pub(crate) runs_here: bool,
    /// See [`crate::Element::PULL_THROUGH`].
    pub(crate) pull_through: Option<(usize, usize)>,
    pub(crate) handlers: Arc<[Handler]>,
    /// Whether it is the only instance.
    pub(crate) single: bool,
    /// See [`crate::Element::LIVE`].
    pub(crate) live: bool,
    /// Whether the element of the configuration before goes on here, as only others move to another worker.
    pub(crate) kept: bool,
    /// Whether tasks of this worker pull from it, if any do.
    pub(crate) pulls_here: bool,
    /// What other threads may read of all instances; none while the elements are made.
    pub(crate) counts: Option<Arc<Counts>>,
}

/// What any thread may read of all instances of an element.
#[derive(Default)]
pub(crate) struct Counts {
    /// By the name of the handler.
    pub(crate) counters: HashMap<&'static str, Vec<Counter>>,
    pub(crate) stats: Vec<Arc<SlotStats>>,
}

/// The element graph of one worker. Slot numbers are the same on all workers.
#[derive(Default)]
pub struct Graph {
    pub(crate) slots: Vec<Slot>,
    pub(crate) names: Arc<HashMap<String, u32>>,
    pub(crate) shared: Arc<SharedStore>,
    /// The names that texts may use.
    pub(crate) texts: NameDb,
    /// What handlers show of the configuration; none while the elements are made.
    pub(crate) about: Option<Arc<About>>,
}

impl Graph {
    /// Finds `name` as seen from the element called `from`: first beside it in its compound element, then
    /// outwards.
    pub(crate) fn find_from(&self, from: &str, name: &str) -> Option<ElementId> {
        find_scoped(&self.names, from, name).map(ElementId)
    }
}

type ReadFn = dyn Fn(&mut dyn Any, &str, &mut Cx<'_>) -> Result<String, String> + Send + Sync;
type WriteFn = dyn Fn(&mut dyn Any, &str, &mut Cx<'_>) -> Result<(), String> + Send + Sync;
type CounterFn = dyn Fn(&dyn Any) -> Option<Counter> + Send + Sync;
pub(crate) type CalledFn = dyn Fn(&(dyn Any + Send + Sync), &mut dyn Caller, &CallArgs<'_>) -> Result<String, HandlerError>
    + Send
    + Sync;
type DynamicFn = dyn Fn(&(dyn Any + Send + Sync)) -> Dynamic + Send + Sync;
type SharedReadFn = dyn Fn(&(dyn Any + Send + Sync), &str) -> Result<String, String> + Send + Sync;
type StatsFn = dyn Fn(&(dyn Any + Send + Sync), &StatsSnapshot) -> Result<String, String> + Send + Sync;
type SharedWriteFn = dyn Fn(&(dyn Any + Send + Sync), &str) -> Result<(), String> + Send + Sync;

/// How a read handler gets its value.
#[derive(Clone)]
pub(crate) enum Reader {
    /// On the worker, between two batches.
    Worker(Arc<ReadFn>, Combine),
    /// On the reader's thread, from a counter that the worker writes.
    Counter(Arc<CounterFn>),
    /// On the reader's thread, from state that synchronizes itself.
    Shared(TypeId, Arc<SharedReadFn>),
    /// On the reader's thread, from state that synchronizes itself and other handlers.
    Called(TypeId, Arc<CalledFn>),
    /// On the reader's thread, from the runtime's counters for the element.
    Stats(fn(&StatsSnapshot) -> String),
    /// The same, with state that synchronizes itself.
    SharedStats(TypeId, Arc<StatsFn>),
}

/// How a write handler acts.
#[derive(Clone)]
pub(crate) enum Writer {
    /// On every worker's replica, between two batches.
    Worker(Arc<WriteFn>),
    /// On the writer's thread, on state that synchronizes itself.
    Shared(TypeId, Arc<SharedWriteFn>),
    /// On the writer's thread, on state that synchronizes itself and with other handlers.
    Called(TypeId, Arc<CalledFn>),
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
    /// More on it, as the handler `handlers` lists it: [`crate::Handlers::listed`].
    pub flags: &'static str,
    /// The argument that writing changes: its position, and its keyword.
    pub argument: Option<(usize, &'static str)>,
    /// For the entry that stands for handlers with other names: returns these.
    pub(crate) dynamic: Option<(TypeId, Arc<DynamicFn>)>,
    /// Which elements have it, by their ports; all if it is not given.
    pub(crate) only: Option<fn(&Sides) -> bool>,
}

impl Handler {
    /// The handlers with other names, if this entry stands for them.
    pub(crate) fn others(&self, store: &SharedStore, element: &str) -> Option<Dynamic> {
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

/// The class's handler (and its element) for a name.
pub(crate) fn find<'a>(
    handlers: &'a [Handler],
    name: &str,
    store: &SharedStore,
    element: &str,
) -> Option<&'a Handler> {
    handlers.iter().find(|h| h.name == name && h.dynamic.is_none()).or_else(|| {
        let other = handlers.iter().find(|h| h.dynamic.is_some())?;
        let others = other.others(store, element)?;
        let any = others.any && !element_handler(name);
        (any || others.readable.iter().any(|n| n == name)).then_some(other)
    })
}

/// The fast path of a class: [`StepFacts::of`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct StepFacts {
    /// The type that implements it.
    pub(crate) of: TypeId,
    pub(crate) run: RunStep,
}

/// Passes the packets of a batch along the fast path of an element, up to the first that needs the general
/// path.
pub(crate) type RunStep = fn(&mut dyn Any, &mut [Packet], &mut Cx<'_>) -> Passed;

/// How far a batch got on an element's fast path.
pub struct Passed {
    /// The number of packets that passed, from the first on; those after them need the general path.
    pub(crate) packets: usize,
    /// The output by which they leave.
    pub(crate) output: usize,
}
