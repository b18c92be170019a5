//! # DriverManager
//! A Script that decides when the driver stops.
//!
//! It is a Script whose default `TYPE` is `DRIVER`. Elements ask the driver to stop (`STOP true`, the `stop`
//! handler, a Script's `stop`); the router stops at the first such request unless there is a DriverManager.
//! Then each request makes a step of its script, and the router stops when the script ends.
//!
//! ## Synopsis
//! `DriverManager(INSTRUCTION, ...)`
//!
//! ## Arguments
//! - `INSTRUCTION` (*see Script*): `pause [COUNT]` (or `wait_stop`) waits for so many requests to stop.
//!   Without instructions, the first request stops the router.
//! - `TYPE` (*see Script*, default `DRIVER`): another type of script.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! Those of Script, where they are explained.
//!
//! - `run` (read/write), `step`, `goto` (write): run the script, make steps of it, jump to a label.
//! - `add`, `sub`, `mul`, `div`, `idiv`, `min`, `max`, `mod`, `rem`, `neg`, `abs` (read): arithmetic.
//! - `eq`, `ne`, `lt`, `gt`, `le`, `ge`, `not`, `and`, `or`, `nand`, `nor`, `if`, `in` (read): comparisons
//!   and truth values.
//! - `first`, `sprintf`, `length`, `unquote`, `cat`, `catq` (read): text.
//! - `htons`, `htonl`, `ntohs`, `ntohl`, `random`, `now`, `kill`, `readable`, `writable` (read): the rest.
//! - `get`, `shift` (read), `set` (write), `*` (read/write): variables.
//!
//! ## Threads
//! Runs outside the workers. There may be one DriverManager, or Script of type `DRIVER`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;
//! DriverManager(pause, wait 0.1s, print c.count, stop);
//! ```
//!
//! ## See also
//! Script

/// The manual of `DriverManager`.
pub(crate) const MANUAL: &str = manual!("control/drivermanager");
