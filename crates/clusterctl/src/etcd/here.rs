//! The commands, and the node of this process as the agent sees it.

use super::agent::{Agent, Hitch, Node as Followed};
use super::store::{Document, Member, Seen, Store, StoreError};
use crate::args::{PullArgs, PushArgs};
use crate::file::{Cluster, Node};
use crate::key::{key_is_good, secret};
use crate::outcome::{Failure, say, shortest};
use crate::process::{self, beside, local};
use crate::program::{self, check_node, configuration, program_of};
use crate::split::Whole;
use etcd::Limits;
use lang::Source;
use launch::Client;
use runtime::Registry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long this node may take to answer its own agent,
const ANSWER: Duration = Duration::from_secs(10);
/// and to change over to another configuration: it opens ports.
const CHANGE: Duration = Duration::from_secs(30);
/// How long a command that only shows something waits for etcd.
const GLANCE: Limits = Limits {
    connect: Duration::from_millis(300),
    request: Duration::from_millis(1000),
    watch: Duration::from_secs(30),
    backoff: (Duration::from_millis(100), Duration::from_secs(5)),
};

impl From<StoreError> for Failure {
    fn from(e: StoreError) -> Self {
        Self::Text(e.to_string())
    }
}

/// The store of a cluster that has one.
fn store(cluster: &Cluster, limits: Limits) -> Result<Option<Store>, Failure> {
    let Some(settings) = &cluster.etcd else { return Ok(None) };
    Ok(Some(Store::new(settings, limits, secret(cluster)?).map_err(StoreError::from)?))
}

/// The store of a cluster that must have one.
fn the_store(cluster: &Cluster, file: &Path) -> Result<Store, Failure> {
    store(cluster, Limits::default())?.ok_or_else(|| {
        let file = file.display();
        Failure::Text(format!(
            "{file} names no etcd\nhelp: add a section: [etcd] and endpoints = [\"http://127.0.0.1:2379\"]"
        ))
    })
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Reads a text file.
fn read(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {}", shortest(path), launch::reason(&e)))?;
    Ok(String::from_utf8(bytes).map_err(|_| format!("{}: this is no UTF-8", shortest(path)))?)
}

/// Writes a file, whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let new = path.with_added_extension("new");
    (std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)))
        .map_err(|e| format!("{}: {}", shortest(path), launch::reason(&e)).into())
}

/// What was pushed or pulled last, in a file beside the cluster file: what a push may replace.
struct Base {
    revision: i64,
    document: Document,
}

