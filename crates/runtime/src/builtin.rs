//! The names of the handlers that every element has, and of the global ones.

use crate::handler::HandlerError;

/// Handlers of every element; all can be read, and none can be written.
pub(crate) const ELEMENT: [&str; 10] = [
    "changed_workers",
    "class",
    "config",
    "cycles",
    "drops",
    "handlers",
    "icounts",
    "name",
    "ocounts",
    "ports",
];

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
