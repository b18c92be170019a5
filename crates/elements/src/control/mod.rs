//! Control: sockets, scripts, names, scheduling.

mod addressinfo;
mod annotationinfo;
mod blockthread;
mod chattersocket;
mod clickyinfo;
mod controlsocket;
mod drivermanager;
pub mod engine;
mod handleraggregate;
mod ipnameinfo;
mod portinfo;
mod quitwatcher;
mod scheduleinfo;
mod script;
mod staticthreadsched;

use runtime::{Registry, inert, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<addressinfo::AddressInfo>());
    r.add(inert::<annotationinfo::AnnotationInfo>());
    r.add(inert::<blockthread::BlockThread>());
    r.add(inert::<chattersocket::ChatterSocket>());
    r.add(inert::<clickyinfo::ClickyInfo>());
    r.add(inert::<controlsocket::ControlSocket>());
    r.add(inert::<handleraggregate::HandlerAggregate>());
    r.add(inert::<ipnameinfo::IPNameInfo>());
    r.add(inert::<portinfo::PortInfo>());
    r.add(inert::<quitwatcher::QuitWatcher>());
    r.add(inert::<scheduleinfo::ScheduleInfo>());
    r.add(vector::<script::Script<false>>());
    r.add(vector::<script::Script<true>>());
    r.add(inert::<staticthreadsched::StaticThreadSched>());
}
