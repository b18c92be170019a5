//! The tests of several elements of a cluster together: `node.rs`, those of one node; `guard.rs`, whole paths
//! through nodes; `fly.rs`, the switches of a fly; `fair.rs`, how a line is shared.

mod fair;
mod fly;
mod guard;
mod node;
