//! Files with copies of the configurations in etcd.

use super::store::{Document, Seen, Store};
use crate::file::{Cluster, Node};
use crate::process::{beside, local};
use launch::{Failure, shortest};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Reads a text file.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {}", shortest(path), launch::reason(&e)))?;
    Ok(String::from_utf8(bytes).map_err(|_| format!("{}: this is not UTF-8", shortest(path)))?)
}

/// Writes a file, whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let new = path.with_added_extension("new");
    (std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)))
        .map_err(|e| format!("{}: {}", shortest(path), launch::reason(&e)).into())
}

/// The configuration that was last pushed or pulled, in a file next to the cluster file: a push may replace
/// this one.
pub(super) struct Base {
    pub(super) revision: i64,
    pub(super) document: Document,
}

impl Base {
    pub(super) fn path(file: &Path) -> PathBuf {
        file.with_added_extension("etcd")
    }
    pub(super) fn read(file: &Path) -> Option<Self> {
        let value: Value = serde_json::from_str(&std::fs::read_to_string(Self::path(file)).ok()?).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let document = Document {
            serial: value["serial"].as_u64()?,
            by: text("by")?,
            file: text("file")?,
            program: text("program")?,
        };
        Some(Self { revision: value["revision"].as_i64()?, document })
    }
    pub(super) fn write(&self, file: &Path) -> Result<(), Failure> {
        let Document { serial, by, file: text, program } = &self.document;
        let value =
            json!({"revision": self.revision, "serial": serial, "by": by, "file": text, "program": program});
        write(&Self::path(file), &format!("{value}\n"))
    }
}

/// A node's copies: the configuration from etcd that it runs with its revision, and the latest that it has
/// seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    pub(super) running: Option<(Document, i64)>,
    pub(super) seen: Seen,
}

impl Kept {
    /// The paths of the files: next to the control socket, and next to the cluster file, because the
    /// directory of sockets may not survive a reboot.
    pub(super) fn paths(file: &Path, node: &Node) -> [PathBuf; 2] {
        let name = format!("node{}", node.id);
        [beside(node, "etcd"), file.with_added_extension(name).with_added_extension("etcd")]
    }
    pub(super) fn read(store: &Store, path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let stored = value["stored"].as_str().and_then(|stored| store.stored(stored));
        let running = stored.zip(value["revision"].as_i64());
        let seal = value["seal"].as_str().map(str::to_owned);
        let mut seen = Seen { serial: value["serial"].as_u64().unwrap_or(0), seal };
        if let Some((document, _)) = &running {
            seen.see(&store.mark(document));
        }
        Self { running, seen }
    }
    pub(super) fn text(&self, store: &Store) -> String {
        let running = self.running.as_ref();
        let (stored, revision) = (running.map(|(d, _)| store.as_stored(d)), running.map(|(_, r)| r));
        let Seen { serial, seal } = &self.seen;
        format!("{}\n", json!({"revision": revision, "stored": stored, "serial": serial, "seal": seal}))
    }
    /// All that is known on this machine from pushes and pulls of the file and from these nodes: the
    /// configurations, and the highest serial number that was seen.
    pub(super) fn all<'a>(
        store: &Store,
        file: &Path,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> (Vec<(Document, i64)>, Seen) {
        let (mut had, mut seen) = (Vec::new(), Seen::default());
        for path in nodes.into_iter().flat_map(|node| Self::paths(file, node)) {
            let kept = Self::read(store, &path);
            had.extend(kept.running);
            seen.see(&kept.seen);
        }
        if let Some(base) = Base::read(file) {
            seen.see(&store.mark(&base.document));
            had.push((base.document, base.revision));
        }
        (had, seen)
    }
}

/// The latest configuration of a cluster that was seen on this machine.
pub(super) fn seen_here(store: &Store, file: &Path, cluster: &Cluster) -> Seen {
    Kept::all(store, file, cluster.present().filter(|n| local(n))).1
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::file::EtcdSettings;
    use cluster::frame::Key;
    use etcd::{Limits, Trust};

    pub(crate) fn store() -> Store {
        let settings = EtcdSettings {
            endpoints: vec!["http://127.0.0.1:1".into()],
            prefix: "/v/rb4".into(),
            ttl_s: 5,
            trust: Trust::default(),
        };
        let key = Key::new(b"0123456789abcdef").unwrap();
        Store::new(&settings, Limits::default(), Some(key)).unwrap_or_else(|e| panic!("{e}"))
    }

    pub(crate) fn document(serial: u64, by: &str) -> Document {
        Document { serial, by: by.into(), file: format!("{serial}"), program: String::new() }
    }

    #[test]
    fn what_is_kept_is_read_again_unless_somebody_changed_it() {
        let (store, dir) = (store(), tempfile::tempdir().unwrap());
        let path = dir.path().join("kept");
        let newer = store.mark(&document(9, "a"));
        let kept = Kept { running: Some((document(7, "a"), 3)), seen: newer.clone() };
        assert_eq!(Kept::read(&store, &path), Kept::default());
        write(&path, &kept.text(&store)).unwrap_or_else(|e| panic!("{}", e.text()));
        assert_eq!(Kept::read(&store, &path), kept);
        let forged = kept.text(&store).replace("\\\"serial\\\":7", "\\\"serial\\\":8");
        assert_ne!(forged, kept.text(&store));
        std::fs::write(&path, forged).unwrap();
        assert_eq!(Kept::read(&store, &path), Kept { running: None, seen: newer });
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Kept::read(&store, &path), Kept::default());
    }
}
