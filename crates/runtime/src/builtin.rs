//! The names of the handlers that every element has, and of the global ones; what they show on any thread.

use crate::handler::HandlerError;
use lang::{ClassTable, Config};
use locks::IgnorePoison;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Handlers of every element, in the order in which they are added; all can be read, and none can be written.
pub(crate) const ELEMENT: [&str; 10] = [
    "name",
    "class",
    "config",
    "ports",
    "handlers",
    "icounts",
    "ocounts",
    "cycles",
    "drops",
    "changed_workers",
];

/// How many of them are first in any list, because a class can only add to them.
pub(crate) const FIRST: usize = 5;

/// The global ones that can be read.
pub(crate) const GLOBAL_READ: [&str; 19] = [
    "changed_workers",
    "classes",
    "config",
    "cycles",
    "driver",
    "drops",
    "flatconfig",
    "handlers",
    "hotconfig",
    "list",
    "load.json",
    "packages",
    "requirements",
    "stats.json",
    "stuck",
    "timewarp",
    "trace.json",
    "version",
    "workers",
];
/// The global ones that can be written.
pub(crate) const GLOBAL_WRITE: [&str; 4] = ["hotconfig", "stop", "timewarp", "trace"];

/// The global ones of Click, in the order in which its program adds them.
pub(crate) const GLOBAL_CLICK: [&str; 12] = [
    "version",
    "driver",
    "config",
    "flatconfig",
    "requirements",
    "handlers",
    "list",
    "stop",
    "classes",
    "packages",
    "hotconfig",
    "timewarp",
];

/// Whether every element has this handler.
pub(crate) fn element_handler(name: &str) -> bool {
    ELEMENT.contains(&name)
}

/// Whether this is a global handler.
pub(crate) fn is_global(name: &str) -> bool {
    GLOBAL_READ.contains(&name) || GLOBAL_WRITE.contains(&name)
}

/// Whether a global handler exists and allows the access.
pub(crate) fn check_global(name: &str, write: bool) -> Result<(), HandlerError> {
    let (this, other) =
        if write { (&GLOBAL_WRITE[..], &GLOBAL_READ[..]) } else { (&GLOBAL_READ[..], &GLOBAL_WRITE[..]) };
    match (this.contains(&name), other.contains(&name)) {
        (true, _) => Ok(()),
        (false, true) if write => Err(HandlerError::NotWritable(name.to_owned())),
        (false, true) => Err(HandlerError::NotReadable(name.to_owned())),
        _ => Err(HandlerError::NoHandler(name.to_owned())),
    }
}

/// The kinds of an element's input and output ports, in the words of the handler `ports`.
pub(crate) type Kinds = (Vec<&'static str>, Vec<&'static str>);

/// What handlers show of the configuration, for all workers and the control thread.
pub(crate) struct About {
    /// The configuration, with the arguments that it had at first.
    pub(crate) config: Arc<Config>,
    pub(crate) kinds: Vec<Kinds>,
    pub(crate) classes: Arc<dyn ClassTable + Send + Sync>,
    /// A global handler that this router has not.
    pub(crate) lacks: Option<&'static str>,
    /// The arguments that are others now, by element.
    changed: Mutex<HashMap<usize, String>>,
}

impl About {
    pub(crate) fn new(
        config: Arc<Config>,
        kinds: Vec<Kinds>,
        classes: Arc<dyn ClassTable + Send + Sync>,
        lacks: Option<&'static str>,
    ) -> Arc<Self> {
        Arc::new(Self { config, kinds, classes, lacks, changed: Mutex::default() })
    }

    /// The present arguments of an element.
    pub(crate) fn arguments(&self, element: usize) -> String {
        self.arguments_in(&self.changed.lock().ignore_poison(), element)
    }
    fn arguments_in(&self, changed: &HashMap<usize, String>, element: usize) -> String {
        let first = || self.config.elements.get(element).map(|e| &e.config);
        changed.get(&element).or_else(first).cloned().unwrap_or_default()
    }
    /// Notes the present arguments of an element.
    pub(crate) fn set_arguments(&self, element: usize, arguments: &str) {
        self.changed.lock().ignore_poison().insert(element, arguments.to_owned());
    }
    /// Notes that a handler has changed an argument of an element: `keyword`, or the one at `position` if it
    /// is not given by keyword.
    pub(crate) fn set_argument(&self, element: usize, (position, keyword): (usize, &str), value: &str) {
        // Another worker may change another one.
        let mut changed = self.changed.lock().ignore_poison();
        let present = self.arguments_in(&changed, element);
        changed.insert(element, with_argument(&present, position, keyword, value.trim()));
    }
    /// The configuration with its present arguments.
    pub(crate) fn present(&self) -> Cow<'_, Config> {
        let changed = self.changed.lock().ignore_poison();
        if changed.is_empty() {
            return Cow::Borrowed(&self.config);
        }
        let mut config = Config::clone(&self.config);
        for (element, arguments) in changed.iter() {
            if let Some(element) = config.elements.get_mut(*element) {
                element.config.clone_from(arguments);
            }
        }
        Cow::Owned(config)
    }
}

/// The arguments with another value for one of them, as Click writes them.
pub(crate) fn with_argument(config: &str, position: usize, keyword: &str, value: &str) -> String {
    let args = lang::split_args(config);
    let is_keyword = |arg: &str| {
        arg.strip_prefix(keyword).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let mut texts: Vec<String> = args.into_iter().map(|arg| arg.text).collect();
    let by_keyword = texts.iter().any(|arg| is_keyword(arg));
    match texts.get_mut(position).filter(|arg| !by_keyword && lang::args::keyword_len(arg) == 0) {
        Some(arg) => value.clone_into(arg),
        None => {
            texts.retain(|arg| !is_keyword(arg));
            texts.push(format!("{keyword} {value}"));
        }
    }
    lang::quote::join_args(&texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_replaced_where_it_stands() {
        for (config, want) in [
            ("", "CAPACITY 7"),
            ("5", "7"),
            ("CAPACITY 5", "CAPACITY 7"),
            ("1, CAPACITY 5, OTHER 2", "1, OTHER 2, CAPACITY 7"),
            ("OTHER 2", "OTHER 2, CAPACITY 7"),
        ] {
            assert_eq!(with_argument(config, 0, "CAPACITY", "7"), want, "{config}");
        }
        assert_eq!(with_argument("a, b", 1, "X", "c"), "a, c");
    }
}
