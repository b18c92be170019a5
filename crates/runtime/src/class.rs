//! Element classes and the registry that configurations look them up in.

use crate::chain::{Chain, Fusion};
use crate::configure::ConfigCx;
use crate::cx::{Handler, Node};
use crate::declare::Handlers;
use crate::element::{Element, InertNode, Notify, Phase, Sharing, Simple, SimpleNode, Vector, VectorNode};
use crate::facts::Facts;
use crate::stats::MAX_REASONS;
use crate::{ArgError, Args};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Make = fn(&mut Args<'_>, &mut ConfigCx<'_>) -> Result<Box<dyn Node>, ArgError>;

/// An element class, as the runtime knows it.
#[derive(Clone)]
pub struct Class {
    /// The facts that it declares; the class dereferences to them.
    pub facts: Facts,
    /// See [`Element::PORTS`].
    pub ports: &'static str,
    /// See [`Element::PROCESSING`].
    pub processing: &'static str,
    /// See [`Element::FLOW`].
    pub flow: &'static str,
    /// See [`Element::SHARING`].
    pub sharing: Sharing,
    /// See [`Element::NOTIFY`].
    pub notify: Notify,
    /// See [`Element::PHASE`].
    pub phase: Phase,
    /// See [`Element::PULL_THROUGH`].
    pub pull_through: Option<(usize, usize)>,
    /// See [`Element::MANUAL`].
    pub manual: &'static str,
    /// The handlers of the class, beside those that all elements have.
    pub handlers: Arc<[Handler]>,
    pub(crate) make: Make,
}

impl std::ops::Deref for Class {
    type Target = Facts;
    fn deref(&self) -> &Facts {
        &self.facts
    }
}

fn class<T: Element>(make: Make) -> Class {
    const { assert!(T::DROPS.len() <= MAX_REASONS, "more drop reasons than there are counters") };
    Class {
        facts: Facts { name: T::CLASS, reads: T::READS, writes: T::WRITES, drops: T::DROPS, role: T::ROLE },
        ports: T::PORTS,
        processing: T::PROCESSING,
        flow: T::FLOW,
        sharing: T::SHARING,
        notify: T::NOTIFY,
        phase: T::PHASE,
        pull_through: T::PULL_THROUGH,
        manual: T::MANUAL,
        handlers: Handlers::declared(T::handlers).into(),
        make,
    }
}

/// The class of a [`Simple`] element.
#[must_use]
pub fn simple<T: Simple>() -> Class {
    class::<T>(|args, cx| Ok(Box::new(SimpleNode(T::configure(args, cx)?))))
}
/// The class of a [`Vector`] element.
#[must_use]
pub fn vector<T: Vector>() -> Class {
    class::<T>(|args, cx| Ok(Box::new(VectorNode(T::configure(args, cx)?))))
}
/// The class of an element that no packet passes through.
#[must_use]
pub fn inert<T: Element>() -> Class {
    class::<T>(|args, cx| Ok(Box::new(InertNode(T::configure(args, cx)?))))
}

/// The element classes that configurations may use.
///
/// Classes are added by explicit calls; a crate outside this repository exports `fn register(&mut Registry)`.
#[derive(Clone, Default)]
pub struct Registry {
    classes: BTreeMap<&'static str, Class>,
    packages: BTreeSet<&'static str>,
    fusions: Vec<Fusion>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a class; one of the same name is replaced.
    pub fn add(&mut self, class: Class) {
        self.classes.insert(class.name, class);
    }
    /// Adds a second name for a class, which must have been added.
    ///
    /// # Panics
    /// If it has not been.
    pub fn alias(&mut self, alias: &'static str, class: &str) {
        let mut class = self.classes.get(class).expect("the class of an alias is registered first").clone();
        class.facts.name = alias;
        self.classes.insert(alias, class);
    }
    /// Declares that the contents of this Click package are available, so that a configuration may `require`
    /// it.
    pub fn provide(&mut self, package: &'static str) {
        self.packages.insert(package);
    }
    /// The packages that configurations may require, in the order of their names.
    pub fn packages(&self) -> impl Iterator<Item = &'static str> {
        self.packages.iter().copied()
    }
    /// Declares that consecutive elements of these classes can be fused (see [`crate::Chain`]).
    pub fn fuse<C: Chain>(&mut self) {
        self.fusions.push(Fusion::of::<C>());
    }
    pub(crate) fn fusions(&self) -> &[Fusion] {
        &self.fusions
    }
    /// Looks up a class.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }
    /// All classes in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Class> {
        self.classes.values()
    }
}

impl lang::ClassTable for Registry {
    fn knows(&self, class: &str) -> bool {
        self.classes.contains_key(class)
    }
    fn names(&self) -> Vec<String> {
        self.classes.keys().map(|n| (*n).to_owned()).collect()
    }
    fn packages(&self) -> Option<Vec<String>> {
        Some(self.packages.iter().map(|p| (*p).to_owned()).collect())
    }
}
