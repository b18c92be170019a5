//! The identity and the settings of a node, from its configuration.

use cluster::{Config, Key, Mode, Topology};

/// The number of external ports that a node can have: as many as the MAC code distinguishes.
pub const MAX_PORTS: usize = 256;

/// Reads a key from hexadecimal digits; white space is allowed around and between them.
///
/// # Errors
/// What is wrong; the message contains no part of the text.
pub fn key_from_hex(text: &str) -> Result<Key, String> {
    let bytes = hex(text).ok_or("a key is written in pairs of hexadecimal digits")?;
    Key::new(&bytes).map_err(|e| e.to_string())
}

/// The bytes that hexadecimal digits with white space between them stand for.
#[must_use]
pub fn hex(text: &str) -> Option<Vec<u8>> {
    crate::hex::pairs(text.split_whitespace().flat_map(str::chars)).collect()
}

/// The identity and the settings of a node, from its configuration.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The cluster's name.
    pub name: String,
    /// The policy of load balancing, with the node's number and the number of nodes.
    pub policy: Config,
    /// The topology.
    pub topology: Topology,
    /// Whether packets are numbered, so that the output node can restore their order.
    pub resequence: bool,
    /// The key with which neighbors authenticate themselves; `None`: neighbors are not authenticated.
    pub key: Option<Key>,
    /// The file that the key was read from.
    pub key_file: Option<String>,
    /// Identifies this configuration of the cluster; empty: it is not compared with that of neighbors.
    pub digest: Vec<u8>,
}

/// The modes, as configurations name them.
pub const MODES: [(&str, Mode); 3] =
    [("adaptive", Mode::Adaptive), ("direct", Mode::Direct), ("valiant", Mode::Valiant)];

/// The name of a mode.
pub(super) fn mode_name(mode: Mode) -> &'static str {
    MODES.iter().find(|(_, m)| *m == mode).map_or("", |(name, _)| name)
}
