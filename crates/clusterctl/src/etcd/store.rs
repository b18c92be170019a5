//! The entries in etcd, and their authentication.

use crate::file::EtcdSettings;
use cluster::frame::{Key, TAG_BYTES};
use etcd::{Client, Entry, Error, Limits, Swap};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of the format; other versions are not read.
const FORM: u64 = 1;

/// Why reading from the store or writing to it failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Etcd(#[from] Error),
    #[error("{key} in etcd was not written with this cluster's key: {why}")]
    Forged { key: String, why: &'static str },
    #[error("{key} in etcd cannot be read: {why}")]
    Unreadable { key: String, why: String },
    #[error(
        "another configuration has been pushed to etcd meanwhile: revision {found}, from {by}; yours is based on {}",
        if *.base == 0 { "none".to_owned() } else { format!("revision {base}") }
    )]
    Conflict { found: i64, by: String, base: i64 },
    #[error(
        "the configuration in etcd (revision {revision}) is an older one, which somebody has restored: nodes ignore it"
    )]
    Old { revision: i64 },
    #[error("there is a route to {prefix} already, by {via}: 'set' replaces it")]
    Taken { prefix: String, via: String },
}

/// A configuration as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// The serial number: increases with each configuration, and is authenticated with it; nodes never return
    /// to a lower one.
    pub(crate) serial: u64,
    /// The machine that it was pushed from.
    pub(crate) by: String,
    /// The cluster file.
    pub(crate) file: String,
    /// The program of the whole router.
    pub(crate) program: String,
}

/// The latest configuration that was seen: of two, the one with the higher serial number, whatever its
/// source. If two different configurations with the same number exist, only the one that was seen is
/// accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(super) serial: u64,
    /// Its authentication code; `None` in a cluster without a key.
    pub(super) seal: Option<String>,
}

impl Seen {
    /// Whether a configuration is older than the latest seen, or a different one with the same number.
    pub(super) fn is_after(&self, other: &Self) -> bool {
        self.serial > other.serial || (self.serial == other.serial && self.seal != other.seal)
    }
    /// Records one more.
    pub(super) fn see(&mut self, other: &Self) {
        if other.serial > self.serial {
            self.clone_from(other);
        }
    }
}

/// A process that reports that it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) node: u16,
    pub(crate) host: String,
    /// Differs between two processes of the same node.
    pub(crate) session: String,
    /// The revision of its configuration from etcd; 0: its configuration is from its file.
    pub(crate) revision: i64,
}

/// The part of etcd that is one cluster's.
#[derive(Clone)]
pub(crate) struct Store {
    client: Arc<Client>,
    prefix: String,
    key: Option<Key>,
}

impl Store {
    /// # Errors
    /// There are no endpoints, or the files of certificates and passwords cannot be used.
    pub(crate) fn new(settings: &EtcdSettings, limits: Limits, key: Option<Key>) -> Result<Self, Error> {
        let client = Arc::new(Client::trusting(&settings.endpoints, limits, settings.trust.clone())?);
        Ok(Self { client, prefix: settings.prefix.clone(), key })
    }
    pub(super) fn config_key(&self) -> String {
        format!("{}/config", self.prefix)
    }
    pub(super) fn routes_prefix(&self) -> String {
        format!("{}/routes/", self.prefix)
    }
    pub(super) fn nodes_prefix(&self) -> String {
        format!("{}/nodes/", self.prefix)
    }

