//! How fast a configuration will run, from what each of its elements costs alone (RouteBricks, section
//! 5.3.4).
//!
//! The configuration runs for some packets, untimed: which elements do they come to, in which batches, and
//! what are they then? Each element is then run alone, with the packets that came to it, and timed; the whole
//! is the sum. What surrounds an element in the configuration is imitated: packets that come out of a queue
//! have waited behind as many others, and between two packets as much other memory is read as others use
//! there, so that caches hold no more than they would; annotations count as read if somebody behind the
//! element reads them. All ports together are one part of the sum, as their frames share the caches.
//!
//! What it does not see: rates that an element enforces, losses in NICs, what several processors cost each
//! other.
//!
//! # Layers
//!
//! 1. `recording`, `kept`, `text`: whether packets are recorded, and how many wait where; costs that have
//!    been measured; parts of configurations.
//! 2. `stream`, `traffic`: the packets that came to an element; ports.
//! 3. `elements`: elements that record and play packets.
//! 4. `observe`: which packets come to which element of a configuration.
//! 5. `sample`: a configuration that runs, and its counters.
//! 6. `clock`, `alone`: what the runtime takes, and one element by itself.
//! 7. `prediction`, `element`, `measured`, `projection`: the sum, any element, the truth, another server.
#![forbid(unsafe_code)]

mod alone;
mod clock;
mod element;
mod elements;
mod kept;
mod measured;
mod observe;
mod prediction;
mod projection;
mod recording;
mod sample;
mod stream;
mod text;
mod traffic;

pub use element::{ElementCost, Elements, usual};
pub use kept::Kept;
pub use measured::{Measured, measured};
pub use observe::{Failure, Observed, observe};
pub use prediction::{Line, Prediction, predict};
pub use projection::{Component, Scale, limit};
pub use traffic::Traffic;
