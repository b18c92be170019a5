//! State that is shared under an element's name: with its replicas, with other elements, with handlers.

use crate::handler::HandlerError;
use locks::IgnorePoison;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Values shared by the replicas of an element, by element name and type.
#[derive(Default)]
pub struct SharedStore {
    map: Mutex<HashMap<(String, TypeId), Arc<dyn Any + Send + Sync>>>,
}

impl SharedStore {
    /// The value of a type that an element has published.
    #[must_use]
    pub fn get(&self, element: &str, kind: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
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
