//! The Click language: lexer, parser, elaboration, arguments, diagnostics.
//!
//! **What it is.** This crate turns the text of a configuration into a flat graph of elements ([`Config`]),
//! and an element's configuration string into typed arguments. The modules, in the order in which they
//! process a configuration:
//!
//! 1. [`source`]: files and positions in them; `#line` directives.
//! 2. [`lexer`] and [`parser`]: text to a syntax tree ([`ast`]). Nothing is looked up.
//! 3. [`elaborate`]: names and scopes, compound elements and groups expanded, variables substituted:
//!    one flat graph, a [`Config`]. [`load`] does steps 1 to 3.
//! 4. [`args`]: an element's configuration string, argument by argument, in Click's types.
//! 5. [`diag`]: all errors at once, each with its place and the nearest known name.
//!
//! The language is that of click(5). Messages are Click's where Click has them; everything that Click accepts
//! is accepted.
//!
//! **What it must not know.** Files (sources are passed in, and libraries through [`LoadOptions::library`]),
//! particular elements, DPDK, threads.
//!
//! **Read first.** `config.rs`, the result; then `parser.rs` and `elaborate.rs`.
//!
//! ```
//! use lang::{LoadOptions, Source, load};
//! let classes = vec!["Idle".to_string(), "Discard".to_string()];
//! let source = Source::new("a.click", "Idle -> d :: Discard");
//! let conf = load(&[source], &LoadOptions::default(), &classes).unwrap();
//! assert_eq!(conf.elements[1].name, "d");
//! assert_eq!(conf.unparse(), "Idle@1 :: Idle;\nd :: Discard;\n\nIdle@1 -> d;\n");
//! ```
#![forbid(unsafe_code)]

pub mod args;
pub mod ast;
pub mod config;
pub mod diag;
pub mod elaborate;
pub mod lexer;
pub mod parser;
pub mod quote;
pub mod source;
pub mod vars;

mod flatten;
mod render;
mod scope;

pub use args::{Arg, ArgError, Args, FromArg, NameDb};
pub use config::{Config, Connection, ElementDecl, PortRef};
pub use diag::{Diagnostic, Diagnostics, Landmark, Note, Severity, nearest};
pub use elaborate::{ClassTable, Library, LoadOptions, load};
pub use quote::{quote, quote_bytes, split_args, split_words, uncomment, unquote, unquote_bytes};
pub use source::{Location, Source, SourceMap, Span};
