//! The benchmark of a packet classifier: with many rules, and while they change. It asks what Katsikas,
//! Barbette, Chiesa, Kostic and Maguire have asked of NICs ("What you need to know about (smart) network
//! interface cards", PAM 2021), of a port's device and of the classifier in software.
//!
//! **What it must not know.** Commands, files, experiments: a measurement gives figures, and figures of
//! measurements become answers.
//!
//! # Layers
//!
//! 1. `kinds`, `engine`, `forward`: the rules that are measured and the frames that they match; what carries
//!    rules out; traffic, and what is seen of it.
//! 2. `software`, `hardware`: both engines, with their traffic.
//! 3. `measured`, `studies`: the measurements; which of them answer the questions, as experiment files.
//! 4. `verdict`: from figures to answers.
//! 5. `advice`: what follows from them.
#![forbid(unsafe_code)]

pub mod advice;
pub mod engine;
pub mod forward;
pub mod hardware;
pub mod kinds;
pub mod measured;
pub mod software;
pub mod studies;
pub mod verdict;
