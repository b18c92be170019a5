//! Element classes and the registry that configurations look them up in.

use crate::configure::ConfigCx;
use crate::cx::{Handler, Node, StepFacts};
use crate::declare::Handlers;
use crate::element::{Element, InertNode, Notify, Phase, Sharing, Simple, SimpleNode, Vector, VectorNode};
use crate::facts::Facts;
use crate::handler::Llrpc;
use crate::sides::Sides;
use crate::stats::MAX_REASONS;
use crate::{ArgError, Args};
use std::any::TypeId;
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
    /// See [`Element::LIVE`].
    pub live: bool,
    /// See [`Element::STEP`].
    pub step: Option<StepFacts>,
    /// See [`Element::MANUAL`].
    pub(crate) manual: &'static str,
    /// The handlers of the class, beside those that all elements have.
    pub handlers: Arc<[Handler]>,
    /// The LLRPCs of the class, by the numbers that clients send.
    pub(crate) llrpcs: Arc<[(u32, Llrpc)]>,
    pub(crate) make: Make,
}

impl std::ops::Deref for Class {
    type Target = Facts;
    fn deref(&self) -> &Facts {
        &self.facts
    }
}

/// The part of a manual before the drop reasons ends before the first of these headings.
const BEHIND_THE_REASONS: [&str; 3] = ["\n## Threads\n", "\n## Example\n", "\n## See also\n"];
/// The width of list items in a manual, as in the authors' text.
const WIDTH: usize = 106;

impl Class {
    /// The manual: the author's text with the drop reasons that the class declares, and the handler `config`
    /// if it can be written.
    #[must_use]
    pub fn manual(&self) -> String {
        let manual = if self.live { with_config(self.manual) } else { self.manual.to_owned() };
        if self.drops.is_empty() {
            return manual;
        }
        let behind = BEHIND_THE_REASONS.iter().filter_map(|heading| manual.find(heading)).min();
        let (before, after) = manual.split_at(behind.map_or(manual.len(), |at| at + 1));
        let mut text = format!("{before}## Drop reasons\n");
        for case in self.drops {
            push_item(&mut text, &format!("`{}`: {}.", case.reason, case.when));
        }
        text + if after.is_empty() { "" } else { "\n" } + after
    }

    /// The handlers of an element of the class that has these ports.
    pub(crate) fn handlers_of(&self, sides: &Sides) -> Arc<[Handler]> {
        let has = |handler: &&Handler| handler.only.is_none_or(|with| with(sides));
        if self.handlers.iter().all(|handler| has(&handler)) {
            return Arc::clone(&self.handlers);
        }
        self.handlers.iter().filter(has).cloned().collect()
    }

    /// A description in one line: the first one below the title of the manual.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.manual.lines().find(|l| !l.trim().is_empty() && !l.starts_with('#')).unwrap_or("")
    }
}

/// A manual with the handler `config`, which can be written.
fn with_config(manual: &str) -> String {
    const HEADING: &str = "\n## Handlers\n";
    let section = manual.find(HEADING).map(|at| at + HEADING.len());
    let behind = BEHIND_THE_REASONS.iter().filter_map(|heading| manual.find(heading)).min();
    let end = match section {
        Some(start) => manual[start..].find("\n## ").map(|at| start + at),
        None => behind,
    };
    let (before, after) = manual.split_at(end.unwrap_or(manual.len()));
    let mut text = before.to_owned();
    if section.is_none() {
        text.push_str(HEADING);
    }
    push_item(&mut text, "`config` (read/write): the arguments; the element keeps its state.");
    text + after
}

