//! # Burster
//! Pulls bursts of packets at fixed times and pushes them on.
//!
//! ## Synopsis
//! `Burster(INTERVAL [, BURST])`
//!
//! ## Arguments
//! - `INTERVAL` (*time*, default unit seconds): the time between two pulls.
//! - `BURST` (*unsigned int*, at least 1, default 8): at most so many packets are pulled at a time.
//!
//! It is TimedUnqueue with another default.
//!
//! ## Ports
//! One pull input, one push output. It sleeps while `INTERVAL` lasts, and while the input is empty.
//!
//! ## Handlers
//! - `interval` (read/write): the `INTERVAL` argument. A shorter one applies at once, a longer one from the
//!   next pull on.
//! - `burst` (read/write): the `BURST` argument.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! There is one instance: it runs on one worker, the first unless StaticThreadSched says otherwise.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Burster(10ms) -> Discard;
//! ```
//!
//! ## See also
//! TimedUnqueue, RatedUnqueue, Unqueue

use super::timedunqueue::Timed;

/// The kind of `Burster`.
pub struct Eight;

impl Timed for Eight {
    const CLASS: &'static str = "Burster";
    const MANUAL: &'static str = manual!("queues/burster");
    const BURST: usize = 8;
}
