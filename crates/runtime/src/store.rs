//! State that is shared under an element's name: with its replicas, with other elements, with handlers.

use crate::handler::HandlerError;
use locks::IgnorePoison;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Values shared by the replicas of an element, by element name and type.
#[derive(Default)]
pub struct SharedStore {
    /// Where the values of all elements but one are.
    beside: Option<(Arc<SharedStore>, String)>,
    map: Mutex<HashMap<(String, TypeId), Arc<dyn Any + Send + Sync>>>,
}

impl SharedStore {
    /// A store for an element that is made anew: it has the values of all others.
    pub(crate) fn beside(others: &Arc<Self>, element: &str) -> Self {
        Self { beside: Some((Arc::clone(others), element.to_owned())), map: Mutex::default() }
    }
    /// Takes the values of an element that has been made anew, in place of those that it had.
    pub(crate) fn adopt(&self, element: &str, new: &Self) {
        let values = new.of(element);
        let mut map = self.map.lock().ignore_poison();
        map.retain(|(name, _), _| name != element);
        map.extend(values.into_iter().map(|(kind, value)| ((element.to_owned(), kind), value)));
    }
    /// The value of a type that an element has published.
    #[must_use]
    pub fn get(&self, element: &str, kind: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        if let Some((others, _)) = self.beside.as_ref().filter(|(_, own)| own != element) {
            return others.get(element, kind);
        }
        self.map.lock().ignore_poison().get(&(element.to_owned(), kind)).cloned()
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
        self.map.lock().ignore_poison().insert((element.to_owned(), TypeId::of::<S>()), value);
    }
    /// Everything that an element has published.
    pub(crate) fn of(&self, element: &str) -> Vec<(TypeId, Arc<dyn Any + Send + Sync>)> {
        let map = self.map.lock().ignore_poison();
        map.iter().filter(|((e, _), _)| e == element).map(|((_, t), v)| (*t, v.clone())).collect()
    }
    /// Everything that all elements have published, with the elements' names.
    pub(crate) fn into_parts(self) -> Vec<(String, Arc<dyn Any + Send + Sync>)> {
        let map = self.map.into_inner().ignore_poison();
        map.into_iter().map(|((element, _), value)| (element, value)).collect()
    }
    pub(crate) fn put_raw(&self, element: &str, kind: TypeId, value: Arc<dyn Any + Send + Sync>) {
        self.map.lock().ignore_poison().insert((element.to_owned(), kind), value);
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
