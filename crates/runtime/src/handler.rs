//! Handlers, the named values of an element that can be read and written while the router runs, from the
//! caller's point of view.

use crate::hub::Hub;
use std::sync::Arc;

/// How the answers of several workers' replicas are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// The replicas agree: the first one's answer.
    First,
    /// The answers are numbers: their sum.
    Sum,
    /// The answers are lists: one after the other.
    Concat,
}

/// The side from which a handler is called: the control thread ([`crate::Router`]) or a worker
/// ([`crate::Cx`]). Names of elements are looked up from the scope of the element `from` (empty: the
/// outermost scope).
pub trait Caller {
    /// Reads `element.handler` or a global handler.
    ///
    /// # Errors
    /// No such element or handler, it cannot be read, or it failed.
    fn read(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError>;
    /// Writes a handler.
    ///
    /// # Errors
    /// No such element or handler, it cannot be written, or it refused the value.
    fn write(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError>;
    /// Looks up a handler that is to be read (or written).
    ///
    /// # Errors
    /// No such element or handler, or it cannot be read (or written).
    fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<KnownHandler, HandlerError>;
    /// Now, in nanoseconds since the epoch.
    fn now_ns(&self) -> u64;
    /// The router-wide state.
    fn hub(&self) -> &Arc<Hub>;
}

/// An LLRPC of a class: what Click's clients of control sockets call by a number, with data of a fixed size.
/// It gets the side that it is called from, the full name of the element and the data, which it changes; its
/// error is the description of a C library's error.
pub type Llrpc = fn(&mut dyn Caller, &str, &mut [u8]) -> Result<(), &'static str>;

/// A handler that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHandler {
    /// `element.handler` with the element's full name, or a global handler's name.
    pub name: String,
    /// Whether reading takes a parameter.
    pub takes_parameter: bool,
    /// Whether it is for the configuration itself only, not for control sockets.
    pub private: bool,
    /// Whether what is written is a secret that no message may show.
    pub secret: bool,
}

/// A call of a handler that acts through its caller.
#[derive(Clone, Copy, Debug)]
pub struct CallArgs<'a> {
    /// The handler's name.
    pub name: &'a str,
    /// The parameter or the value.
    pub value: &'a str,
    /// Whether it is written.
    pub write: bool,
}

/// The handlers that an element has beside those of its class.
#[derive(Clone, Debug, Default)]
pub struct Dynamic {
    /// Handlers that can be read.
    pub readable: Vec<String>,
    /// Whether these can be written, too.
    pub writable: bool,
    /// Whether every name is a handler that can be read and written.
    pub any: bool,
}

/// Why a handler call failed. The texts are those of Click's driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// There is no such element.
    #[error("no element named '{0}'")]
    NoElement(String),
    /// The element has no such handler.
    #[error("no handler named '{0}'")]
    NoHandler(String),
    /// The handler can only be written.
    #[error("'{0}' is a write handler")]
    NotReadable(String),
    /// The handler can only be read.
    #[error("'{0}' is a read handler")]
    NotWritable(String),
    /// The element refused.
    #[error("{0}")]
    Failed(String),
    /// The worker that owns the element did not answer.
    #[error("worker {0} does not answer")]
    NoAnswer(usize),
}
