//! The part of a running node that follows etcd.

use super::store::{Document, Seen, Store};
use etcd::{Follower, Health, Mirror, News, Presence};
use serde_json::json;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tracing::Level;

/// How often the agent repeats actions that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Why an action on a node failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ActionError {
    /// It may succeed later.
    Later(String),
    /// It will never succeed: the request is wrong.
    Never(String),
}

/// The actions of the agent on its node.
pub(crate) trait Node: Send {
    /// Makes a configuration the running one.
    fn configure(&mut self, document: &Document, revision: i64) -> Result<(), ActionError>;
    /// Stores, also for the next start of the node, the latest configuration that was seen.
    fn see(&mut self, seen: &Seen);
    /// The routes of the cluster: prefix and next hop.
    fn routes(&mut self) -> Result<BTreeMap<String, String>, ActionError>;
    fn add_route(&mut self, prefix: &str, via: &str) -> Result<(), ActionError>;
    fn remove_route(&mut self, prefix: &str) -> Result<(), ActionError>;
    /// Prints a message for the user.
    fn say(&mut self, level: Level, message: &str);
}

/// The part of a running node that follows etcd, on threads of its own.
pub(crate) struct Agent {
    // Dropped first: then the other threads end.
    _presence: Arc<Presence>,
    _follower: Follower,
}

impl Agent {
    /// Starts it. `running` is the node's configuration if it came from etcd; `seen` is the latest that it
    /// has seen.
    pub(crate) fn start(
        store: Store,
        node: impl Node + 'static,
        id: u16,
        host: &str,
        ttl_s: u32,
        running: Option<(Document, i64)>,
        seen: Seen,
    ) -> Self {
        let (sender, news) = channel();
        let session = format!("{:016x}", RandomState::new().hash_one(id));
        let key = format!("{}{id}/{session}", store.nodes_prefix());
        let revision = running.as_ref().map_or(0, |(_, revision)| *revision);
        let value = presence_value(host, revision);
        let (client, prefix) = (Arc::clone(store.parts().0), format!("{}/", store.parts().1));
        let presence = Arc::new(Presence::start(Arc::clone(&client), key, value, ttl_s, sender.clone()));
        let follower = Follower::start(client, prefix, sender);
        let work = Work {
            reconciler: Reconciler::new(store, node, running.as_ref(), seen),
            news,
            host: host.to_owned(),
            presence: Arc::downgrade(&presence),
        };
        std::thread::spawn(move || work.run());
        Self { _presence: presence, _follower: follower }
    }
}

fn presence_value(host: &str, revision: i64) -> Vec<u8> {
    json!({"host": host, "revision": revision, "version": env!("CARGO_PKG_VERSION")}).to_string().into_bytes()
}

/// The agent's thread.
struct Work<N> {
    reconciler: Reconciler<N>,
    news: Receiver<News>,
    host: String,
    presence: std::sync::Weak<Presence>,
}