impl Base {
    fn path(file: &Path) -> PathBuf {
        file.with_added_extension("etcd")
    }
    fn read(file: &Path) -> Option<Self> {
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
    fn write(&self, file: &Path) -> Result<(), Failure> {
        let Document { serial, by, file: text, program } = &self.document;
        let value =
            json!({"revision": self.revision, "serial": serial, "by": by, "file": text, "program": program});
        write(&Self::path(file), &format!("{value}\n"))
    }
}

/// What a node keeps of the configurations in etcd: the one that it runs and its revision, and up to which it has seen any.
#[derive(Clone, Debug, Default, PartialEq)]
struct Kept {
    running: Option<(Document, i64)>,
    seen: Seen,
}

impl Kept {
    /// Where it is: beside the control socket, and beside the cluster file, as sockets are where nothing outlives the machine.
    fn paths(file: &Path, node: &Node) -> [PathBuf; 2] {
        let name = format!("node{}", node.id);
        [beside(node, "etcd"), file.with_added_extension(name).with_added_extension("etcd")]
    }
    fn read(store: &Store, path: &Path) -> Self {
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
    fn text(&self, store: &Store) -> String {
        let running = self.running.as_ref();
        let (stored, revision) = (running.map(|(d, _)| store.as_stored(d)), running.map(|(_, r)| r));
        let Seen { serial, seal } = &self.seen;
        format!("{}\n", json!({"revision": revision, "stored": stored, "serial": serial, "seal": seal}))
    }
    /// All that is known here, by pushes and pulls of the file and by these nodes: configurations that were had, and the highest of
    /// all that were seen.
    fn all<'a>(
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

/// What was seen of a cluster's configurations on this machine.
fn seen_here(store: &Store, file: &Path, cluster: &Cluster) -> Seen {
    Kept::all(store, file, cluster.present().filter(|n| local(n))).1
}

/// `valiant cluster push`.
pub(crate) fn push(registry: &Arc<Registry>, args: &PushArgs) -> Result<ExitCode, Failure> {
    let (cluster, whole) = program::load(registry, &args.of.file)?;
    let store = the_store(&cluster, &args.of.file)?;
    key_is_good(&cluster)?;
    for node in cluster.present() {
        check_node(registry, &cluster, &whole, node)?;
    }
    let (file, program) = (read(&args.of.file)?, read(&cluster.program)?);
    let base = (!args.force).then(|| Base::read(&args.of.file).map_or(0, |base| base.revision));
    let seen = seen_here(&store, &args.of.file, &cluster);
    let (document, revision) = match store.push(&file, &program, &host(), base, &seen) {
        Ok(done) => done,
        Err(e @ StoreError::Conflict { .. }) => {
            return Err(format!(
                "{e}\nhelp: `valiant cluster pull --force {0}` brings it (keep a copy of yours), then put your change in again and push; \
                 `push --force` overwrites it",
                args.of.file.display()
            )
            .into());
        }
        Err(e) => return Err(e.into()),
    };
    Base { revision, document }.write(&args.of.file)?;
    say(&if args.of.json {
        format!("{}\n", json!({"ok": true, "name": cluster.name, "revision": revision}))
    } else {
        format!("{}: in etcd as revision {revision}; running nodes take it over\n", cluster.name)
    });
    Ok(ExitCode::SUCCESS)
}

/// `valiant cluster pull`.
pub(crate) fn pull(args: &PullArgs) -> Result<ExitCode, Failure> {
    let cluster = Cluster::load(&args.of.file)?;
    let store = the_store(&cluster, &args.of.file)?;
    let Some((document, revision)) = store.config()? else {
        return Err(format!(
            "etcd has no configuration of {} yet\nhelp: `valiant cluster push {}` puts this one there",
            cluster.name,
            args.of.file.display()
        )
        .into());
    };
    if seen_here(&store, &args.of.file, &cluster).is_after(&store.mark(&document)) {
        return Err(format!(
            "{}\nhelp: `valiant cluster push --force {}` puts this file there instead",
            StoreError::Old { revision },
            args.of.file.display()
        )
        .into());
    }
    let pulled = parse(&args.of.file, &document)?;
    let base = Base::read(&args.of.file).map(|base| base.document);
    let (file_before, program_before) = base.map_or((None, None), |b| (Some(b.file), Some(b.program)));
    let targets = [
        (args.of.file.as_path(), &document.file, file_before),
        (pulled.program.as_path(), &document.program, program_before),
    ];
    for (path, text, before) in &targets {
        let here = read(path).ok();
        let lost = here.filter(|here| here != *text && Some(here) != before.as_ref());
        if lost.is_some() && !args.force {
            return Err(format!(
                "{} has changes that were never pushed\nhelp: keep a copy; --force writes over them",
                shortest(path)
            )
            .into());
        }
    }
    for (path, text, _) in &targets {
        if read(path).ok().as_ref() != Some(text) {
            write(path, text)?;
        }
    }
    let by = document.by.clone();
    Base { revision, document }.write(&args.of.file)?;
    say(&if args.of.json {
        format!("{}\n", json!({"ok": true, "name": pulled.name, "revision": revision, "by": by}))
    } else {
        format!("{}: revision {revision}, from {by}\n", pulled.name)
    });
    Ok(ExitCode::SUCCESS)
}

/// Enters a route in etcd. Returns false if the cluster has none.
pub(crate) fn add_route(cluster: &Cluster, prefix: &str, via: &str, replace: bool) -> Result<bool, Failure> {
    let Some(store) = store(cluster, Limits::default())? else { return Ok(false) };
    store.add_route(prefix, via, replace)?;
    Ok(true)
}

/// Removes a route from etcd. Returns false if it was not there, or the cluster has no etcd.
pub(crate) fn remove_route(cluster: &Cluster, prefix: &str) -> Result<bool, Failure> {
    let Some(store) = store(cluster, Limits::default())? else { return Ok(false) };
    Ok(store.remove_route(prefix)?)
}

/// What etcd says of a cluster: the revision of its configuration (0: there is none), and who says that it runs. None if the
/// cluster has no etcd.
pub(crate) fn members(cluster: &Cluster) -> Option<Result<(i64, Vec<Member>), String>> {
    let look = || {
        let Some(store) = store(cluster, GLANCE)? else { return Ok(None) };
        let revision = store.revision()?;
        Ok(Some((revision, store.members()?)))
    };
    look().map_err(|e: Failure| e.text()).transpose()
}

/// What a stored configuration says, as if it were in `file`.
fn parse(file: &Path, document: &Document) -> Result<Cluster, Failure> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let dir = absolute.parent().unwrap_or(Path::new("/"));
    Ok(Cluster::parse(&format!("{} (from etcd)", shortest(file)), &document.file, dir)?)
}

/// The same, with the program.
fn split(registry: &Registry, file: &Path, document: &Document) -> Result<(Cluster, Whole), Failure> {
    let cluster = parse(file, document)?;
    let source = Source::new(shortest(&cluster.program), document.program.as_str());
    let whole = program_of(registry, &cluster, &source)?;
    Ok((cluster, whole))
}

/// Where a node's configuration comes from.
pub(crate) struct Origin {
    store: Store,
    ttl_s: u32,
    file: PathBuf,
    kept: Kept,
}

/// What a node may begin with, the best first: of what etcd has and what was had before, the one with the highest serial number. What
/// etcd has is left out if it is older than what was seen; `seen` sees it otherwise.
fn best(
    store: &Store,
    there: Option<(Document, i64)>,
    had: Vec<(Document, i64)>,
    seen: &mut Seen,
) -> Vec<(Document, i64)> {
    let mut found = Vec::new();
    if let Some((document, revision)) = there {
        let mark = store.mark(&document);
        if !seen.is_after(&mark) {
            seen.see(&mark);
            found.push((document, revision));
        }
    }
    for (document, revision) in had {
        if found.iter().all(|(d, _)| *d != document) {
            found.push((document, revision));
        }
    }
    // Of equal ones the first stays the first.
    found.sort_by_key(|(document, _)| std::cmp::Reverse(document.serial));
    found
}

/// What a node is to run: of what etcd has and what was had from there before, the latest; else the file.
pub(crate) fn begin(
    registry: &Arc<Registry>,
    file: &Path,
    id: u16,
    from_file: (Cluster, Whole),
) -> Result<(Cluster, Whole, Option<Origin>), Failure> {
    let (cluster, whole) = from_file;
    let Some(store) = store(&cluster, Limits::default())? else { return Ok((cluster, whole, None)) };
    let ttl_s = cluster.etcd.as_ref().map_or(5, |e| e.ttl_s);
    let (had, mut seen) = Kept::all(&store, file, [process::node(&cluster, id)?]);
    let there = match store.config() {
        Ok(Some((document, revision))) => {
            if seen.is_after(&store.mark(&document)) {
                eprintln!("warning: {}", StoreError::Old { revision });
            }
            Some((document, revision))
        }
        Ok(None) if had.is_empty() => {
            eprintln!(
                "etcd: no configuration of {} yet: this is the file's, until `valiant cluster push`",
                cluster.name
            );
            None
        }
        Ok(None) => {
            eprintln!(
                "warning: etcd: the configuration of {} was removed there: this node begins with what it had; `valiant cluster push` \
                 puts it back",
                cluster.name
            );
            None
        }
        Err(e) => {
            eprintln!("warning: {e}");
            None
        }
    };
    let begin_empty = there.is_none() && had.is_empty();
    let found = best(&store, there, had, &mut seen);
    let origin = |running| {
        let kept = Kept { running, seen: seen.clone() };
        Some(Origin { store: store.clone(), ttl_s, file: file.to_owned(), kept })
    };
    for (document, revision) in found {
        match split(registry, file, &document) {
            Ok((cluster, whole)) => {
                eprintln!(
                    "etcd: this node begins with revision {revision} of the configuration, from {}",
                    document.by
                );
                return Ok((cluster, whole, origin(Some((document, revision)))));
            }
            Err(e) => eprintln!(
                "warning: etcd: revision {revision} of the configuration cannot be used here: {}",
                e.text()
            ),
        }
    }
    if !begin_empty {
        eprintln!("etcd: this node begins with its file");
    }
    Ok((cluster, whole, origin(None)))
}

impl Origin {
    /// Follows etcd from here on.
    pub(crate) fn follow(self, registry: &Arc<Registry>, node: &Node) -> Agent {
        let (running, seen) = (self.kept.running.clone(), self.kept.seen.clone());
        let mut here = Here {
            registry: Arc::clone(registry),
            store: self.store.clone(),
            paths: Kept::paths(&self.file, node),
            file: self.file,
            id: node.id,
            socket: node.socket.clone(),
            client: None,
            kept: self.kept,
            warned: false,
        };
        if seen != Seen::default() {
            here.keep();
        }
        Agent::start(self.store, here, node.id, &host(), self.ttl_s, running, seen)
    }
}

/// The node of this process. It is spoken to over its control socket, as anybody does: so nothing here waits for a worker, and
/// no worker for this.
struct Here {
    registry: Arc<Registry>,
    store: Store,
    file: PathBuf,
    id: u16,
    socket: PathBuf,
    client: Option<Client>,
    /// What is kept, and where.
    kept: Kept,
    paths: [PathBuf; 2],
    /// Whether it has been said that it cannot be kept in one of these places.
    warned: bool,
}

impl Here {
    fn connect(&self, limit: Duration) -> Result<Client, Hitch> {
        Client::connect_within(&self.socket.display().to_string(), limit)
            .map_err(|e| Hitch::Later(format!("{}: {}", self.socket.display(), launch::reason(&e))))
    }
    /// Asks the node something; a connection that works is kept for the next thing.
    fn ask(&mut self, work: impl FnOnce(&mut Client) -> io::Result<String>) -> Result<String, Hitch> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.connect(ANSWER)?,
        };
        let answer = work(&mut client).map_err(|e| hitch(&e));
        if !matches!(answer, Err(Hitch::Later(_))) {
            self.client = Some(client);
        }
        answer
    }
    fn keep(&mut self) {
        let text = self.kept.text(&self.store);
        for path in &self.paths {
            if let Err(e) = write(path, &text)
                && !std::mem::replace(&mut self.warned, true)
            {
                eprintln!(
                    "warning: etcd: {}: what this node runs, and how far the configurations have got, may not be known there when it \
                     starts again",
                    e.text()
                );
            }
        }
    }
}

