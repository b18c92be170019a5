//! Parts of a configuration as text.

use lang::Config;
use std::fmt::Write as _;

/// The declarations of some elements.
pub(crate) fn declarations(config: &Config, which: impl Fn(usize) -> bool) -> String {
    let mut text = String::new();
    if !config.requirements.is_empty() {
        let _ = writeln!(text, "require({});", config.requirements.join(", "));
    }
    for (_, e) in config.elements.iter().enumerate().filter(|(index, _)| which(*index)) {
        let _ = writeln!(text, "{} :: {}({});", e.name, e.class, e.config);
    }
    text
}
