//! Tests of whole programs.

mod golden;
mod messages;
mod packets;
mod properties;
mod six;
