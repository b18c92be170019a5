//! The handlers that every element has, and the global handlers, on the control thread.

use super::Router;
use crate::ElementId;
use crate::builtin::{GLOBAL_WRITE, is_global};
use crate::cx::{Described, Overview, summaries};
use crate::handler::HandlerError;
use crate::info::ElementInfo;
use lang::Source;
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Write;

/// Reads one of the handlers that every element has.
pub(super) fn read_element(router: &Router, id: ElementId, name: &str) -> Option<String> {
    let (index, element) = (id.0 as usize, &router.elements()[id.0 as usize]);
    let described = Described {
        index,
        name: &element.name,
        class: element.class,
        arguments: element.config.as_str().into(),
        live: element.live,
        handlers: &element.handlers,
        store: router.store(),
        config: router.config(),
        kinds: &element.kinds,
        totals: &|| element.totals(),
    };
    described.read(name)
}

impl Router {
    fn overview<R>(&self, f: impl FnOnce(&Overview<'_>) -> R) -> R {
        let elements = self.elements();
        f(&Overview {
            config: Cow::Borrowed(self.config()),
            classes: self.registry(),
            hub: self.hub(),
            clock: &self.clock,
            lacks: self.options().lacks(),
            counts: &|| elements.iter().map(|e| (&*e.name, e.totals())).collect(),
        })
    }
    /// How often packets have changed workers, in all elements that there are.
    #[must_use]
    pub fn changed_workers(&self) -> u64 {
        self.overview(|overview| overview.changed_workers())
    }
    /// The packets that elements have dropped: element, reason, how many.
    #[must_use]
    pub fn drops(&self) -> Vec<(String, &'static str, u64)> {
        self.overview(|overview| overview.drops())
    }
}

/// Reads a global handler.
pub(super) fn read_global(router: &mut Router, name: &str) -> Result<String, HandlerError> {
    if router.lacks(name) {
        return Err(HandlerError::NoHandler(name.to_owned()));
    }
    if let Some(mut text) = router.overview(|overview| overview.read(name)) {
        if name == "cycles" {
            for (name, summary) in all_summaries(router) {
                let _ = writeln!(text, "{name}: {summary}");
            }
        }
        return Ok(text);
    }
    Ok(match name {
        "load.json" => super::load::json(router),
        "stats.json" => {
            let summaries = all_summaries(router);
            counters(router, &summaries)
        }
        "trace.json" => super::trace::json(router)?,
        _ if GLOBAL_WRITE.contains(&name) => return Err(HandlerError::NotReadable(name.to_owned())),
        _ => return Err(HandlerError::NoHandler(name.to_owned())),
    })
}

/// Writes a global handler.
pub(super) fn write_global(router: &mut Router, name: &str, value: &str) -> Result<(), HandlerError> {
    match name {
        _ if router.lacks(name) => Err(HandlerError::NoHandler(name.to_owned())),
        "stop" => {
            router.hub().request_stop();
            Ok(())
        }
        "timewarp" if router.options().simulated_time => Err(HandlerError::NotWritable(name.to_owned())),
        "timewarp" => set_timewarp(router, value.trim()).map_err(|e| HandlerError::Failed(e.to_owned())),
        "trace" => super::trace::start(router, value),
        "hotconfig" if !router.options().hotswap => {
            Err(HandlerError::Failed("hot swapping is off: start with -R (--allow-reconfigure)".into()))
        }
        "hotconfig" => {
            // Click's driver reads it as it reads a configuration from its command line.
            let click = router.options().click;
            let name = if click { "config" } else { "hotconfig" };
            router.hotswap(Source::new(name, value)).map_err(|diags| {
                let mut text = diags.render_plain(diags.sources()).trim_end().to_owned();
                if click && diags.is_parsed() {
                    text += "\nRouter could not be initialized!";
                }
                HandlerError::Failed(text)
            })?;
            router.warn_caller_of_swap();
            Ok(())
        }
        _ if is_global(name) => Err(HandlerError::NotWritable(name.to_owned())),
        _ => Err(HandlerError::NoHandler(name.to_owned())),
    }
}

/// Has time pass faster, slower, or skip what nothing is done in.
fn set_timewarp(router: &Router, value: &str) -> Result<(), &'static str> {
    if value == "nowait" {
        router.clock.set_skipping();
        router.hub().ring();
        return Ok(());
    }
    let speed: f64 = value.parse().ok().filter(|speed: &f64| speed.is_finite()).ok_or("expected double")?;
    if speed <= 0.0 {
        return Err("timefactor must be > 0");
    }
    router.clock.set_speed(speed);
    // Workers sleep for what was left before.
    router.hub().ring();
    Ok(())
}

/// What elements say of themselves in a line: those that have a handler `summary`, unless it is empty.
fn all_summaries(router: &mut Router) -> Vec<(String, String)> {
    let has = |e: &&ElementInfo| e.handlers.iter().any(|h| h.name == "summary");
    let names: Vec<String> = router.elements().iter().filter(has).map(|e| e.name.clone()).collect();
    summaries(router, names)
}

/// All counters, as JSON.
fn counters(router: &Router, summaries: &[(String, String)]) -> String {
    let element = |e: &ElementInfo| {
        let mut all = e.totals().json();
        (all["name"], all["class"]) = (e.name.clone().into(), e.class.into());
        if let Some((_, summary)) = summaries.iter().find(|(name, _)| *name == e.name) {
            all["summary"] = summary.as_str().into();
        }
        all
    };
    let stuck = router.hub().stuck();
    let stuck =
        stuck.iter().map(|s| json!({"worker": s.worker, "element": s.element, "seconds": s.time.as_secs()}));
    let all = json!({
        "time_ns": router.now_ns(), "tsc": dpdk::cycles(), "workers": router.options().workers.max(1),
        "generation": router.generation(), "changed_workers": router.changed_workers(),
        "stuck": stuck.collect::<Vec<_>>(),
        "elements": router.elements().iter().map(element).collect::<Vec<_>>(),
    });
    format!("{all}\n")
}
