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
use lang::args::{Raw, split_words};

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
                .and_then(|e| words.mp::<i64>("THREAD").map(|t| (e.0, t)))
                .and_then(|r| words.finish().map(|()| r));
            let (name, thread) = match read {
                Ok(read) => read,
                Err(e) => {
                    failed = Some(args.remember(e));
                    continue;
                }
            };
            let elements = meant(cx, &lang::unquote(&name));
            if elements.is_empty() {
                failed = Some(args.error_at(&arg, format!("'{name}' does not name an element")));
            }
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
        assert!(Bench::error("StaticThreadSched(x 0)").contains("'x' does not name an element"));
        assert!(Bench::error("StaticThreadSched(x y)").contains("THREAD"));
        assert!(Bench::error("StaticThreadSched(x)").contains("THREAD: required argument missing"));
    }
}
