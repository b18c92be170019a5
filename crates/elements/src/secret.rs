//! Keys in memory: they are overwritten before it is given back.

use crate::infile;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;

/// Bytes that are overwritten when they are dropped. They never grow, because what they grew out of would
/// stay.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Secret(Vec<u8>);

/// Overwrites bytes, also those behind the end that were there once.
fn wipe(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(bytes.capacity(), 0);
    // The zeros are never read; this keeps the compiler from removing the stores.
    std::hint::black_box(&mut *bytes);
}

impl Secret {
    /// Room for so many bytes.
    pub(crate) fn with_capacity(n: usize) -> Secret {
        Secret(Vec::with_capacity(n))
    }

    /// Adds a byte, into other memory if there is no more room.
    pub(crate) fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.0.capacity() - self.0.len() < bytes.len() {
            let mut larger = Vec::with_capacity(2 * (self.0.capacity() + bytes.len()));
            larger.extend_from_slice(&self.0);
            wipe(&mut self.0);
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
    }

    /// Takes the last `N` bytes off; `None` if there are fewer.
    pub(crate) fn split_last<const N: usize>(&mut self) -> Option<[u8; N]> {
        let at = self.0.len().checked_sub(N)?;
        let end = self.0.get_mut(at..)?;
        let last = *end.first_chunk::<N>()?;
        end.fill(0);
        self.0.truncate(at);
        Some(last)
    }

    /// A file's bytes, `most` at most, and whether others than its owner can read it.
    pub(crate) fn read(hub: &runtime::Hub, path: &str, most: usize) -> std::io::Result<(Secret, bool)> {
        let mut bytes = Secret::default();
        let about = infile::read(hub, path, most, |piece, about| {
            if bytes.is_empty() {
                let length = usize::try_from(about.len()).unwrap_or(0).min(most);
                bytes = Secret::with_capacity(length.max(piece.len()));
            }
            bytes.extend(piece);
        })?;
        Ok((bytes, about.permissions().mode() & 0o077 != 0))
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl Deref for Secret {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_behind_the_end() {
        let mut bytes = Secret::with_capacity(3);
        for i in 1..=40 {
            bytes.push(i);
        }
        assert_eq!(bytes.split_last(), Some([37, 38, 39, 40]));
        assert_eq!((bytes.len(), bytes.split_last::<37>()), (36, None));
        let mut inner = std::mem::take(&mut bytes.0);
        let room = inner.capacity();
        wipe(&mut inner);
        assert_eq!((inner.len(), inner.iter().all(|b| *b == 0)), (room, true));
    }
}
