//! What the classes of the section share. Read `translator.rs` first: the flows that all workers share, and
//! how a new one is made. `input.rs` has what an input does with a packet of no flow, `pattern.rs` how
//! addresses and ports are chosen, `finds.rs` by what the classes find flows, `headers.rs` what is read and
//! changed in packets, `errors.rs` the same for ICMP errors, `lengths.rs` what data that became longer does
//! to sequence numbers, `rewriter.rs` what other elements see of a rewriter, `pool.rs` the servers of a load
//! balancer, `sixfour.rs` the mappings and sessions of NAT64, `pieces.rs` its fragments, `mappinglog.rs` the
//! log of mappings.

pub(crate) mod errors;
pub(crate) mod finds;
pub(crate) mod headers;
pub(crate) mod input;
mod lengths;
pub(crate) mod mappinglog;
pub(crate) mod pattern;
pub(crate) mod pieces;
pub(crate) mod pool;
pub(crate) mod rewriter;
pub(crate) mod sixfour;
pub(crate) mod translator;
