//! `valiant cluster push` and `pull`, and the commands for routes and members where the cluster has etcd.

use super::kept::{Base, read, seen_here, write};
use super::node::parse;
use super::open::{host, store, the_store};
use super::store::{Member, StoreError};
use crate::args::{PullArgs, PushArgs};
use crate::file::Cluster;
use crate::key::key_is_good;
use crate::program::{self, check_node};
use etcd::Limits;
use launch::{Failure, output, shortest};
use runtime::Registry;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a command that only shows something waits for etcd.
const GLANCE: Limits = Limits {
    connect: Duration::from_millis(300),
    request: Duration::from_millis(1000),
    watch: Duration::from_secs(30),
    backoff: (Duration::from_millis(100), Duration::from_secs(5)),
};

/// `valiant cluster push`.
pub(crate) fn push(registry: &Arc<Registry>, args: &PushArgs) -> Result<ExitCode, Failure> {
    let (cluster, program) = program::load(registry, &args.of.file)?;
    let store = the_store(&cluster, &args.of.file)?;
    key_is_good(&cluster)?;
    for node in cluster.present() {
        check_node(registry, &cluster, &program, node)?;
    }
    let (file, program) = (read(&args.of.file)?, read(&cluster.program)?);
    let base = (!args.force).then(|| Base::read(&args.of.file).map_or(0, |base| base.revision));
    let seen = seen_here(&store, &args.of.file, &cluster);
    let (document, revision) = match store.push(&file, &program, &host(), base, &seen) {
        Ok(done) => done,
        Err(e @ StoreError::Conflict { .. }) => {
            return Err(format!(
                "{e}\nhelp: keep a copy of your file, read the other one with `valiant cluster pull --force {0}`, repeat your change and push; or overwrite the other one with `push --force`",
                args.of.file.display()
            )
            .into());
        }
        Err(e) => return Err(e.into()),
    };
    Base { revision, document }.write(&args.of.file)?;
    output::print(&if args.of.json {
        format!("{}\n", json!({"ok": true, "name": cluster.name, "revision": revision}))
    } else {
        format!("{}: in etcd as revision {revision}; running nodes apply it\n", cluster.name)
    });
    Ok(ExitCode::SUCCESS)
}

/// `valiant cluster pull`.
pub(crate) fn pull(args: &PullArgs) -> Result<ExitCode, Failure> {
    let cluster = Cluster::load(&args.of.file)?;
    let store = the_store(&cluster, &args.of.file)?;
    let Some((document, revision)) = store.config()? else {
        return Err(format!(
            "etcd has no configuration of {} yet\nhelp: write this one with `valiant cluster push {}`",
            cluster.name,
            args.of.file.display()
        )
        .into());
    };
    if seen_here(&store, &args.of.file, &cluster).is_after(&store.mark(&document)) {
        return Err(format!(
            "{}\nhelp: replace it by this file with `valiant cluster push --force {}`",
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
                "{} has changes that were never pushed\nhelp: keep a copy; --force overwrites them",
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
    output::print(&if args.of.json {
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

/// The state of a cluster in etcd: the revision of its configuration (0: there is none), and the processes
/// that report to run. `None` if the cluster has no etcd.
pub(crate) fn members(cluster: &Cluster) -> Option<Result<(i64, Vec<Member>), String>> {
    let look = || {
        let Some(store) = store(cluster, GLANCE)? else { return Ok(None) };
        let revision = store.revision()?;
        Ok(Some((revision, store.members()?)))
    };
    look().map_err(|e: Failure| e.text()).transpose()
}