impl<N: Node> Work<N> {
    fn run(mut self) {
        let mut open = false;
        loop {
            let news = if open {
                match self.news.recv_timeout(RETRY) {
                    Ok(news) => Some(news),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            } else {
                let Ok(news) = self.news.recv() else { return };
                Some(news)
            };
            // All changes that have arrived meanwhile are one step: only the last state is used.
            for news in
                news.into_iter().chain(std::iter::from_fn(|| self.news.try_recv().ok())).collect::<Vec<_>>()
            {
                self.reconciler.take(news);
            }
            open = !self.reconciler.settle();
            let Some(presence) = self.presence.upgrade() else { return };
            presence.set(presence_value(&self.host, self.reconciler.revision));
        }
    }
}

/// An entry: its revision, and a hash of its contents.
type Mark = (i64, u64);

fn mark(revision: i64, value: &[u8]) -> Mark {
    let mut sum = DefaultHasher::new();
    value.hash(&mut sum);
    (revision, sum.finish())
}

/// The required state, the state that was reached, and the messages that were printed; independent of threads
/// and time.
struct Reconciler<N> {
    store: Store,
    node: N,
    mirror: Mirror,
    health: Health,
    /// The revision of the running configuration, and the latest revision that was seen.
    revision: i64,
    seen: Seen,
    /// The entry of that revision, and the entry that was refused for good. An etcd that was emptied starts
    /// its revisions again.
    running: Option<Mark>,
    refused: Option<Mark>,
    /// Routes that exist because etcd has them.
    owned: BTreeMap<String, String>,
    /// A change has arrived, or an action failed.
    open: bool,
    /// The last message on each subject, so that it is printed only once.
    printed: BTreeMap<String, String>,
}

impl<N: Node> Reconciler<N> {
    fn new(store: Store, node: N, running: Option<&(Document, i64)>, seen: Seen) -> Self {
        let entry =
            |(document, revision): &(Document, i64)| mark(*revision, store.as_stored(document).as_bytes());
        Self {
            running: running.map(entry),
            revision: running.map_or(0, |(_, revision)| *revision),
            store,
            node,
            mirror: Mirror::default(),
            health: Health::default(),
            seen,
            refused: None,
            owned: BTreeMap::new(),
            open: false,
            printed: BTreeMap::new(),
        }
    }
    fn take(&mut self, news: News) {
        match self.health.apply(&news) {
            Some(Some(trouble)) => {
                let message = format!(
                    "{trouble}; the node continues with its configuration and routes, and keeps trying"
                );
                self.node.say(Level::WARN, &message);
            }
            Some(None) => self.node.say(Level::INFO, "etcd answers again"),
            None => {}
        }
        self.open |= self.mirror.apply(news);
    }
    /// Performs pending actions. Returns whether all succeeded.
    fn settle(&mut self) -> bool {
        if !self.open || self.mirror.revision() == 0 {
            return true;
        }
        let done = self.configuration() & self.routes();
        self.open = !done;
        done
    }
    /// Prints a message on a subject unless it was the last one.
    fn once(&mut self, about: &str, message: String) {
        if self.printed.get(about) != Some(&message) {
            self.node.say(Level::WARN, &message);
            self.printed.insert(about.to_owned(), message);
        }
    }
    fn configuration(&mut self) -> bool {
        let Some(entry) = self.mirror.get(&self.store.config_key()) else { return true };
        let revision = entry.revision;
        let this = Some(mark(revision, &entry.value));
        if this == self.running || this == self.refused {
            return true;
        }
        let document = match self.store.document(entry) {
            Ok(document) => document,
            Err(e) => {
                self.refused = this;
                self.once("configuration", format!("{e}; the running configuration is kept"));
                return true;
            }
        };
        let seen = self.store.mark(&document);
        if self.seen.is_after(&seen) {
            self.refused = this;
            self.once("configuration", format!(
                "the configuration in etcd (revision {revision}) is older than an earlier one and is ignored, as somebody has restored it; write the right one with `valiant cluster push --force`",
            ));
            return true;
        }
        if seen != self.seen {
            self.seen = seen;
            // Whether or not it can be run here.
            self.node.see(&self.seen);
        }
        match self.node.configure(&document, revision) {
            Ok(()) => {
                (self.running, self.revision) = (this, revision);
                self.once(
                    "configuration",
                    format!("runs revision {revision} of the configuration in etcd, from {}", document.by),
                );
                true
            }
            Err(ActionError::Never(why)) => {
                self.refused = this;
                self.once("configuration", format!("revision {revision} of the configuration in etcd is refused, the running one is kept: {why}"));
                true
            }
            Err(ActionError::Later(why)) => {
                self.once(
                    "configuration",
                    format!("revision {revision} of the configuration in etcd cannot be applied yet: {why}"),
                );
                false
            }
        }
    }
    fn routes(&mut self) -> bool {
        if self.mirror.get(&self.store.config_key()).is_none() {
            // An emptied etcd does not mean that all routes are to be removed.
            if !self.owned.is_empty() {
                self.owned.clear();
                self.once("emptied", "this cluster's configuration was removed from etcd: the node keeps its routes and configuration; write them again with `valiant cluster push`".to_owned());
            }
            return true;
        }
        self.printed.remove("emptied");
        let mut wanted = BTreeMap::new();
        let mut bad = Vec::new();
        let prefix = self.store.routes_prefix();
        for entry in self.mirror.below(&prefix) {
            match self.store.route(entry) {
                Ok((prefix, via)) => drop(wanted.insert(prefix, via)),
                Err(e) => {
                    // An attacker who can overwrite a route without the key does not remove it that way.
                    let network = entry.key.strip_prefix(&prefix).unwrap_or_default();
                    wanted.extend(self.owned.get_key_value(network).map(|(p, v)| (p.clone(), v.clone())));
                    bad.push((entry.key.clone(), e));
                }
            }
        }
        for (key, e) in bad {
            self.once(&key, format!("{e}; the earlier entry is kept"));
        }
        if wanted.is_empty() && self.owned.is_empty() {
            return true;
        }
        match self.reconcile(&wanted) {
            Ok(()) => {
                self.printed.remove("routes");
                true
            }
            Err(why) => {
                self.once("routes", format!("routes from etcd cannot be applied yet: {why}"));
                false
            }
        }
    }
    /// Updates the cluster's routes to those of etcd; only routes that came from etcd are changed.
    fn reconcile(&mut self, wanted: &BTreeMap<String, String>) -> Result<(), String> {
        let table = match self.node.routes() {
            Ok(table) => table,
            Err(ActionError::Later(why) | ActionError::Never(why)) => return Err(why),
        };
        for (prefix, via) in wanted {
            if table.get(prefix) != Some(via) {
                match self.node.add_route(prefix, via) {
                    Ok(()) => {}
                    Err(ActionError::Later(why)) => return Err(why),
                    Err(ActionError::Never(why)) => {
                        self.once(
                            prefix,
                            format!("the route to {prefix} via {via} in etcd is refused: {why}"),
                        );
                        continue;
                    }
                }
            }
            self.owned.insert(prefix.clone(), via.clone());
        }
        let gone: Vec<_> = self
            .owned
            .iter()
            .filter(|(p, _)| !wanted.contains_key(*p))
            .map(|(p, v)| (p.clone(), v.clone()))
            .collect();
        for (prefix, via) in gone {
            // Another node may have removed it for all, or replaced it.
            if table.get(&prefix) == Some(&via)
                && let Err(ActionError::Later(why)) = self.node.remove_route(&prefix)
            {
                return Err(why);
            }
            self.owned.remove(&prefix);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::StoreError;
    use super::*;
    use crate::file::EtcdSettings;
    use cluster::frame::Key;
    use etcd::{Change, Entry, Error, Limits, Trust};

    fn store(key: Option<&[u8; 16]>) -> Store {
        let settings = EtcdSettings {
            endpoints: vec!["http://127.0.0.1:1".into()],
            prefix: "/v/rb4".into(),
            ttl_s: 5,
            trust: Trust::default(),
        };
        let key = key.map(|k| Key::new(k).unwrap());
        Store::new(&settings, Limits::default(), key).unwrap_or_else(|e| panic!("{e}"))
    }

    fn document(serial: u64) -> Document {
        Document {
            serial,
            by: "host".into(),
            file: format!("name = \"{serial}\""),
            program: "Idle -> Discard".into(),
        }
    }

    fn config(store: &Store, revision: i64, serial: u64) -> Entry {
        let value = store.sealed("/v/rb4/config", &document(serial)).into_bytes();
        Entry { key: "/v/rb4/config".into(), value, revision, lease: None }
    }

    fn route(store: &Store, revision: i64, prefix: &str, via: &str) -> Entry {
        let key = format!("/v/rb4/routes/{prefix}");
        let value = json!({"via": via, "seal": store.seal(&key, &[via])}).to_string().into_bytes();
        Entry { key, value, revision, lease: None }
    }

    /// A node that records the actions on it.
    #[derive(Default)]
    struct Fake {
        log: Vec<String>,
        table: BTreeMap<String, String>,
        failure: Option<fn(String) -> ActionError>,
        seen: u64,
    }

    impl Node for Fake {
        fn configure(&mut self, document: &Document, _: i64) -> Result<(), ActionError> {
            if let Some(failure) = self.failure {
                return Err(failure("no".into()));
            }
            self.log.push(format!("configure {}", document.serial));
            Ok(())
        }
        fn see(&mut self, seen: &Seen) {
            self.seen = seen.serial;
        }
        fn routes(&mut self) -> Result<BTreeMap<String, String>, ActionError> {
            Ok(self.table.clone())
        }
        fn add_route(&mut self, prefix: &str, via: &str) -> Result<(), ActionError> {
            self.log.push(format!("add {prefix} {via}"));
            self.table.insert(prefix.into(), via.into());
            Ok(())
        }
        fn remove_route(&mut self, prefix: &str) -> Result<(), ActionError> {
            self.log.push(format!("remove {prefix}"));
            self.table.remove(prefix);
            Ok(())
        }
        fn say(&mut self, _: Level, message: &str) {
            self.log.push(format!("say {message}"));
        }
    }

    fn reconciler() -> Reconciler<Fake> {
        Reconciler::new(store(Some(b"0123456789abcdef")), Fake::default(), None, Seen::default())
    }

    fn steps(reconciler: &mut Reconciler<Fake>, news: News) -> (bool, Vec<String>) {
        reconciler.take(news);
        let done = reconciler.settle();
        (done, std::mem::take(&mut reconciler.node.log))
    }

    #[test]
    fn only_the_clusters_key_seals() {
        let (ours, theirs, none) =
            (store(Some(b"0123456789abcdef")), store(Some(b"0123456789abcdeF")), store(None));
        let entry = config(&ours, 3, 1);
        assert_eq!(ours.document(&entry).unwrap_or_else(|e| panic!("{e}")), document(1));
        assert!(matches!(theirs.document(&entry), Err(StoreError::Forged { .. })));
        assert!(matches!(none.document(&entry), Err(StoreError::Forged { .. })));
        assert!(matches!(ours.document(&config(&none, 3, 1)), Err(StoreError::Forged { .. })));
        // An authentication code for one place is not valid for another place, nor with another text.
        let moved =
            Entry { key: "/v/rb4/routes/10.9.0.0/16".into(), ..route(&ours, 4, "10.8.0.0/16", "10.0.3.2") };
        assert!(matches!(ours.route(&moved), Err(StoreError::Forged { .. })));
        let text = String::from_utf8_lossy(&entry.value).replace("Idle", "Void");
        assert!(matches!(
            ours.document(&Entry { value: text.into(), ..entry }),
            Err(StoreError::Forged { .. })
        ));
        for bad in [
            "",
            "{",
            "7",
            "{\"form\":2}",
            "{\"form\":1}",
            "{\"form\":1,\"serial\":1,\"by\":\"\",\"file\":\"\",\"program\":\"\",\"seal\":\"é\"}",
        ] {
            let entry = Entry { key: "/v/rb4/config".into(), value: bad.into(), revision: 1, lease: None };
            assert!(ours.document(&entry).is_err(), "{bad}");
        }
        let words = Entry {
            key: "/v/rb4/routes/10.9.0.0/16 x".into(),
            ..route(&ours, 1, "10.9.0.0/16 x", "10.0.3.2")
        };
        assert!(ours.route(&words).is_err());
    }

    #[test]
    fn a_new_configuration_is_taken_once_and_an_old_one_never() {
        let mut reconciler = reconciler();
        let store = reconciler.store.clone();
        let all = |entry| News::All { revision: 9, entries: vec![entry] };
        let (done, log) = steps(&mut reconciler, all(config(&store, 5, 7)));
        assert!(done && log[0] == "configure 7" && log.len() == 2, "{log:?}");
        assert_eq!(steps(&mut reconciler, all(config(&store, 5, 7))), (true, vec![]));
        let (done, log) = steps(&mut reconciler, all(config(&store, 6, 6)));
        assert!(done && log.len() == 1 && log[0].contains("older than an earlier one"), "{log:?}");
        let theirs = super::tests::store(None);
        let (_, log) = steps(&mut reconciler, all(config(&theirs, 7, 9)));
        assert!(log.len() == 1 && log[0].contains("not written with this cluster's key"), "{log:?}");
        // An action that fails is repeated later, and reported once.
        reconciler.node.failure = Some(ActionError::Later);
        let (done, log) = steps(&mut reconciler, all(config(&store, 8, 8)));
        assert!(!done && log.len() == 1, "{log:?}");
        assert!(!reconciler.settle() && reconciler.node.log.is_empty());
        reconciler.node.failure = None;
        assert!(reconciler.settle());
        assert_eq!(std::mem::take(&mut reconciler.node.log)[0], "configure 8");
        // A wrong request is reported once, and not tried again.
        reconciler.node.failure = Some(ActionError::Never);
        let (done, log) = steps(&mut reconciler, all(config(&store, 9, 9)));
        assert!(done && log.len() == 1 && log[0].contains("the running one is kept"), "{log:?}");
        assert_eq!((reconciler.revision, reconciler.seen.serial, reconciler.node.seen), (8, 9, 9));
    }

    /// An attacker who can write to etcd, but does not have the key, restores old contents: a node accepts
    /// none of them, not even those that are newer than the running configuration but older than the latest
    /// seen; neither does a node that has been restarted.
    #[test]
    fn what_was_there_before_never_comes_back() {
        let mut reconciler = reconciler();
        let store = reconciler.store.clone();
        let all = |revision, serial| News::All { revision, entries: vec![config(&store, revision, serial)] };
        steps(&mut reconciler, all(1, 5));
        reconciler.node.failure = Some(ActionError::Never);
        steps(&mut reconciler, all(2, 9));
        reconciler.node.failure = None;
        for (revision, serial) in [(3, 5), (4, 7), (5, 8)] {
            let (done, log) = steps(&mut reconciler, all(revision, serial));
            assert!(done && !log.iter().any(|l| l.starts_with("configure")), "{log:?}");
        }
        // It is restarted, with the configuration that it ran and the latest that it had seen.
        let (seen, running) = (reconciler.seen.clone(), (document(5), reconciler.revision));
        let mut reconciler = Reconciler::new(store.clone(), Fake::default(), Some(&running), seen);
        for (revision, serial) in [(6, 4), (7, 8), (8, 6)] {
            let (done, log) = steps(&mut reconciler, all(revision, serial));
            assert!(done && !log.iter().any(|l| l.starts_with("configure")), "{log:?}");
        }
        // A different one with the number of the last; then the last itself, which can be run now; and a new
        // one.
        let other = Document { by: "another".into(), ..document(9) };
        let value = store.sealed("/v/rb4/config", &other).into_bytes();
        let entry = Entry { key: "/v/rb4/config".into(), value, revision: 9, lease: None };
        let (_, log) = steps(&mut reconciler, News::All { revision: 9, entries: vec![entry] });
        assert!(!log.iter().any(|l| l.starts_with("configure")), "{log:?}");
        assert_eq!(steps(&mut reconciler, all(10, 9)).1[0], "configure 9");
        assert_eq!(steps(&mut reconciler, all(11, 10)).1[0], "configure 10");
    }

    /// An etcd that was emptied counts from 1 again, so a new configuration may have the revision of the
    /// running or of a refused one.
    #[test]
    fn a_revision_that_comes_again_may_be_another_configuration() {
        let mut reconciler = reconciler();
        let store = reconciler.store.clone();
        let all = |revision, serial| News::All { revision, entries: vec![config(&store, revision, serial)] };
        assert_eq!(steps(&mut reconciler, all(2, 5)).1[0], "configure 5");
        assert_eq!(steps(&mut reconciler, all(2, 6)).1[0], "configure 6");
        assert!(steps(&mut reconciler, all(3, 4)).1[0].contains("is older than"));
        assert_eq!(steps(&mut reconciler, all(3, 7)).1[0], "configure 7");
        // The same after a restart.
        let (seen, running) = (reconciler.seen.clone(), (document(7), 3));
        let mut reconciler = Reconciler::new(store.clone(), Fake::default(), Some(&running), seen);
        assert_eq!(steps(&mut reconciler, all(3, 7)), (true, vec![]));
        assert_eq!(steps(&mut reconciler, all(3, 8)).1[0], "configure 8");
    }

    #[test]
    fn routes_follow_etcd_and_survive_its_loss() {
        let mut reconciler = reconciler();
        let store = reconciler.store.clone();
        reconciler.node.table.insert("10.7.0.0/16".into(), "10.0.1.2".into());
        let first = News::All {
            revision: 4,
            entries: vec![
                config(&store, 2, 1),
                route(&store, 3, "10.8.0.0/16", "10.0.2.2"),
                route(&store, 4, "10.9.0.0/16", "10.0.3.2"),
            ],
        };
        let (done, log) = steps(&mut reconciler, first);
        assert!(done);
        assert_eq!(&log[2..], ["add 10.8.0.0/16 10.0.2.2", "add 10.9.0.0/16 10.0.3.2"]);
        // Another next hop, and one route fewer.
        let changes = vec![
            Change::Put(route(&store, 5, "10.8.0.0/16", "10.0.2.3")),
            Change::Delete("/v/rb4/routes/10.9.0.0/16".into()),
        ];
        let (_, log) = steps(&mut reconciler, News::Changes { revision: 6, changes });
        assert_eq!(log, ["add 10.8.0.0/16 10.0.2.3", "remove 10.9.0.0/16"]);
        // An attacker without the key overwrites one: the route stays, which is reported once.
        let forged = || {
            Change::Put(Entry {
                value: b"{\"via\":\"10.0.9.9\"}".to_vec(),
                ..route(&store, 7, "10.8.0.0/16", "")
            })
        };
        let (_, log) = steps(&mut reconciler, News::Changes { revision: 7, changes: vec![forged()] });
        assert!(log.len() == 1 && log[0].contains("not written with this cluster's key"), "{log:?}");
        assert_eq!(reconciler.node.table.get("10.8.0.0/16").map(String::as_str), Some("10.0.2.3"));
        // etcd stops: nothing changes, and one message is printed. It returns empty: nothing changes either.
        let down = || Error::Unreachable { endpoint: "http://e:1".into(), why: "refused".into() };
        let (_, log) = steps(&mut reconciler, News::Reading(Some(down())));
        assert!(log.len() == 1 && log[0].contains("the node continues with"), "{log:?}");
        assert_eq!(steps(&mut reconciler, News::Presence(Some(down()))), (true, vec![]));
        let (done, log) = steps(&mut reconciler, News::All { revision: 1, entries: vec![] });
        assert!(done && log.len() == 1 && log[0].contains("keeps its routes and configuration"), "{log:?}");
        assert_eq!(reconciler.node.table.len(), 2);
        // Routes that never came from etcd are not touched.
        let (_, log) = steps(&mut reconciler, News::All { revision: 2, entries: vec![config(&store, 2, 2)] });
        assert!(!log.iter().any(|l| l.starts_with("remove")), "{log:?}");
    }
}
