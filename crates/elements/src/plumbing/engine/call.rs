//! A write handler that an element calls when something happens (`COUNT_CALL`, `END_CALL`).

use runtime::{Caller, Cx, HandlerError};
use std::any::Any;
use std::fmt;

/// `[ELEMENT.]HANDLER [VALUE]`, as Click writes it. Without an element, the handler is the calling element's
/// own if it has one of that name, otherwise a global one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandlerCall {
    element: Option<String>,
    handler: String,
    value: String,
}

impl HandlerCall {
    /// Reads a call; `None` if there is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, value) = first_word(text);
        if name.is_empty() {
            return None;
        }
        let (element, handler) = match name.split_once('.') {
            Some((element, handler)) if !element.is_empty() => (Some(element.to_owned()), handler.to_owned()),
            Some((_, handler)) => (None, handler.to_owned()),
            None => (None, name.to_owned()),
        };
        Some(Self { element, handler, value: value.to_owned() })
    }

    /// Checks that the call can be made.
    ///
    /// # Errors
    /// There is no such element or handler, or it cannot be written, in Click's words.
    pub(crate) fn check(&self, cx: &Cx<'_>) -> Result<(), String> {
        if self.handler.is_empty() {
            return Err("syntax error".to_owned());
        }
        cx.can_write(self.element.as_deref(), &self.handler).map_err(|e| match e {
            HandlerError::NoHandler(name) | HandlerError::NotWritable(name) => {
                format!("no '{name}' write handler")
            }
            other => other.to_string(),
        })
    }

    /// Makes the call. A handler that changes what the replicas of an element share is called at once, also
    /// with several workers; what the calling element shares must not be locked. What goes wrong is printed.
    #[cold]
    pub(crate) fn fire_at_once(&self, element: &mut dyn Any, cx: &mut Cx<'_>) {
        let Some(to) = &self.element else { return self.fire(element, cx) };
        let (from, spec) = (cx.name().to_owned(), format!("{to}.{}", self.handler));
        if let Err(e) = cx.lend(element, |cx| Caller::write(cx, &from, &spec, &self.value)) {
            cx.hub().call_failed(&from, &e);
        }
    }

    /// The same call with the variable `name` in its value substituted: `$t`, or `${t}`.
    pub(crate) fn with_variable(&self, name: char, value: &str) -> Self {
        let braced = self.value.replace(&format!("${{{name}}}"), value);
        let plain = format!("${name}");
        let mut parts = braced.split(&plain);
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // `$time` is another variable.
            let other = part.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            if other {
                text.extend(['$', name]);
            } else {
                text.push_str(value);
            }
            text.push_str(part);
        }
        Self { value: text, ..self.clone() }
    }

    /// The handler and the value, if the handler is one of the calling element.
    pub(crate) fn to_itself(&self, cx: &Cx<'_>) -> Option<(&str, &str)> {
        let own = match &self.element {
            Some(element) => cx.find(element) == Some(cx.id()),
            None => self.handler != "stop",
        };
        own.then_some((&*self.handler, &*self.value))
    }

    /// Makes the call for `element`, whose own handlers may be called by it. What goes wrong is printed.
    #[cold]
    pub(crate) fn fire(&self, element: &mut dyn Any, cx: &mut Cx<'_>) {
        cx.lend(element, |cx| cx.call(self.element.as_deref(), &self.handler, &self.value));
    }
}

impl fmt::Display for HandlerCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(element) = &self.element {
            write!(f, "{element}.")?;
        }
        f.write_str(&self.handler)?;
        if self.value.is_empty() { Ok(()) } else { write!(f, " {}", self.value) }
    }
}

/// The first word and the rest.
pub(crate) fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_handler_and_value() {
        let call = HandlerCall::parse(" a/b.c  1 2 ").unwrap();
        assert_eq!((call.element.as_deref(), &*call.handler, &*call.value), (Some("a/b"), "c", "1 2"));
        assert_eq!(call.to_string(), "a/b.c 1 2");
        let stop = HandlerCall::parse("stop").unwrap();
        assert_eq!(stop.to_string(), "stop");
        assert_eq!((stop.element, &*stop.handler, &*stop.value), (None, "stop", ""));
        assert_eq!(HandlerCall::parse("  "), None);
    }

    #[test]
    fn variables_are_substituted() {
        let call = HandlerCall::parse("a.b $t ${t}s $time $tx $t").unwrap();
        assert_eq!(call.with_variable('t', "1.5").value, "1.5 1.5s $time $tx 1.5");
    }
}