/// A node that says no means it; one that is silent may do it later.
fn hitch(e: &io::Error) -> Hitch {
    match e.kind() {
        io::ErrorKind::Other => Hitch::Never(e.to_string().trim().to_owned()),
        _ => Hitch::Later(launch::reason(e)),
    }
}

impl Followed for Here {
    fn configure(&mut self, document: &Document, revision: i64) -> Result<(), Hitch> {
        let never = |e: Failure| Hitch::Never(e.text());
        let (cluster, whole) = split(&self.registry, &self.file, document).map_err(never)?;
        // The new one may have another socket.
        self.client = None;
        let mut client = self.connect(CHANGE)?;
        let node = match cluster.node(self.id) {
            Some(node) if !node.removed => node,
            _ => {
                self.say(&format!(
                    "revision {revision} of {} has no node {} any more: it stops",
                    cluster.name, self.id
                ));
                return client.write("stop", b"").map(drop).map_err(|e| hitch(&e));
            }
        };
        let text = configuration(&cluster, &whole, node).map_err(never)?;
        if client.read("hotconfig", "").map_err(|e| hitch(&e))? != text {
            client.write("hotconfig", text.as_bytes()).map_err(|e| hitch(&e))?;
        }
        self.socket.clone_from(&node.socket);
        self.kept.running = Some((document.clone(), revision));
        self.keep();
        Ok(())
    }
    fn see(&mut self, seen: &Seen) {
        self.kept.seen.clone_from(seen);
        self.keep();
    }
    fn routes(&mut self) -> Result<BTreeMap<String, String>, Hitch> {
        // What the last round left may have been closed since.
        self.client = None;
        let text = self.ask(|client| client.read("cluster_routes.table", ""))?;
        let route = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        };
        Ok(text.lines().filter_map(route).collect())
    }
    fn add_route(&mut self, prefix: &str, via: &str) -> Result<(), Hitch> {
        let value = format!("{prefix} {via}");
        self.ask(|client| client.write("cluster_routes.set", value.as_bytes())).map(drop)
    }
    fn remove_route(&mut self, prefix: &str) -> Result<(), Hitch> {
        self.ask(|client| client.write("cluster_routes.remove", prefix.as_bytes())).map(drop)
    }
    fn say(&mut self, message: &str) {
        // What is wrong with etcd begins with its name.
        let about = if message.starts_with("etcd") { "" } else { "etcd: " };
        eprintln!("{about}{message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::EtcdSettings;
    use cluster::frame::Key;
    use etcd::Trust;

    fn store() -> Store {
        let settings = EtcdSettings {
            endpoints: vec!["http://127.0.0.1:1".into()],
            prefix: "/v/rb4".into(),
            ttl_s: 5,
            trust: Trust::default(),
        };
        let key = Key::new(b"0123456789abcdef").unwrap();
        Store::new(&settings, Limits::default(), Some(key)).unwrap_or_else(|e| panic!("{e}"))
    }

    fn document(serial: u64, by: &str) -> Document {
        Document { serial, by: by.into(), file: format!("{serial}"), program: String::new() }
    }

    /// Whatever etcd has and whatever is kept: a node begins with the highest number that it knows.
    #[test]
    fn a_node_begins_with_the_latest_configuration() {
        let store = store();
        let first = |there: Option<u64>, had: &[u64], seen: u64| {
            let mut seen = Seen { serial: seen, ..Seen::default() };
            had.iter().for_each(|n| seen.see(&store.mark(&document(*n, "a"))));
            let had = had.iter().map(|n| (document(*n, "a"), *n as i64)).collect();
            let found = best(&store, there.map(|n| (document(n, "a"), 100 + n as i64)), had, &mut seen);
            (found.first().map(|(d, revision)| (d.serial, *revision)), seen.serial)
        };
        assert_eq!(first(None, &[], 0), (None, 0));
        assert_eq!(first(Some(5), &[], 0), (Some((5, 105)), 5));
        // A deleted key is not the end of what was there.
        assert_eq!(first(None, &[5, 6], 0), (Some((6, 6)), 6));
        // A newer one, the same one, an older one that was brought back.
        assert_eq!(first(Some(7), &[5, 6], 0), (Some((7, 107)), 7));
        assert_eq!(first(Some(6), &[6, 6], 0), (Some((6, 106)), 6));
        assert_eq!(first(Some(5), &[6], 0), (Some((6, 6)), 6));
        // One that was seen and could not be run here counts too: what is between is older.
        assert_eq!(first(Some(8), &[6], 9), (Some((6, 6)), 9));
        assert_eq!(first(Some(8), &[], 9), (None, 9));
        // Another one with the same number is none.
        let mut seen = store.mark(&document(6, "a"));
        assert_eq!(best(&store, Some((document(6, "b"), 1)), vec![], &mut seen), []);
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
