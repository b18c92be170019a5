//! The engines of control elements: scripts, and the sockets of programs that control the router.
//!
//! Read first: `program.rs`, what a script is; `instructions.rs` reads it, `step.rs` runs it, and it calls
//! `calls.rs` and `functions.rs`. For sockets: `session.rs`, Click's protocol without sockets.

mod calls;
pub(super) mod clients;
pub(super) mod functions;
mod instructions;
pub(crate) mod listen;
pub(super) mod names;
pub(super) mod program;
pub mod session;
pub(super) mod signals;
mod step;
