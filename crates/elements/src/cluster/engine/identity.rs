//! The identity and the settings of a node, from its configuration.

use cluster::{Config, Key, Mode, Topology};

/// External ports that a node can have: what the MAC code distinguishes.
pub const MAX_PORTS: usize = 256;

/// A key from hexadecimal digits, with space around and between them.
///
/// # Errors
/// What is wrong, without a word of the text.
pub fn key_from_hex(text: &str) -> Result<Key, String> {
    let bytes = hex(text).ok_or("a key is written in pairs of hexadecimal digits")?;
    Key::new(&bytes).map_err(|e| e.to_string())
}

/// The bytes of hexadecimal digits, with space between them.
#[must_use]
pub fn hex(text: &str) -> Option<Vec<u8>> {
    crate::hex::pairs(text.split_whitespace().flat_map(str::chars)).collect()
}

/// Who a node is and how it behaves: what its configuration says.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The cluster's name.
    pub name: String,
    /// How packets are spread; the node's number and how many there are.
    pub policy: Config,
    /// How the nodes are joined.
    pub topology: Topology,
    /// Whether packets are numbered, so that the output node can restore their order.
    pub resequence: bool,
    /// What neighbors authenticate themselves with; none: nobody is asked to.
    pub key: Option<Key>,
    /// The file that it is from.
    pub key_file: Option<String>,
    /// What tells this configuration of the cluster from another; empty: it is not compared.
    pub digest: Vec<u8>,
}

/// The modes, as configurations name them.
pub const MODES: [(&str, Mode); 3] =
    [("adaptive", Mode::Adaptive), ("direct", Mode::Direct), ("valiant", Mode::Valiant)];

/// The name of a mode.
pub(super) fn mode_name(mode: Mode) -> &'static str {
    MODES.iter().find(|(_, m)| *m == mode).map_or("", |(name, _)| name)
}
