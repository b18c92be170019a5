//! Control: sockets, scripts, names, scheduling.

mod controlsocket;
pub mod session;

use runtime::{Registry, inert};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<controlsocket::ControlSocket>());
}
