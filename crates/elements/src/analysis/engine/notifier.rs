//! Which elements number aggregates and tell others when one has ended (Click's AggregateNotifier), and who
//! listens.

use crate::prelude::*;
use lang::args::ElementName;
use locks::IgnorePoison;
use std::sync::{Arc, Mutex, Weak};

/// Who wants to hear that an aggregate has ended.
pub(in crate::analysis) trait Listener: Send + Sync {
    /// An aggregate has ended: its number will not be used for other packets soon.
    fn ended(&self, aggregate: u32);
    /// The element whose handler `ended` is to be called afterwards, if it has to act.
    fn acts(&self) -> Option<&str> {
        None
    }
}

/// What an element that numbers aggregates shares: its listeners.
#[derive(Default)]
pub(in crate::analysis) struct Notifier(Mutex<Vec<Weak<dyn Listener>>>);

impl Notifier {
    /// Adds a listener, for as long as it lives.
    fn add(&self, listener: &Arc<dyn Listener>) {
        let mut all = self.0.lock().ignore_poison();
        let new = Arc::downgrade(listener);
        all.retain(|other| other.strong_count() > 0 && !Weak::ptr_eq(other, &new));
        all.push(new);
    }

    /// Tells all listeners that these aggregates have ended.
    pub(in crate::analysis) fn tell(&self, aggregates: &mut Vec<u32>, cx: &mut Cx<'_>) {
        if aggregates.is_empty() {
            return;
        }
        let listeners: Vec<_> = self.0.lock().ignore_poison().iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            aggregates.iter().for_each(|aggregate| listener.ended(*aggregate));
            if let Some(element) = listener.acts() {
                cx.call(Some(element), "ended", "");
            }
        }
        aggregates.clear();
    }
}

/// Reads the argument `NOTIFIER`, and listens to the element that it names.
pub(in crate::analysis) fn listen(
    args: &mut Args<'_>,
    cx: &ConfigCx<'_>,
    listener: &Arc<dyn Listener>,
) -> Result<(), ArgError> {
    if let Some(ElementName(name)) = args.k("NOTIFIER")? {
        cx.shared_of::<Notifier>(&name, "an AggregateNotifier")?.add(listener);
    }
    Ok(())
}