    /// The configuration, and its revision.
    pub(crate) fn config(&self) -> Result<Option<(Document, i64)>, StoreError> {
        match self.client.get(&self.config_key())? {
            Some(entry) => Ok(Some((self.document(&entry)?, entry.revision))),
            None => Ok(None),
        }
    }
    /// The revision of the configuration, whatever its contents are; 0 if there is none.
    pub(super) fn revision(&self) -> Result<i64, StoreError> {
        Ok(self.client.get(&self.config_key())?.map_or(0, |entry| entry.revision))
    }
    /// A configuration in its stored form, for a copy.
    pub(super) fn as_stored(&self, document: &Document) -> String {
        self.sealed(&self.config_key(), document)
    }
    /// Reads such a copy, if it was made with this cluster's key.
    pub(super) fn stored(&self, text: &str) -> Option<Document> {
        let entry =
            Entry { key: self.config_key(), value: text.as_bytes().to_vec(), revision: 0, lease: None };
        self.document(&entry).ok()
    }
    /// The client, and the prefix of all keys.
    pub(super) fn parts(&self) -> (&Arc<Client>, &str) {
        (&self.client, &self.prefix)
    }
    /// The part of a configuration that is remembered as seen.
    pub(super) fn mark(&self, document: &Document) -> Seen {
        let parts = document.parts();
        let seal = self.seal(&self.config_key(), &parts.each_ref().map(String::as_str));
        Seen { serial: document.serial, seal }
    }
    /// Writes a configuration in place of the one with the revision `base` (0: there is none; `None`: any),
    /// with a higher number than all that were `seen`. Returns it and the revision. An identical
    /// configuration is not written again, unless nodes would refuse the stored one because it is older than
    /// the latest seen.
    pub(crate) fn push(
        &self,
        file: &str,
        program: &str,
        by: &str,
        base: Option<i64>,
        seen: &Seen,
    ) -> Result<(Document, i64), StoreError> {
        let key = self.config_key();
        let entry = self.client.get(&key)?;
        // An entry that cannot be read is replaced only if that is requested.
        let found = entry.as_ref().map(|e| (self.document(e), e.revision));
        if let Some((Ok(document), revision)) = &found
            && (document.file.as_str(), document.program.as_str()) == (file, program)
            && base.is_some()
            && !seen.is_after(&self.mark(document))
        {
            return Ok((document.clone(), *revision));
        }
        // If there is no entry, because etcd is new or was emptied, nothing is overwritten.
        let base = found.as_ref().map_or(0, |(_, revision)| base.unwrap_or(*revision));
        let conflict = |found: i64, document: Result<Document, StoreError>| StoreError::Conflict {
            found,
            by: document.map_or_else(|_| "somebody without the key".to_owned(), |d| d.by),
            base,
        };
        let serial = match found {
            // An older one does not prevent the write.
            Some((document, revision))
                if revision != base && !document.as_ref().is_ok_and(|d| seen.is_after(&self.mark(d))) =>
            {
                return Err(conflict(revision, document));
            }
            Some((Ok(document), _)) => document.serial.saturating_add(1),
            None | Some((Err(_), _)) => 1,
        };
        // After etcd was emptied, this machine may not know the highest number; milliseconds increase faster.
        let serial = serial.max(seen.serial.saturating_add(1)).max(since_the_epoch_ms());
        let document =
            Document { serial, by: by.to_owned(), file: file.to_owned(), program: program.to_owned() };
        let at = entry.as_ref().map_or(0, |e| e.revision);
        match self.client.swap(&key, self.sealed(&key, &document).as_bytes(), at)? {
            Swap::Done(revision) => Ok((document, revision)),
            Swap::Conflict(Some(entry)) => Err(conflict(entry.revision, self.document(&entry))),
            Swap::Conflict(None) => {
                Err(StoreError::Conflict { found: 0, by: "nobody: it was removed".into(), base })
            }
        }
    }
    /// Enters a route, unless there is another one to the same network.
    ///
    /// # Errors
    /// There is another one, and it is not to be replaced.
    pub(crate) fn add_route(&self, prefix: &str, via: &str, replace: bool) -> Result<(), StoreError> {
        let key = format!("{}{prefix}", self.routes_prefix());
        let value = json!({"via": via, "seal": self.seal(&key, &[via])}).to_string();
        let mut base = 0;
        loop {
            match self.client.swap(&key, value.as_bytes(), base)? {
                Swap::Done(_) => return Ok(()),
                Swap::Conflict(None) => base = 0,
                Swap::Conflict(Some(entry)) => match self.route(&entry) {
                    Ok((prefix, via)) if !replace => return Err(StoreError::Taken { prefix, via }),
                    // A route that is to be replaced, or that no node accepts, does not prevent the write.
                    _ => base = entry.revision,
                },
            }
        }
    }
    /// Removes a route. Returns whether it was there.
    pub(crate) fn remove_route(&self, prefix: &str) -> Result<bool, StoreError> {
        Ok(self.client.delete(&format!("{}{prefix}", self.routes_prefix()))?)
    }
    /// The processes that report that they run.
    pub(crate) fn members(&self) -> Result<Vec<Member>, StoreError> {
        let (entries, _) = self.client.list(&self.nodes_prefix())?;
        Ok(entries.iter().filter_map(|entry| self.member(entry)).collect())
    }

