//! The key of a cluster: a file of hexadecimal digits.

use crate::file::Cluster;
use cluster::frame::Key;
use launch::{Failure, output, shortest};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

/// Bytes of a key that is made here,
const KEY_BYTES: usize = 32;
/// and of those that are accepted (ClusterInfo).
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

/// Warns if users other than the owner can read a key, before nodes are started that would only write it to
/// their logs.
pub(crate) fn warn_of_open_key(cluster: &Cluster) {
    if let Some(path) = &cluster.key_file
        && std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0)
    {
        let name = shortest(path);
        tracing::warn!(target: "cluster", "users other than its owner may read the key {name}: chmod 600 {name}");
    }
}

/// The contents of a key file: hexadecimal digits, and white space anywhere.
fn bytes(text: &str) -> Option<Vec<u8>> {
    base16ct::mixed::decode_vec(text.split_whitespace().collect::<String>()).ok()
}

/// Whether the cluster's key can be used, if it has one.
pub(crate) fn key_is_good(cluster: &Cluster) -> Result<(), Failure> {
    let Some(path) = &cluster.key_file else {
        tracing::warn!(
            target: "cluster",
            "{} has no key: anybody who can send to one of its links can join it",
            cluster.name
        );
        return Ok(());
    };
    let name = shortest(path);
    let text = std::fs::read_to_string(path).map_err(|e| {
        let help = match e.kind() {
            ErrorKind::NotFound => {
                format!("make one with `valiant cluster key {name}` and copy it to every node")
            }
            ErrorKind::PermissionDenied => "run the nodes as its owner or as root".to_owned(),
            _ => "it is named by key_file = \"...\" in the cluster file".to_owned(),
        };
        format!("the key {name}: {}\nhelp: {help}", launch::reason(&e))
    })?;
    if !bytes(&text).is_some_and(|key| KEY_LENGTHS.contains(&key.len())) {
        return Err(format!(
            "the key {name} is not {} to {} bytes in hexadecimal digits\nhelp: make a key with `valiant cluster key FILE`",
            KEY_LENGTHS.start(),
            KEY_LENGTHS.end()
        )
        .into());
    }
    Ok(())
}

/// Makes a key.
pub(crate) fn key(file: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut bytes = [0; KEY_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|e| format!("/dev/urandom: {}", launch::reason(&e)))?;
    let text = base16ct::lower::encode_string(&bytes) + "\n";
    let Some(path) = file else {
        output::print(&text);
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| format!("{}: {}", path.display(), launch::reason(&e)))?;
    Ok(ExitCode::SUCCESS)
}

/// The key of a cluster, if it has one.
pub(crate) fn secret(cluster: &Cluster) -> Result<Option<Key>, Failure> {
    let Some(path) = &cluster.key_file else { return Ok(None) };
    let bad = |why: String| Failure::Text(format!("the key {}: {why}", shortest(path)));
    let text = std::fs::read_to_string(path).map_err(|e| bad(launch::reason(&e)))?;
    let bytes =
        bytes(&text).ok_or_else(|| bad("it has characters that are not hexadecimal digits".to_owned()))?;
    Key::new(&bytes).map(Some).map_err(|e| bad(e.to_string()))
}
