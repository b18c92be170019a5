//! Click's packet classification languages, compiled to decision programs
#![forbid(unsafe_code)]
