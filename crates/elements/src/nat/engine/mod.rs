//! What the classes of the section share. Read `translator.rs` first: the flows that all workers share, and
//! how a new one is made. `input.rs` has what an input does with a packet of no flow, `pattern.rs` how
//! addresses and ports are chosen, `headers.rs` what is read and changed in packets, `pool.rs` the servers of
//! a load balancer.

pub(crate) mod headers;
pub(crate) mod input;
pub(crate) mod pattern;
pub(crate) mod pool;
pub(crate) mod translator;
