//! # StaticThreadSched
//! Binds elements to workers.
//!
//! ## Synopsis
//! `StaticThreadSched(ELEMENT THREAD, ...)`
//!
//! ## Arguments
//! - `ELEMENT THREAD` (*element, int*): the element's tasks and timers run on this worker only. `ELEMENT` may
//!   be a compound element, for everything inside it. A number without a worker is taken as 0, with a
//!   warning; -1 does not bind the element.
//! - `ELEMENT SOCKET/CORE` (*element, int, int*): FastClick's: the worker whose number is that of the
//!   `CORE`-th processor, from 0, of the NUMA node `SOCKET`; without such a processor 0, with a warning.
//!   Workers are on the processors of their numbers if `--cpus` says so.
//!
//! If an element is named more than once, the last time counts, over all elements of this class. An element
//! that is not named runs on every worker if its class allows it, else on worker 0. Packets that a bound
//! element pushes stay on its worker until they reach a queue.
//!
//! Only elements where packets begin to move can be bound: sources and consumers of queues. An element that
//! packets are pushed to runs on the worker that they come from, with its timers and tasks there, whatever it
//! is bound to, unless it is a device: a bound ToDevice sends the packets of all workers on its own worker.
//! `valiant plan-cores` shows what runs where.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! source :: InfiniteSource(LIMIT 3, STOP true) -> Queue -> sink :: Unqueue -> Discard;
//! StaticThreadSched(source 0, sink 0);
//! ```
//!
//! ## See also
//! ScheduleInfo

use crate::prelude::*;
use dpdk::Topology;
use lang::args::{FromArg, NameDb, Raw, split_words};

/// The `StaticThreadSched` element.
pub struct StaticThreadSched;

/// The elements that a name stands for, seen from the scope of the element that is configured: the element of
/// that name, or all elements inside the compound element of that name.
fn meant(cx: &ConfigCx<'_>, name: &str) -> Vec<String> {
    if let Some(id) = cx.find(name) {
        return vec![cx.name_of(id).to_owned()];
    }
    let mut scope = cx.name();
    loop {
        scope = scope.rfind('/').map_or("", |slash| &scope[..slash]);
        let prefix = if scope.is_empty() { format!("{name}/") } else { format!("{scope}/{name}/") };
        let all = cx.config().elements.iter().map(|e| &e.name).filter(|n| n.starts_with(&prefix));
        let all: Vec<String> = all.cloned().collect();
        if !all.is_empty() || scope.is_empty() {
            return all;
        }
    }
}

/// A worker: its number, or a NUMA node and the place among its processors.
enum Preference {
    Worker(i64),
    Core(usize, usize),
}

impl FromArg for Preference {
    const EXPECTS: &'static str = "an integer, or a NUMA node and a processor as in '0/1'";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        match text.split_once('/') {
            Some((node, core)) => {
                Ok(Self::Core(u32::from_arg(node, names)? as usize, u32::from_arg(core, names)? as usize))
            }
            None => i64::from_arg(text, names).map(Self::Worker),
        }
    }
}

/// The number of the `n`-th processor of a NUMA node, of processors with their numbers and nodes. A machine
/// that knows of no nodes has one.
fn processor(all: impl IntoIterator<Item = (usize, Option<usize>)>, node: usize, n: usize) -> Option<usize> {
    all.into_iter().filter(|(_, of)| of.unwrap_or(0) == node).map(|(id, _)| id).nth(n)
}

/// The processors of this machine, and their NUMA nodes.
fn processors() -> Vec<(usize, Option<usize>)> {
    Topology::here().cores().iter().map(|core| (core.id, core.node)).collect()
}

