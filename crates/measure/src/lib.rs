//! Traffic generation and measurement, without I/O: the contents of frames, when they are sent, and what is
//! measured when they arrive.
//!
//! **What it is.** The calculations behind `valiant gen`, `valiant sink` and the elements of the section
//! `measure`.
//!
//! **What it must not know.** DPDK, elements, files, clocks: times are arguments, in nanoseconds. It has no
//! `unsafe`, and does not panic whatever bytes arrive.
//!
//! **Read first.** `tag.rs`, what is written into a frame; then `sink.rs`, what is measured from it when the
//! frame arrives.
//!
//! | module | holds |
//! |---|---|
//! | [`rate`] | rates in packets and bits per second, with and without Ethernet's overhead, requested and achieved |
//! | [`bps`] | line rates in bits a second, read and written |
//! | [`pace`] | a token bucket: how much a rate allows by now |
//! | [`sizes`] | frame sizes: one, a range, a mix |
//! | [`flows`] | flows: addresses and ports from sets, in order or at random |
//! | [`permute`] | all numbers below a bound in a pseudorandom order |
//! | [`zipf`] | elephants and mice: the flow of the next frame |
//! | [`matrix`] | traffic matrices: which part of a port's rate goes from each input to each output |
//! | [`direction`] | which ports send and which receive, and the matrix between them |
//! | [`interleave`] | weighted round-robin: the output of the next frame |
//! | [`frame`] | frames from a template, with flow, sequence number and time, for the cost of a few additions |
//! | [`tag`] | the flow, sequence number and time in a frame |
//! | [`classify`] | whether a frame that arrives is a measured frame, and whether it is damaged |
//! | [`order`] | loss, duplicates and order within a flow, as RouteBricks and as RFC 4737 count it |
//! | [`learned`] | the addresses and ports with which flows arrive, and the way back |
//! | [`hop`] | latency from hop to hop |
//! | [`latency`] | latency in a histogram of constant relative precision |
//! | [`jitter`] | jitter, as RFC 3393 and RFC 3550 count it |
//! | [`timeline`] | frames and latency over time |
//! | [`fairness`] | max-min fair shares, Jain's index |
//! | [`sink`] | all of this over frames that arrive |
//! | [`ranks`] | medians; whether two sets of measurements differ by more than noise |
//! | [`burst`] | back-to-back frames: which burst is next |
//! | [`connections`] | connections through a stateful device: which trial is next |
//! | [`search`] | the highest load without loss: which trial is next |
#![forbid(unsafe_code)]

pub mod bps;
pub mod burst;
pub mod classify;
pub mod connections;
pub mod direction;
pub mod fairness;
pub mod flows;
pub mod frame;
pub mod hop;
pub mod interleave;
pub mod jitter;
pub mod latency;
pub mod learned;
pub mod matrix;
pub mod order;
pub mod pace;
pub mod permute;
pub mod ranks;
pub mod rate;
pub mod rng;
pub mod search;
pub mod sink;
pub mod sizes;
pub mod tag;
pub mod timeline;
pub mod zipf;

pub use wire::EtherAddr;

/// A text that is not valid; the message states what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Bad(pub String);

pub(crate) fn bad<T>(message: impl Into<String>) -> Result<T, Bad> {
    Err(Bad(message.into()))
}