/// Adds an item of a list, broken into lines.
fn push_item(text: &mut String, item: &str) {
    let mut column = 1;
    text.push('-');
    for word in item.split(' ') {
        if column + 1 + word.chars().count() > WIDTH {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + word.chars().count();
    }
    text.push('\n');
}

fn class<T: Element>(make: Make) -> Class {
    const { assert!(T::DROPS.len() <= MAX_REASONS, "more drop reasons than there are counters") };
    let own_step = |step: StepFacts| step.of == TypeId::of::<T>();
    assert!(T::STEP.is_none_or(own_step), "{}: the step is another type's", T::CLASS);
    let (handlers, llrpcs) = Handlers::declared(T::handlers);
    Class {
        facts: Facts {
            name: T::CLASS,
            reads: T::READS,
            writes: T::WRITES,
            sets: T::SETS,
            drops: T::DROPS,
            role: T::ROLE,
            opens: T::OPENS,
        },
        live: T::LIVE,
        step: T::STEP,
        ports: T::PORTS,
        processing: T::PROCESSING,
        flow: T::FLOW,
        sharing: T::SHARING,
        notify: T::NOTIFY,
        phase: T::PHASE,
        pull_through: T::PULL_THROUGH,
        manual: T::MANUAL,
        handlers: handlers.into(),
        llrpcs: llrpcs.into(),
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
    missing: BTreeMap<&'static str, &'static str>,
    old_names: BTreeMap<&'static str, &'static str>,
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
    /// Adds an old name of a class, which must have been added: configurations may use it, and see the
    /// present one in handlers and messages.
    ///
    /// # Panics
    /// If the class has not been added.
    pub fn old_name(&mut self, old: &'static str, class: &'static str) {
        self.alias(old, class);
        self.old_names.insert(old, class);
    }
    /// Declares that the contents of this Click package are available, so that a configuration may `require`
    /// it.
    pub fn provide(&mut self, package: &'static str) {
        self.packages.insert(package);
    }
    /// Says why there is no class of this name, which a configuration may well use. A class that is there all
    /// the same, or is added later, is not affected.
    pub fn lacks(&mut self, class: &'static str, why: &'static str) {
        self.missing.insert(class, why);
    }
    /// The packages that configurations may require, in the order of their names.
    pub fn packages(&self) -> impl Iterator<Item = &'static str> {
        self.packages.iter().copied()
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
    fn present_name(&self, class: &str) -> Option<&str> {
        self.old_names.get(class).copied()
    }
    fn why_missing(&self, class: &str) -> Option<String> {
        self.missing.get(class).filter(|_| !self.knows(class)).map(|why| (*why).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cx, DropCase, DropReason, Packet};

    struct Passer;

    const TOO_MANY: DropReason = DropReason::new("too many");
    const NOT_IP: DropReason = DropReason::new("not IP");

    impl Element for Passer {
        const CLASS: &'static str = "Passer";
        const DROPS: &'static [DropCase] = &[
            TOO_MANY.when(
                "more than `LIMIT` packets have arrived in the last second, a number that the argument of this \
                 name sets",
            ),
            NOT_IP.when("its protocol is another one"),
        ];
        const MANUAL: &'static str = "# Passer\nPasses packets on.\n\n## Ports\nOne.\n\n## Threads\nAny.\n";
        fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
            Ok(Self)
        }
    }
    impl Simple for Passer {
        fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
            Some(packet)
        }
    }

    #[test]
    fn a_manual_lists_the_reasons_that_the_class_declares() {
        let reasons = "## Drop reasons
- `too many`: more than `LIMIT` packets have arrived in the last second, a number that the argument of
  this name sets.
- `not IP`: its protocol is another one.
";
        let mut class = simple::<Passer>();
        assert_eq!(class.summary(), "Passes packets on.");
        let expected =
            format!("# Passer\nPasses packets on.\n\n## Ports\nOne.\n\n{reasons}\n## Threads\nAny.\n");
        assert_eq!(class.manual(), expected);
        assert!(expected.lines().all(|line| line.len() <= WIDTH));
        class.manual = "# Passer\nPasses packets on.\n\n";
        assert_eq!(class.manual(), format!("# Passer\nPasses packets on.\n\n{reasons}"));
        class.facts.drops = &[];
        assert_eq!(class.manual(), class.manual);
        class.live = true;
        let config = "- `config` (read/write): the arguments; the element keeps its state.\n";
        class.manual = "# A\nB.\n\n## Handlers\n- `x`: y.\n\n## Threads\nAny.\n";
        let with = format!("# A\nB.\n\n## Handlers\n- `x`: y.\n{config}\n## Threads\nAny.\n");
        assert_eq!(class.manual(), with);
        class.manual = "# A\nB.\n\n## Threads\nAny.\n";
        assert_eq!(class.manual(), format!("# A\nB.\n\n## Handlers\n{config}\n## Threads\nAny.\n"));
    }
}
