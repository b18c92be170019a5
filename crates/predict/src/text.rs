//! Parts of a configuration as text.

use lang::{Config, Diagnostic, Diagnostics, LoadOptions, Source, Span};
use runtime::Registry;
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

/// Messages about a text that was made of a configuration, as messages about the configuration: its elements
/// have the same names in both.
pub(crate) fn about(own: &Config, made: &Source, diags: &Diagnostics, registry: &Registry) -> Diagnostics {
    let made = lang::load(std::slice::from_ref(made), &LoadOptions::default(), registry);
    let place = |span: Option<Span>| {
        let (span, made) = (span?, made.as_ref().ok()?);
        let holds =
            |place: Span| place.source == span.source && place.start <= span.start && span.end <= place.end;
        let element = made.elements.iter().find(|e| holds(e.span) || holds(e.config_span))?;
        own.find(&element.name).map(|index| own.elements[index].span)
    };
    let mut all = Diagnostics::new();
    all.set_sources(own.sources.clone());
    for d in diags.iter() {
        all.push(Diagnostic { span: place(d.span), notes: Vec::new(), ..d.clone() });
    }
    all
}
