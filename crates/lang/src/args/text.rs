//! Strings of several kinds, and names of elements and handlers.

use super::fromarg::{FromArg, PARSE_ERROR};
use super::names::NameDb;
use crate::diag::nearest;
use crate::quote::{is_one_word, leading_keyword, unquote, unquote_bytes};

fn one_word(text: &str) -> Result<(), String> {
    if is_one_word(text) { Ok(()) } else { Err(PARSE_ERROR.into()) }
}

/// A string: quotes are removed; space outside quotes is not allowed.
impl FromArg for String {
    const EXPECTS: &'static str = "a string, in quotes if it has spaces";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        one_word(text)?;
        Ok(unquote(text))
    }
}

/// String data: as a string, but any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl FromArg for Bytes {
    const EXPECTS: &'static str = "string data: a quoted string or '\\<hex digits>'";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        one_word(text)?;
        Ok(Bytes(unquote_bytes(text)))
    }
}

/// The text of an argument as written, with quotes and spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw(pub String);

impl FromArg for Raw {
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        Ok(Raw(text.to_string()))
    }
}

/// A word: a string without spaces, quotes, backslashes, commas and control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word(pub String);

impl FromArg for Word {
    const EXPECTS: &'static str = "a word";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        one_word(text)?;
        let word = unquote(text);
        if word.is_empty() || !word.bytes().all(|b| b.is_ascii_graphic() && !b"\"'\\,".contains(&b)) {
            return Err(PARSE_ERROR.into());
        }
        Ok(Word(word))
    }
}

/// A keyword: letters, digits and `_.:?!`, not quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyword(pub String);

impl FromArg for Keyword {
    const EXPECTS: &'static str = "a keyword";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        match leading_keyword(text) {
            Some((k, _)) if k.len() == text.len() => Ok(Keyword(k.to_string())),
            _ => Err(PARSE_ERROR.into()),
        }
    }
}

/// The value for a word, for [`super::Args::with`] and implementations of [`FromArg`] on
/// enumerations.
///
/// # Errors
/// `parse error`, with the nearest choice.
pub fn one_of<T: Clone>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let word = unquote(text);
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == word) {
        return Ok(value.clone());
    }
    let names = || choices.iter().map(|(n, _)| *n);
    match nearest(&word, names()) {
        Some(near) => Err(format!("{PARSE_ERROR}, did you mean '{near}'?")),
        None => Err(format!("{PARSE_ERROR}, expected one of {}", names().collect::<Vec<_>>().join(", "))),
    }
}

/// A file name: a leading `~/` is the home directory (if the database knows it), double slashes are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filename(pub String);

impl FromArg for Filename {
    const EXPECTS: &'static str = "a file name";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        one_word(text)?;
        let name = unquote(text);
        if name.is_empty() {
            return Err(PARSE_ERROR.into());
        }
        let mut full = match (name.strip_prefix('~'), names.home()) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
            _ => name,
        };
        while full.contains("//") {
            full = full.replace("//", "/");
        }
        Ok(Filename(full))
    }
}

/// The full name of an element. A name inside a compound element is looked for there first, then further out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementName(pub String);

impl FromArg for ElementName {
    const EXPECTS: &'static str = "the name of an element";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        let name = unquote(text);
        match names.find_element(&name) {
            Some(full) => Ok(ElementName(full)),
            None => Err(match names.nearest_element(&name) {
                Some(near) => format!("does not name an element, did you mean '{near}'?"),
                None => "does not name an element".into(),
            }),
        }
    }
}

/// The name of a handler: `element.handler`, `.handler` (global), or `handler` (of this element, else
/// global).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerName {
    /// Full name of the element; empty for a global handler; `None` where only the handler was named.
    pub element: Option<String>,
    /// Name of the handler.
    pub handler: String,
}

impl FromArg for HandlerName {
    const EXPECTS: &'static str = "a handler, such as 'element.handler'";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        one_word(text).map_err(|_| "syntax error")?;
        let name = unquote(text);
        match name.split_once('.') {
            _ if name.is_empty() => Err("syntax error".into()),
            None => Ok(HandlerName { element: None, handler: name }),
            Some((_, "")) => Err("syntax error".into()),
            Some(("", handler)) => Ok(HandlerName { element: Some(String::new()), handler: handler.into() }),
            Some((element, handler)) => match names.find_element(element) {
                Some(full) => Ok(HandlerName { element: Some(full), handler: handler.into() }),
                None => Err(match names.nearest_element(element) {
                    Some(near) => format!("no element named '{element}', did you mean '{near}'?"),
                    None => format!("no element named '{element}'"),
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;

    #[test]
    fn strings() {
        assert_eq!(parse::<String>("a\"b c\"'d'"), Ok("ab cd".into()));
        assert_eq!(parse::<String>("\"\""), Ok(String::new()));
        assert!(parse::<String>("a b").is_err());
        assert_eq!(parse::<Bytes>("\\<00 ff>\"\\n\""), Ok(Bytes(vec![0, 255, 10])));
        assert_eq!(parse::<Word>("'x'"), Ok(Word("x".into())));
        assert!(parse::<Word>("'x y'").is_err());
        assert_eq!(parse::<Keyword>("A.b?"), Ok(Keyword("A.b?".into())));
        assert!(parse::<Keyword>("A b").is_err());
        assert_eq!(one_of("b", &[("a", 1), ("b", 2)]), Ok(2));
        assert!(one_of("revers", &[("reverse", 1)]).unwrap_err().contains("'reverse'"));
    }

    #[test]
    fn file_names() {
        let mut names = NameDb::new();
        names.set_home("/home/u");
        assert_eq!(Filename::from_arg("'~/a//b'", &names), Ok(Filename("/home/u/a/b".into())));
        assert_eq!(Filename::from_arg("~x/b", &names), Ok(Filename("~x/b".into())));
        assert!(Filename::from_arg("\"\"", &names).is_err());
    }

    #[test]
    fn element_names() {
        let mut names = NameDb::new();
        names.set_elements(["a", "c/a", "c/d/e", "queue"].map(String::from));
        let inner = names.at("c/d/e");
        assert_eq!(ElementName::from_arg("e", &inner), Ok(ElementName("c/d/e".into())));
        assert_eq!(ElementName::from_arg("a", &inner), Ok(ElementName("c/a".into())));
        assert_eq!(ElementName::from_arg("a", &names), Ok(ElementName("a".into())));
        assert!(ElementName::from_arg("quue", &names).unwrap_err().contains("did you mean 'queue'"));
        let h = |s: &str| HandlerName::from_arg(s, &inner).map(|h| (h.element, h.handler));
        assert_eq!(h("a.count"), Ok((Some("c/a".into()), "count".into())));
        assert_eq!(h(".stop"), Ok((Some(String::new()), "stop".into())));
        assert_eq!(h("count"), Ok((None, "count".into())));
        assert_eq!(h("a."), Err("syntax error".into()));
        assert_eq!(h("zzzzz.x"), Err("no element named 'zzzzz'".into()));
    }
}
