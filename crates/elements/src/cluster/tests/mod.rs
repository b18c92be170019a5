//! The tests of several elements of a cluster together: `node.rs` of one node's, `guard.rs` of whole ways
//! through nodes, `fly.rs` of switches around a fly, `fair.rs` of how a line is shared.

mod fair;
mod fly;
mod guard;
mod node;
