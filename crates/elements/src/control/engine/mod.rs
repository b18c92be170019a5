//! The engines of control elements: scripts, and the sockets of programs that control the router.
//!
//! Read first: `program.rs`, a script's instructions and how they run (`functions.rs` has what they call); for
//! sockets `session.rs`, Click's protocol without sockets.

pub(super) mod clients;
pub(super) mod functions;
pub(super) mod listen;
pub(super) mod names;
pub(super) mod program;
pub mod session;
pub(super) mod signals;
