//! # QuitWatcher
//! Stops the router when an element's task has nothing more to do.
//!
//! Every 10 milliseconds, it reads the handlers `scheduled` of some elements, and stops the router as soon as
//! one of them is false. The task of a source that makes packets at a rate sleeps between packets, and so is
//! not scheduled then.
//!
//! ## Synopsis
//! `QuitWatcher(ELEMENT, ...)`
//!
//! ## Arguments
//! - `ELEMENT` (*element*): an element with a handler `scheduled`, such as a source.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! s :: InfiniteSource(LIMIT 3) -> Discard;
//! QuitWatcher(s);
//! ```
//!
//! ## See also
//! DriverManager, Script

use crate::prelude::*;
use lang::args::ElementName;
use runtime::{Caller, Control, ControlTask, FromArg};
use std::any::Any;

const INTERVAL_NS: u64 = 10_000_000;

/// The `QuitWatcher` element.
pub struct QuitWatcher {
    handlers: Vec<String>,
}

/// Reads the handlers.
struct Watch {
    handlers: Vec<String>,
    /// 0 before the first time.
    due_ns: u64,
}

impl ControlTask for Watch {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let now = router.now_ns();
        if self.due_ns == 0 {
            self.due_ns = now + INTERVAL_NS;
        } else if now >= self.due_ns && router.runs_timers() {
            self.due_ns = now + INTERVAL_NS;
            let ended = |text: String| text.is_empty() || text.starts_with('f');
            if self.handlers.iter().any(|handler| router.read("", handler, "").is_ok_and(ended)) {
                router.hub().request_stop();
                return None;
            }
        }
        Some(self.due_ns)
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Element for QuitWatcher {
    const CLASS: &'static str = "QuitWatcher";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/quitwatcher");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (mut handlers, mut failed) = (Vec::new(), None);
        for arg in args.rest_args() {
            match ElementName::from_arg(&arg.text, args.names()) {
                Ok(ElementName(name)) => handlers.push(format!("{name}.scheduled")),
                Err(wrong) => failed = Some(args.error_at(&arg, format!("'{}' {wrong}", arg.text))),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if !cx.check_only() {
            cx.control(Box::new(Watch { handlers: handlers.clone(), due_ns: 0 }));
        }
        Ok(Self { handlers })
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for handler in &self.handlers {
            Caller::look_up(cx, "", handler, false).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn stops_when_a_source_has_ended() {
        let config = "s :: InfiniteSource(LIMIT 5, ACTIVE false) -> c :: Counter -> Discard;
            Script(wait 5ms, write s.active true); QuitWatcher(s);";
        let options = runtime::Options { simulated_time: true, ..runtime::Options::default() };
        let mut bench = Bench::with_options(config, options);
        for _ in 0..1000 {
            if bench.router().wants_to_end() {
                break;
            }
            bench.turn();
        }
        assert!(bench.router().wants_to_end());
        assert_eq!(bench.read("c.count"), "5");
    }

    #[test]
    fn the_elements_must_have_tasks() {
        assert!(Bench::error("QuitWatcher(nobody)").contains("does not name an element"));
        assert!(
            Bench::error("QuitWatcher(e)").contains("no handler named"),
            "{}",
            Bench::error("QuitWatcher(e)")
        );
    }
}
