//! The traits that an element file implements.
//!
//! An element implements [`Element`] (its name, ports, arguments, handlers, tasks and timers) and one of the
//! two data-path traits:
//!
//! * [`Simple`]: a function from a packet to a packet or nothing. Works in push and in pull paths.
//! * [`Vector`]: the general case, whole batches in and out, by push and by pull.
//!
//! An element without packets (a table, an information element) implements only [`Element`].
//!
//! The batch loop of the first is written once, here, and monomorphized for each element; dispatch is
//! dynamic once per batch. An element never calls another element: it *emits* packets through [`Cx`], and
//! the runtime delivers them when the element has returned. That is why `&mut self` is sound in every graph,
//! cyclic ones included.

use crate::cx::{Cx, Node, Passed, StepFacts};
use crate::declare::Handlers;
use crate::facts::{DropCase, DropReason, Fields, Opens, Role};
use crate::{ArgError, Args, ConfigCx};
use dpdk::{Batch, Packet};
use std::any::Any;

/// How the replicas of an element on different workers relate to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Every worker has its own instance with its own state; counters are summed when they are read.
    PerWorker,
    /// Every worker has its own instance, and the instances share state that synchronizes itself
    /// (see [`ConfigCx::shared`]).
    Shared,
    /// There is one instance, on one worker; the other workers hand their packets over to it. This is the
    /// safe default, and `valiant check` reports such elements, as they do not run in parallel.
    Single,
}

/// The notifications of an element to its neighbors, so that they can sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notify {
    /// None: consumers downstream depend on what is upstream of it, and sources upstream on what is
    /// downstream.
    None,
    /// Its pull outputs notify consumers when they have packets ([`Cx::set_nonempty`]).
    Empty,
    /// As [`Notify::Empty`], and its push inputs notify sources when they are no longer full
    /// ([`Cx::set_full`]).
    EmptyAndFull,
    /// Its pull outputs notify consumers when they may have packets, independent of what is upstream
    /// ([`Cx::set_nonempty`]), so that a consumer sleeps while packets are held back. It starts as having
    /// packets, and counts as having some again as soon as an element upstream gets some.
    Gate,
    /// Its pull outputs notify consumers when they have packets, independent of what is upstream; that only
    /// wakes the consumers.
    Deciding,
    /// Its push inputs notify sources when they are no longer full ([`Cx::set_full`]).
    Full,
    /// Its pull outputs never have packets.
    Silent,
}

/// When an element is configured relative to others, earliest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Information elements: they define names and thread placements that the others use.
    Info,
    /// Tables and other elements that others refer to by name.
    Table,
    /// Everything else.
    Normal,
    /// Elements that refer to any others by name.
    Last,
}

