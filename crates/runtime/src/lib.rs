//! The element runtime: graph, replicas, scheduler, handlers, hot swap
#![forbid(unsafe_code)]