    fn member(&self, entry: &Entry) -> Option<Member> {
        let (node, session) = entry.key.strip_prefix(&self.nodes_prefix())?.split_once('/')?;
        let value: Value = serde_json::from_slice(&entry.value).ok()?;
        Some(Member {
            node: node.parse().ok()?,
            host: value["host"].as_str()?.to_owned(),
            session: session.to_owned(),
            revision: value["revision"].as_i64().unwrap_or(0),
        })
    }
    pub(super) fn document(&self, entry: &Entry) -> Result<Document, StoreError> {
        let unreadable = |why: &str| StoreError::Unreadable { key: entry.key.clone(), why: why.to_owned() };
        let value: Value = serde_json::from_slice(&entry.value).map_err(|e| unreadable(&e.to_string()))?;
        if value["form"] != json!(FORM) {
            return Err(unreadable("another version of valiant wrote it"));
        }
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let document = (|| {
            Some(Document {
                serial: value["serial"].as_u64()?,
                by: text("by")?,
                file: text("file")?,
                program: text("program")?,
            })
        })();
        let document = document.ok_or_else(|| unreadable("something is missing"))?;
        let parts = document.parts();
        self.check(&entry.key, &parts.each_ref().map(String::as_str), &value["seal"])?;
        Ok(document)
    }
    pub(super) fn sealed(&self, key: &str, document: &Document) -> String {
        let parts = document.parts();
        json!({
            "form": FORM, "serial": document.serial, "by": document.by,
            "file": document.file, "program": document.program,
            "seal": self.seal(key, &parts.each_ref().map(String::as_str)),
        })
        .to_string()
    }
    pub(super) fn route(&self, entry: &Entry) -> Result<(String, String), StoreError> {
        let unreadable = |why: &str| StoreError::Unreadable { key: entry.key.clone(), why: why.to_owned() };
        let prefix = entry.key.strip_prefix(&self.routes_prefix()).unwrap_or_default().to_owned();
        let value: Value = serde_json::from_slice(&entry.value).map_err(|e| unreadable(&e.to_string()))?;
        let via = value["via"].as_str().ok_or_else(|| unreadable("it has no next hop"))?;
        self.check(&entry.key, &[via], &value["seal"])?;
        // Both go into a handler's words.
        if prefix.is_empty() || [prefix.as_str(), via].iter().any(|t| t.contains(char::is_whitespace)) {
            return Err(unreadable("it is not a route"));
        }
        Ok((prefix, via.to_owned()))
    }

    /// The authentication code of texts that are stored under a key; none in a cluster without a key.
    pub(super) fn seal(&self, key: &str, parts: &[&str]) -> Option<String> {
        Some(base16ct::lower::encode_string(&self.key.as_ref()?.seal(&framed(key, parts))))
    }
    fn check(&self, key: &str, parts: &[&str], seal: &Value) -> Result<(), StoreError> {
        let forged = |why| Err(StoreError::Forged { key: key.to_owned(), why });
        let Some(secret) = &self.key else {
            return if seal.is_null() {
                Ok(())
            } else {
                forged("it is authenticated, and this cluster has no key")
            };
        };
        let Some(text) = seal.as_str() else { return forged("it is not authenticated") };
        let tag: Option<Vec<u8>> =
            (0..TAG_BYTES).map(|i| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()).collect();
        match tag.and_then(|tag| <[u8; TAG_BYTES]>::try_from(tag).ok()) {
            Some(tag) if text.len() == 2 * TAG_BYTES && secret.sealed(&framed(key, parts), &tag) => Ok(()),
            _ => forged("it is authenticated with another key"),
        }
    }
}

fn since_the_epoch_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(0))
}

impl Document {
    fn parts(&self) -> [String; 4] {
        [self.serial.to_string(), self.by.clone(), self.file.clone(), self.program.clone()]
    }
}

/// A list of texts, each preceded by its length, so that no other list has the same bytes.
fn framed(key: &str, parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in std::iter::once(&key).chain(parts) {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}
