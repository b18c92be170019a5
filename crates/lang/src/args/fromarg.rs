//! The trait of types that arguments can have.

use super::names::NameDb;

/// The message of a failed parse, if there is no better one.
pub(crate) const PARSE_ERROR: &str = "parse error";

/// A type that an argument can have.
pub trait FromArg: Sized {
    /// The form of the type's text, for hints; may be empty.
    const EXPECTS: &'static str = "";

    /// Parses the text of an argument, quotes and all.
    ///
    /// # Errors
    /// What is wrong, in Click's words; `parse error` if there is nothing better to say.
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String>;
}

/// Parses text that stands alone, with no names defined.
///
/// # Errors
/// As [`FromArg::from_arg`].
pub fn parse<T: FromArg>(text: &str) -> Result<T, String> {
    T::from_arg(text, &NameDb::new())
}
