//! What the tests of the runtime have in common: an element at which packets end, and routers.

use lang::{LoadOptions, Source};
use runtime::{
    ArgError, Args, Batch, ConfigCx, Counter, Cx, Element, Handlers, Options, Registry, Router, Sharing,
    Vector, vector,
};
use std::sync::Arc;
use std::time::Duration;

/// Counts and frees packets.
pub struct Sink {
    count: Counter,
}

impl Element for Sink {
    const CLASS: &'static str = "Sink";
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { count: Counter::new() })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.write("pull", |_, n, cx| {
            let mut batch = cx.spare_batch();
            cx.pull(0, n.parse().unwrap(), &mut batch);
            cx.recycle(batch);
            Ok(())
        });
    }
    fn take_state(&mut self, old: &mut Self, _: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl Vector for Sink {
    fn push(&mut self, _: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.count.add(batch.len() as u64);
        cx.recycle(batch);
    }
}

/// The classes that all tests use.
pub fn registry() -> Registry {
    let mut r = Registry::new();
    r.add(vector::<Sink>());
    r
}

/// A router with a configuration that has no errors.
pub fn router(config: &str, registry: Arc<Registry>, options: Options) -> Router {
    Router::new(&[Source::new("test", config)], LoadOptions::default(), registry, options)
        .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())))
}

/// Waits until `f` returns true, for a long time at most.
pub fn until(mut f: impl FnMut() -> bool) -> bool {
    (0..10_000).any(|_| {
        let done = f();
        std::thread::sleep(Duration::from_millis(u64::from(!done)));
        done
    })
}
