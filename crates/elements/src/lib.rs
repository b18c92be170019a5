//! Valiant's element library
#![forbid(unsafe_code)]