impl Element for StaticThreadSched {
    const CLASS: &'static str = "StaticThreadSched";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/staticthreadsched");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mut failed = None;
        for arg in args.rest_args() {
            if split_words(&arg.text).is_empty() {
                continue;
            }
            let names = args.names().clone();
            let mut words = Args::words(&arg.text, arg.span, &names);
            let read = words
                .mp::<Raw>("ELEMENT")
                .and_then(|e| words.mp::<Preference>("THREAD").map(|t| (e.0, t)))
                .and_then(|r| words.finish().map(|()| r));
            // As in Click, nothing is looked at behind words that cannot be read.
            let (name, thread) = read.map_err(|e| args.remember(e))?;
            let name = lang::unquote(&name);
            let elements = meant(cx, &name);
            if elements.is_empty() {
                // Click's words show what it has looked for last: elements inside.
                let scope = cx.name().rfind('/').map_or("", |slash| &cx.name()[..=slash]);
                let inside = if name.is_empty() { String::new() } else { format!("{scope}{name}/") };
                failed = Some(args.error_at(&arg, format!("'{inside}' does not name an element")));
            }
            let thread = match thread {
                Preference::Worker(thread) => thread,
                Preference::Core(node, n) => match processor(processors(), node, n) {
                    Some(id) => i64::try_from(id).unwrap_or(i64::MAX),
                    None => {
                        cx.warn_at(arg.span, format!("Socket {node} has no usable core {n}"));
                        0
                    }
                },
            };
            let worker = match usize::try_from(thread) {
                Ok(t) if t < cx.workers() => t,
                _ if thread == -1 => continue,
                other => {
                    cx.warn_at(arg.span, format!("thread preference {thread} out of range"));
                    if other.is_err() {
                        continue;
                    }
                    0
                }
            };
            for element in elements {
                cx.scheduling().threads.insert(element, worker);
            }
        }
        failed.map_or(Ok(Self), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::processor;
    use crate::testing::Bench;

    fn home(bench: &mut Bench, element: &str) -> usize {
        let id = bench.router().find("", element).unwrap();
        bench.router().elements()[id.0 as usize].home
    }

    #[test]
    fn elements_and_whole_compounds_are_bound() {
        let mut bench = Bench::workers(
            "e :: Null; c :: { u :: Unqueue -> Discard; input -> Queue -> u; v :: { q :: Queue -> w :: Unqueue -> Discard; input -> q };
             Idle -> v; StaticThreadSched(v 2) };
             Idle -> c; StaticThreadSched(c/u 1, e 0, e 2)",
            3,
            1,
            1,
        );
        assert_eq!(home(&mut bench, "c/u"), 1);
        assert_eq!(home(&mut bench, "c/v/w"), 2);
        assert_eq!(home(&mut bench, "e"), 2);
    }

    #[test]
    fn wrong_threads_are_warned_of_and_wrong_names_are_errors() {
        let mut bench = Bench::workers("e :: Null; StaticThreadSched(e 7);", 2, 1, 1);
        assert_eq!(home(&mut bench, "e"), 0);
        let diags = bench.router().warnings();
        let warnings = diags.render_plain(diags.sources());
        assert!(warnings.contains("thread preference 7 out of range"), "{warnings}");
        assert!(Bench::error("StaticThreadSched(x 0)").contains("'x/' does not name an element"));
        assert!(Bench::error("StaticThreadSched(x y)").contains("THREAD"));
        assert!(Bench::error("StaticThreadSched(x)").contains("THREAD: required argument missing"));
    }

    #[test]
    fn processors_of_numa_nodes() {
        let two = [(0, Some(0)), (1, Some(1)), (2, Some(0)), (3, Some(1))];
        let found = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0)].map(|(node, n)| processor(two, node, n));
        assert_eq!(found, [Some(0), Some(2), Some(3), None, None]);
        assert_eq!([0, 1].map(|node| processor([(5, None)], node, 0)), [Some(5), None]);
        let mut bench = Bench::workers(
            "e :: Null; f :: Null; Idle -> f -> Discard; StaticThreadSched(e 0/0, f 4000/1);",
            1,
            1,
            1,
        );
        assert_eq!((home(&mut bench, "e"), home(&mut bench, "f")), (0, 0));
        let diags = bench.router().warnings();
        assert!(diags.render_plain(diags.sources()).contains("Socket 4000 has no usable core 1"));
        assert!(Bench::error("StaticThreadSched(e 0/x)").contains("THREAD"));
    }
}
