//! Parts of elements that run on the control thread.

use crate::handler::{Caller, Llrpc};
use std::any::Any;

/// The router from a control task's point of view ([`crate::Router`]): handlers, and the driver's loop.
pub trait Control: Caller {
    /// How often the configuration has been replaced.
    fn generation(&self) -> u64;
    /// Ends the driver's loop.
    fn exit(&mut self);
    /// Whether timers have their turn: what waits for a time goes on only then.
    fn runs_timers(&self) -> bool {
        true
    }
    /// The LLRPC with this number of an element, as its class declares it.
    fn llrpc(&self, element: &str, number: u32) -> Option<Llrpc>;
}

/// A part of an element that runs on the control thread: a script, a socket.
pub trait ControlTask: Send {
    /// Does pending work. Returns the time of the next call at the latest, in nanoseconds of the router's
    /// clock; `None`: when [`crate::Hub::ring`] is called.
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64>;
    /// Whether a signal has come that this task handles: it is polled before whatever waits for a time.
    fn signaled(&self) -> bool {
        false
    }
    /// Takes over from the task of the same name and type in the configuration that is being replaced.
    fn take_over(&mut self, _old: &mut dyn Any) {}
    /// The task itself, for [`ControlTask::take_over`].
    fn as_any(&mut self) -> &mut dyn Any;
    /// Whether this task decides when the driver stops (`DriverManager`).
    fn manages_driver(&self) -> bool {
        false
    }
}
