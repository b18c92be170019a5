//! Control: sockets, scripts, names, scheduling.

mod addressinfo;
mod chattersocket;
mod clients;
mod controlsocket;
mod drivermanager;
mod functions;
mod ipnameinfo;
mod listen;
mod portinfo;
mod program;
mod scheduleinfo;
mod script;
pub mod session;
mod signals;
mod staticthreadsched;

use crate::prelude::*;
use lang::args::Arg;
use runtime::{NameDb, Registry, inert, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<addressinfo::AddressInfo>());
    r.add(inert::<chattersocket::ChatterSocket>());
    r.add(inert::<controlsocket::ControlSocket>());
    r.add(inert::<ipnameinfo::IPNameInfo>());
    r.add(inert::<portinfo::PortInfo>());
    r.add(inert::<scheduleinfo::ScheduleInfo>());
    r.add(vector::<script::Script<false>>());
    r.add(vector::<script::Script<true>>());
    r.add(inert::<staticthreadsched::StaticThreadSched>());
}

/// Defines the names of an information element's arguments in its scope; all that is wrong is remembered.
fn define(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
    one: fn(&mut NameDb, &Arg) -> Result<(), Vec<String>>,
) -> Result<(), ArgError> {
    let mut failed = None;
    let name = cx.name().to_owned();
    for arg in args.rest_args() {
        if let Err(messages) = cx.names().within(&name, |db| one(db, &arg)) {
            for message in messages {
                failed = Some(args.error_at(&arg, message));
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
