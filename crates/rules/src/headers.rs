//! The fields of a packet.

use crate::key::Key;

/// Nothing yet.
#[must_use]
pub fn read(_frame: &[u8]) -> Key {
    Key::default()
}
