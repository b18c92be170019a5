//! A copy of the keys below a prefix.

use crate::{Change, Entry, Error};
use std::collections::BTreeMap;

/// The events that [`Follower`](crate::Follower) and [`Presence`](crate::Presence) report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Everything below the prefix at a revision; keys that are not listed do not exist any more.
    All {
        /// The revision of the store.
        revision: i64,
        /// In the order of keys.
        entries: Vec<Entry>,
    },
    /// What changed, in order.
    Changes {
        /// The revision of the last change.
        revision: i64,
        /// In the order in which they happened.
        changes: Vec<Change>,
    },
    /// Reading has begun to fail with this error, or works again. Reported on change only.
    Reading(Option<Error>),
    /// Keeping the presence has begun to fail with this error, or works again. Reported on change only.
    Presence(Option<Error>),
}

/// A copy of the keys below the prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    revision: i64,
    entries: BTreeMap<String, Entry>,
}

impl Mirror {
    /// Applies news. Returns whether the copy has changed.
    pub fn apply(&mut self, news: News) -> bool {
        match news {
            News::All { revision, entries } => {
                self.revision = revision;
                let entries: BTreeMap<_, _> = entries.into_iter().map(|e| (e.key.clone(), e)).collect();
                let changed = entries != self.entries;
                self.entries = entries;
                changed
            }
            News::Changes { revision, changes } => {
                self.revision = self.revision.max(revision);
                let mut changed = false;
                for change in changes {
                    changed |= match change {
                        Change::Put(entry) => {
                            let new = self.entries.get(&entry.key) != Some(&entry);
                            self.entries.insert(entry.key.clone(), entry);
                            new
                        }
                        Change::Delete(key) => self.entries.remove(&key).is_some(),
                    };
                }
                changed
            }
            News::Reading(_) | News::Presence(_) => false,
        }
    }
    /// The revision of the store that this is a copy of; 0 if nothing has been read yet.
    #[must_use]
    pub const fn revision(&self) -> i64 {
        self.revision
    }
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }
    /// The keys with a prefix and their values, in order.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries
            .range(prefix.to_owned()..)
            .map(|(_, entry)| entry)
            .take_while(move |e| e.key.starts_with(prefix))
    }
}

/// The problem that was reported last, so that a problem is reported when it begins and when it ends.
#[derive(Debug, Default)]
pub(crate) struct Reported(Option<Error>);

impl Reported {
    /// Whether the present problem, or its end, is to be reported.
    pub(crate) fn changes(&mut self, now: Option<&Error>) -> bool {
        let same = match (&self.0, now) {
            (None, None) => true,
            (Some(before), Some(now)) => before.same_trouble(now),
            _ => false,
        };
        if !same {
            self.0 = now.cloned();
        }
        !same
    }
    /// The problem that was reported.
    pub(crate) const fn trouble(&self) -> Option<&Error> {
        self.0.as_ref()
    }
}

/// The present problem with etcd. It is reported once when it begins and once when it ends, whichever task
/// notices it first.
#[derive(Debug, Default)]
pub struct Health {
    reading: Option<Error>,
    presence: Option<Error>,
    reported: Reported,
}

impl Health {
    /// Applies news. Returns what is to be reported: the problem that began, or `Some(None)` when all
    /// problems have ended.
    pub fn apply(&mut self, news: &News) -> Option<Option<&Error>> {
        match news {
            News::Reading(trouble) => self.reading.clone_from(trouble),
            News::Presence(trouble) => self.presence.clone_from(trouble),
            News::All { .. } | News::Changes { .. } => return None,
        }
        let worst = self.reading.as_ref().or(self.presence.as_ref());
        self.reported.changes(worst).then(|| self.reported.trouble())
    }
    /// The present problem.
    #[must_use]
    pub const fn trouble(&self) -> Option<&Error> {
        self.reported.trouble()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str, revision: i64) -> Entry {
        Entry { key: key.into(), value: value.into(), revision, lease: None }
    }

    #[test]
    fn follows_changes_and_forgets_what_a_new_reading_lacks() {
        let mut mirror = Mirror::default();
        assert_eq!(mirror.revision(), 0);
        assert!(
            mirror.apply(News::All {
                revision: 3,
                entries: vec![entry("/a/1", "x", 2), entry("/b/1", "y", 3)]
            })
        );
        let changes = vec![Change::Put(entry("/a/2", "z", 4)), Change::Delete("/b/1".into())];
        assert!(mirror.apply(News::Changes { revision: 5, changes: changes.clone() }));
        assert!(!mirror.apply(News::Changes { revision: 5, changes }));
        let keys: Vec<_> = mirror.below("/a/").map(|e| e.key.as_str()).collect();
        assert_eq!((keys, mirror.revision()), (vec!["/a/1", "/a/2"], 5));
        assert!(mirror.get("/b/1").is_none());
        // The revisions of a store that was emptied begin again at a low number, too.
        assert!(mirror.apply(News::All { revision: 1, entries: vec![] }));
        assert_eq!((mirror.below("/").count(), mirror.revision()), (0, 1));
    }

    #[test]
    fn trouble_is_reported_once() {
        let down = |why: &str| Error::Unreachable { endpoint: "e".into(), why: why.into() };
        let full = Error::Full { endpoint: "e".into() };
        let mut health = Health::default();
        assert_eq!(health.apply(&News::Reading(None)), None);
        assert_eq!(health.apply(&News::Presence(Some(down("closed")))), Some(Some(&down("closed"))));
        assert_eq!(health.apply(&News::Reading(Some(down("refused")))), None);
        assert_eq!(health.apply(&News::Presence(None)), None);
        assert_eq!(health.apply(&News::Reading(None)), Some(None));
        assert_eq!(health.apply(&News::Presence(Some(full.clone()))), Some(Some(&full)));
        assert_eq!(health.trouble(), Some(&full));
        assert_eq!(health.apply(&News::Presence(None)), Some(None));
    }
}
