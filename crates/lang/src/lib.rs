//! The Click language: lexer, parser, elaboration, arguments, diagnostics
#![forbid(unsafe_code)]