/// The part that all elements have: identity, configuration, handlers, tasks, timers.
pub trait Element: Sized + Send + 'static {
    /// The class name in configurations.
    const CLASS: &'static str;
    /// Click's port count code, `INPUTS/OUTPUTS`, for example `1/1`, `1/1-2`, `-/-`, `0/0`, `1/=`.
    const PORTS: &'static str = "1/1";
    /// Click's processing code: `h` push, `l` pull, `a` agnostic, for example `a/a`, `h/l`, `a/ah`.
    const PROCESSING: &'static str = "a/a";
    /// Click's flow code: which inputs' packets may leave by which outputs.
    const FLOW: &'static str = "x/x";
    /// How the replicas share state.
    const SHARING: Sharing = Sharing::Single;
    /// Which notifications it sends.
    const NOTIFY: Notify = Notify::None;
    /// The phase in which it is configured.
    const PHASE: Phase = Phase::Normal;
    /// A pull output and the pull input whose packets it passes on unchanged. Such an output can be pulled
    /// while the element itself pulls, so a path may lead from it back into the element.
    const PULL_THROUGH: Option<(usize, usize)> = None;
    /// The parts of a packet that the element's actions, output or counters depend on. Forwarding, copying or
    /// dropping a packet does not count as reading, and neither does reading its length.
    const READS: Fields = Fields::ALL;
    /// The parts of a packet that it may change: everything if it makes packets.
    const WRITES: Fields = Fields::ALL;
    /// The annotations that every packet which leaves by output 0 has from this element, independent of their
    /// previous values. `NONE` is always correct.
    const SETS: Fields = Fields::NONE;
    /// Its drop reasons ([`Cx::drop`], [`Cx::fail`]), at most [`crate::MAX_REASONS`], and when each occurs.
    /// Handlers list the counts in this order, and the manual the reasons.
    const DROPS: &'static [DropCase] = &[];
    /// Its role for code that handles a configuration as a whole.
    const ROLE: Role = Role::Ordinary;
    /// Whether the arguments of its elements can be changed while the router runs (the handler `config` is
    /// writable, as Click's is where `can_live_reconfigure` says so). The runtime then makes such an element
    /// anew, initializes it, and has it take the state of the one before ([`Element::reconfigured`]), between
    /// two batches. It must not use ports of the machine, and no other element its shared state.
    const LIVE: bool = false;
    /// `Some(StepFacts::of::<Self>())` if the type implements [`crate::Step`]: its fast path.
    const STEP: Option<StepFacts> = None;
    /// What outside the process its elements open, or reach by instructions in their arguments or handlers.
    /// Tools that try any class leave such ones out.
    const OPENS: Option<Opens> = None;
    /// The manual, in the fixed headings of `doc/elements.md`, without the drop reasons; usually
    /// `manual!("section/class")`.
    const MANUAL: &'static str;

    /// Reads the arguments and makes the element.
    ///
    /// Runs once for each worker on the control thread, and once more for each hot swap.
    ///
    /// # Errors
    /// An argument is missing, malformed or unknown, or names something that is not there.
    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError>;

    /// Declares the handlers of the class.
    fn handlers(_h: &mut Handlers<Self>) {}

    /// Asks the processor to fetch what the next packets need and the element itself does not hold
    /// ([`dpdk::prefetch`]): where many routers share a processor, nothing of it is in a cache when it is
    /// their turn. Called twice, some time apart: with `step` 0 for what the element points to, with 1 for
    /// what that points to in turn. Must not wait, nor read what it asks for.
    fn prefetch(&self, _step: usize) {}

    /// Runs once before the first packet, when all elements are configured: schedules tasks and timers.
    ///
    /// # Errors
    /// A message; the configuration then does not start.
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// One run of the element's task. Returns whether there was work to do; an element that wants to run
    /// again calls [`Cx::reschedule`].
    fn run_task(&mut self, _cx: &mut Cx<'_>) -> bool {
        false
    }

    /// A timer set with [`Cx::timer_after`] has expired.
    fn run_timer(&mut self, _id: u32, _cx: &mut Cx<'_>) {}

    /// The router has stopped: the element emits packets that it has held back in order to process them with
    /// others. They are still delivered; tasks and timers do not run any more. Queues keep their packets.
    fn finish(&mut self, _cx: &mut Cx<'_>) {}

    /// Takes over the state of the element of the same name and class in the configuration that this one
    /// replaces. Runs on the worker, between two batches; tasks and timers have been initialized.
    fn take_state(&mut self, _old: &mut Self, _cx: &mut Cx<'_>) {}

    /// The same where only the arguments change while the router runs ([`Element::LIVE`]).
    fn reconfigured(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.take_state(old, cx);
    }

    /// The element's own task, or all tasks that pull from it, have left this worker for another. Packets
    /// that it holds here would get no further: it sends them with [`Cx::reschedule_here`], or drops them.
    fn abandon(&mut self, _cx: &mut Cx<'_>) {}
}

/// A packet in, a packet or nothing out.
pub trait Simple: Element {
    /// Processes one packet. `None` means that the packet was consumed: given to [`Cx::drop`], [`Cx::fail`]
    /// or [`Cx::output`].
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet>;
}

/// Whole batches, push and pull.
pub trait Vector: Element {
    /// Packets arrive on a push input.
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        cx.drop_batch(batch, DropReason::NO_PUSH_PATH);
    }

    /// A consumer asks a pull output for up to `max` packets, which are appended to `out`.
    fn pull(&mut self, _port: usize, _max: usize, _out: &mut Batch, _cx: &mut Cx<'_>) {}
}

macro_rules! common {
    () => {
        fn step(&mut self, packets: &mut [Packet], cx: &mut Cx<'_>) -> Passed {
            match T::STEP {
                Some(step) => (step.run)(&mut self.0, packets, cx),
                None => Passed { packets: 0, output: 0 },
            }
        }
        fn prefetch(&self, step: usize) {
            self.0.prefetch(step);
        }
        fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
            self.0.initialize(cx)
        }
        fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
            self.0.run_task(cx)
        }
        fn run_timer(&mut self, id: u32, cx: &mut Cx<'_>) {
            self.0.run_timer(id, cx);
        }
        fn finish(&mut self, cx: &mut Cx<'_>) {
            self.0.finish(cx);
        }
        fn abandon(&mut self, cx: &mut Cx<'_>) {
            self.0.abandon(cx);
        }
        fn take_state(&mut self, old: &mut dyn Node, cx: &mut Cx<'_>) {
            if let Some(old) = old.element().downcast_mut() {
                self.0.take_state(old, cx);
            }
        }
        fn reconfigured(&mut self, old: &mut dyn Node, cx: &mut Cx<'_>) {
            if let Some(old) = old.element().downcast_mut() {
                self.0.reconfigured(old, cx);
            }
        }
        fn element(&mut self) -> &mut dyn Any {
            &mut self.0
        }
    };
}

// The replicas of an element are made one after the other, one for each worker, and so are next to each other
// in memory: data that one worker writes must not be in the two cache lines that the processor fetches
// together for another worker.
#[repr(align(128))]
pub(crate) struct SimpleNode<T>(pub(crate) T);

impl<T: Simple> Node for SimpleNode<T> {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        batch.filter_map_in_place(|p| self.0.packet(p, cx));
        // With several ports, a simple element connects input N to output N, or to output 0 if it has only
        // one.
        cx.output_batch(if port < cx.n_outputs() { port } else { 0 }, batch);
    }
    fn maps(&self) -> bool {
        true
    }
    fn map(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        batch.filter_map_in_place(|p| self.0.packet(p, cx));
    }
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut batch = cx.spare_batch();
        cx.lend(&mut self.0, |cx| cx.pull(port, max, &mut batch));
        batch.filter_map_in_place(|p| self.0.packet(p, cx));
        out.append(&mut batch);
        cx.recycle(batch);
    }
    common!();
}

#[repr(align(128))]
pub(crate) struct VectorNode<T>(pub(crate) T);

impl<T: Vector> Node for VectorNode<T> {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.0.push(port, batch, cx);
    }
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        self.0.pull(port, max, out, cx);
    }
    common!();
}

pub(crate) struct InertNode<T>(pub(crate) T);

impl<T: Element> Node for InertNode<T> {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        cx.drop_batch(batch, DropReason::NO_PACKET_PATH);
    }
    fn pull(&mut self, _port: usize, _max: usize, _out: &mut Batch, _cx: &mut Cx<'_>) {}
    common!();
}
