//! Many servers, one router: how packets are spread over the nodes of a cluster, without I/O.
//!
//! # What is absent
//!
//! This crate knows neither DPDK nor elements, opens no file and no socket, and never reads a clock: times are arguments, in
//! nanoseconds, and random numbers come from a seeded generator.
#![forbid(unsafe_code)]
