//! The syntax tree of a configuration, as written: no name has been looked up.

use crate::lexer::ConfigText;
use crate::source::Span;

/// A name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Its place in the source.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stmt {
    /// Elements, connected or only declared.
    Chain(Chain),
    /// `elementclass NAME CLASS`
    ElementClass {
        /// The new name.
        name: Name,
        /// Its definition.
        class: Class,
    },
    /// `require(...)`
    Require {
        /// The requirements.
        config: ConfigText,
        /// The keyword.
        span: Span,
    },
    /// `define(...)`
    Define {
        /// The definitions.
        config: ConfigText,
        /// The keyword.
        span: Span,
    },
}

/// Sets of elements with arrows between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The sets in order.
    pub links: Vec<Link>,
}

/// One set of elements in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The arrow before it; none before the first.
    pub arrow: Option<Arrow>,
    /// The elements, separated by commas.
    pub items: Vec<Item>,
    /// Whether an arrow follows, even if no element follows the arrow.
    pub arrow_follows: bool,
}

/// `->` or `=>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// `=>`
    pub many: bool,
    /// Its place in the source.
    pub span: Span,
}

/// An element in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Input ports.
    pub inputs: Option<Ports>,
    /// The element.
    pub element: Element,
    /// The class after `::`.
    pub class: Option<Class>,
    /// The configuration string.
    pub config: Option<ConfigText>,
    /// Output ports.
    pub outputs: Option<Ports>,
    /// The name, class or group with its declaration.
    pub span: Span,
}

/// The beginning of an [`Item`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// The name of an element or a class.
    Name(Name),
    /// An anonymous compound element.
    Compound(Compound),
    /// An element group.
    Group(Vec<Stmt>, Span),
    /// `input` left out at the start of a chain.
    Input,
    /// `output` left out at the end of a chain.
    Output,
}

/// A list of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The numbers.
    pub list: Vec<u32>,
    /// The list may grow: `[]`, `[1,]`.
    pub open: bool,
    /// Its place in the source.
    pub span: Option<Span>,
}

/// What an element can be declared as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// A class by name.
    Name(Name),
    /// A compound element.
    Compound(Compound),
    /// Nothing was written.
    Missing,
}

/// `{ ... || ... }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compound {
    /// The overloaded definitions.
    pub parts: Vec<Part>,
    /// `...`: earlier definitions of the class stay valid.
    pub extends: Option<Span>,
    /// The opening brace.
    pub span: Span,
}

/// One definition of a compound element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The parameters.
    pub formals: Vec<Formal>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// Where it starts.
    pub span: Span,
}

/// A parameter of a compound element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formal {
    /// Name without `$`.
    pub name: String,
    /// Keyword; empty for a positional parameter, `__REST__` for all other arguments.
    pub keyword: String,
    /// Its place in the source.
    pub span: Span,
}
