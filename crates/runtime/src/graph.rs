//! The element graph of one worker, as it runs.

use crate::element::Node;
use crate::handler::{Handler, HandlerError};
use crate::stats::SlotStats;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// An input port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Input {
    pub(crate) pull: bool,
    /// Where a pull input gets its packets: (slot, output port).
    pub(crate) from: (u32, u16),
    /// The elements upstream whose emptiness decides whether a pull is worth it.
    pub(crate) notifiers: Vec<u32>,
    /// Some element upstream does not tell.
    pub(crate) always_active: bool,
}

/// An output port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    pub(crate) pull: bool,
    /// Where a push output delivers: (slot, input port).
    pub(crate) to: u32,
    pub(crate) port: u16,
    /// The elements downstream whose fullness decides whether a push finds room.
    pub(crate) notifiers: Vec<u32>,
}

/// Whom to wake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    /// Tasks that wait for packets.
    pub(crate) empty: Vec<u32>,
    /// Elements with [`crate::Notify::Gate`] that packets open.
    pub(crate) gates: Vec<u32>,
    /// Tasks that wait for room.
    pub(crate) room: Vec<u32>,
}

/// One element on one worker.
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) class: &'static str,
    pub(crate) node: RefCell<Box<dyn Node>>,
    pub(crate) stats: Arc<SlotStats>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) listeners: Listeners,
    /// Whether its tasks and timers run on this worker.
    pub(crate) runs_here: bool,
    /// See [`crate::Element::PULL_THROUGH`].
    pub(crate) pull_through: Option<(usize, usize)>,
    pub(crate) handlers: Arc<[Handler]>,
    /// See [`Node::maps`].
    pub(crate) maps: bool,
    /// The chain that begins here, if the optimiser found one.
    pub(crate) fused: Option<crate::fuse::Fused>,
}

/// The element graph of one worker. Slot numbers are the same on all workers.
#[derive(Default)]
pub struct Graph {
    pub(crate) slots: Vec<Slot>,
    pub(crate) names: Arc<HashMap<String, u32>>,
    pub(crate) shared: Arc<SharedStore>,
}

impl Graph {
    /// Finds `name` as seen from the element called `from`: first beside it in its compound element, then outwards.
    pub(crate) fn find_from(&self, from: &str, name: &str) -> Option<crate::ElementId> {
        find_scoped(&self.names, from, name).map(crate::ElementId)
    }
}

/// Name look-up with Click's scoping of compound elements: `a/b/c` looks for `x` as `a/b/x`, `a/x`, `x`.
pub(crate) fn find_scoped(names: &HashMap<String, u32>, from: &str, name: &str) -> Option<u32> {
    let mut scope = from;
    while let Some(at) = scope.rfind('/') {
        scope = &scope[..at];
        if let Some(&slot) = names.get(&format!("{scope}/{name}")) {
            return Some(slot);
        }
    }
    names.get(name).copied()
}

/// Values shared by the replicas of an element, by element name and type.
#[derive(Default)]
pub struct SharedStore {
    map: Mutex<HashMap<(String, TypeId), Arc<dyn Any + Send + Sync>>>,
}

impl SharedStore {
    /// The value of a type that an element has published.
    #[must_use]
    pub fn get(&self, element: &str, kind: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).get(&(element.to_owned(), kind)).cloned()
    }
    /// The same, for a handler that works on it.
    ///
    /// # Errors
    /// The element has published none.
    pub(crate) fn of_handler(
        &self,
        element: &str,
        kind: TypeId,
    ) -> Result<Arc<dyn Any + Send + Sync>, HandlerError> {
        self.get(element, kind).ok_or_else(|| HandlerError::Failed("no state".into()))
    }
    /// The value of type `S` that an element has published.
    #[must_use]
    pub fn typed<S: Send + Sync + 'static>(&self, element: &str) -> Option<Arc<S>> {
        self.get(element, TypeId::of::<S>())?.downcast().ok()
    }
    /// Publishes a value.
    pub fn put<S: Send + Sync + 'static>(&self, element: &str, value: Arc<S>) {
        self.map
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((element.to_owned(), TypeId::of::<S>()), value);
    }
    /// Everything that an element has published.
    pub(crate) fn of(&self, element: &str) -> Vec<(TypeId, Arc<dyn Any + Send + Sync>)> {
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.iter().filter(|((e, _), _)| e == element).map(|((_, t), v)| (*t, v.clone())).collect()
    }
    /// Everything that all elements have published, with the elements' names.
    pub(crate) fn into_parts(self) -> Vec<(String, Arc<dyn Any + Send + Sync>)> {
        let map = self.map.into_inner().unwrap_or_else(PoisonError::into_inner);
        map.into_iter().map(|((element, _), value)| (element, value)).collect()
    }
    pub(crate) fn put_raw(&self, element: &str, kind: TypeId, value: Arc<dyn Any + Send + Sync>) {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).insert((element.to_owned(), kind), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_outwards() {
        let names: HashMap<String, u32> =
            [("q", 0), ("a/q", 1), ("a/b/r", 2)].map(|(n, i)| (n.to_owned(), i)).into();
        assert_eq!(find_scoped(&names, "a/b/x", "q"), Some(1));
        assert_eq!(find_scoped(&names, "a/b/x", "r"), Some(2));
        assert_eq!(find_scoped(&names, "x", "q"), Some(0));
        assert_eq!(find_scoped(&names, "x", "r"), None);
    }
}
