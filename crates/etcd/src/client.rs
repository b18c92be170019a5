//! The client: requests that block the calling thread, for at most as long as their limits say.

use crate::members::{Members, Watch};
use crate::{Change, Entry, Error, LeaseId, Limits, Swap, Trust};
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// A client for the members of one etcd. Cheap to share by reference between threads.
///
/// Its connections are served by one thread, which starts with the first request and runs on the processors
/// that the thread that makes this request may use. Not to be called from an asynchronous task.
pub struct Client {
    members: Arc<Members>,
    runtime: OnceLock<Runtime>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("endpoints", &self.names()).finish_non_exhaustive()
    }
}

impl Drop for Client {
    /// Ends the thread without waiting for operations in progress, such as the resolution of a host name.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// A client for `http://HOST:PORT` endpoints, which are tried in turn. Opens no connection yet.
    ///
    /// # Errors
    /// There is no endpoint, or one is not valid.
    pub fn new<S: AsRef<str>>(endpoints: &[S], limits: Limits) -> Result<Self, Error> {
        Self::trusting(endpoints, limits, Trust::default())
    }
    /// The same for endpoints that may be `https://HOST:PORT`, and an etcd that may require authentication.
    /// Reads the certificates. When their files change, they are read again; passwords are read each time
    /// that one is needed.
    ///
    /// # Errors
    /// There is no endpoint, or one is not valid; settings that do not fit each other, files that cannot be
    /// used.
    pub fn trusting<S: AsRef<str>>(endpoints: &[S], limits: Limits, trust: Trust) -> Result<Self, Error> {
        let members = Arc::new(Members::new(checked(endpoints, &trust)?, limits, trust)?);
        Ok(Self { members, runtime: OnceLock::new() })
    }
    /// Makes the checks of [`Self::trusting`] that need no file.
    ///
    /// # Errors
    /// There is no endpoint, or one is not valid; settings that do not fit each other.
    pub fn check<S: AsRef<str>>(endpoints: &[S], trust: &Trust) -> Result<(), Error> {
        checked(endpoints, trust).map(drop)
    }
    /// The limits that it keeps.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.members.limits()
    }
    /// All endpoints, for messages.
    #[must_use]
    pub fn names(&self) -> String {
        self.members.names()
    }

    /// Everything below a prefix, in the order of keys, and the revision of the store.
    ///
    /// # Errors
    /// etcd does not answer, or its answer is not valid.
    pub fn list(&self, prefix: &str) -> Result<(Vec<Entry>, i64), Error> {
        self.wait(self.members.list(prefix))
    }
    /// The value of a key.
    ///
    /// # Errors
    /// etcd does not answer, or its answer is not valid.
    pub fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.wait(self.members.get(key))
    }
    /// Writes a key, whatever its value was. Returns the revision. After [`Error::Slow`] it may have been
    /// written or not.
    ///
    /// # Errors
    /// etcd does not answer, is full, or the lease is gone.
    pub fn put(&self, key: &str, value: &[u8], lease: Option<LeaseId>) -> Result<i64, Error> {
        self.wait(self.members.put(key, value, lease))
    }
    /// Writes a key if it was last written at a revision; 0: if it is not there. A key that already has the
    /// value counts as written, so that a request whose answer was lost can be repeated.
    ///
    /// # Errors
    /// etcd does not answer, or is full.
    pub fn swap(&self, key: &str, value: &[u8], expected: i64) -> Result<Swap, Error> {
        self.wait(self.members.swap(key, value, expected))
    }
    /// Removes a key. Returns whether it was there.
    ///
    /// # Errors
    /// etcd does not answer.
    pub fn delete(&self, key: &str) -> Result<bool, Error> {
        self.wait(self.members.delete(key))
    }
    /// A new lease that ends when it has not been kept alive for a number of seconds.
    ///
    /// # Errors
    /// etcd does not answer, or is full.
    pub fn grant(&self, ttl_s: u32) -> Result<LeaseId, Error> {
        self.wait(self.members.grant(ttl_s))
    }
    /// Keeps a lease alive for another of its terms.
    ///
    /// # Errors
    /// etcd does not answer, or the lease is gone.
    pub fn keep_alive(&self, lease: LeaseId) -> Result<(), Error> {
        self.wait(self.members.keep_alive(lease))
    }
    /// Ends a lease, and removes the keys that are attached to it.
    ///
    /// # Errors
    /// etcd does not answer, or the lease is gone.
    pub fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.wait(self.members.revoke(lease))
    }
    /// Makes etcd discard the changes before a revision (compaction).
    ///
    /// # Errors
    /// etcd does not answer, or has not reached that revision yet.
    pub fn compact(&self, revision: i64) -> Result<(), Error> {
        self.wait(self.members.compact(revision))
    }
    /// Begins to watch the changes below a prefix, from a revision on.
    ///
    /// # Errors
    /// etcd does not answer, has discarded that revision, or has never reached it.
    pub fn watch(&self, prefix: &str, from: i64) -> Result<Watching<'_>, Error> {
        Ok(Watching { watch: self.wait(self.members.watch(prefix, from))?, client: self })
    }

    /// The requests for a task of this client.
    pub(crate) fn members(&self) -> Arc<Members> {
        Arc::clone(&self.members)
    }
    /// Runs a task on the client's thread.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.runtime().spawn(task)
    }
    /// Waits for the result of something that the client's thread does.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime().block_on(work)
    }
    fn runtime(&self) -> &Runtime {
        self.runtime.get_or_init(|| {
            let builder =
                Builder::new_multi_thread().worker_threads(1).thread_name("etcd").enable_all().build();
            builder.unwrap_or_else(|e| panic!("no thread for etcd: {e}"))
        })
    }
}

/// A watch that was started.
#[derive(Debug)]
pub struct Watching<'a> {
    client: &'a Client,
    watch: Watch,
}

impl Watching<'_> {
    /// Waits for changes. Returns them with the revision of the last one; `None` when it is time to set up
    /// the watch again.
    ///
    /// # Errors
    /// The connection broke, or etcd ended the watch.
    pub fn next_changes(&mut self) -> Result<Option<(Vec<Change>, i64)>, Error> {
        self.client.wait(self.watch.next_changes())
    }
}

/// Checks endpoints, certificates and passwords.
fn checked<S: AsRef<str>>(endpoints: &[S], trust: &Trust) -> Result<Vec<String>, Error> {
    let endpoints = endpoints.iter().map(|e| endpoint(e.as_ref())).collect::<Result<Vec<_>, _>>()?;
    if endpoints.is_empty() {
        let why = "there must be at least one, as in \"http://127.0.0.1:2379\"";
        return Err(Error::Endpoint { text: String::new(), why });
    }
    trust.check(&endpoints)?;
    Ok(endpoints)
}

/// Checks an endpoint, and removes a slash from its end.
fn endpoint(text: &str) -> Result<String, Error> {
    let bad = |why| Err(Error::Endpoint { text: text.to_owned(), why });
    let scheme = ["http://", "https://"].into_iter().find(|scheme| text.starts_with(scheme));
    let Some((scheme, rest)) = scheme.and_then(|scheme| Some((scheme, text.strip_prefix(scheme)?))) else {
        return bad("it is an address such as http://127.0.0.1:2379 or https://127.0.0.1:2379");
    };
    let rest = rest.trim_end_matches('/');
    let port = rest.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    if port.and_then(|p| p.parse::<u16>().ok()).is_none_or(|p| p == 0) {
        return bad("it needs a host and a port, as in http://127.0.0.1:2379");
    }
    if !rest.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c)) {
        return bad("after host and port there is nothing more, as in http://127.0.0.1:2379");
    }
    Ok(format!("{scheme}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        assert_eq!(endpoint("http://127.0.0.1:2379/").unwrap(), "http://127.0.0.1:2379");
        assert_eq!(endpoint("http://[::1]:2379").unwrap(), "http://[::1]:2379");
        for bad in [
            "",
            "127.0.0.1:2379",
            "http://",
            "http://etcd",
            "http://etcd:0",
            "http://:2379",
            "http://a:1/v3:2",
        ] {
            assert!(matches!(endpoint(bad), Err(Error::Endpoint { .. })), "{bad}");
        }
        assert_eq!(endpoint("https://etcd:2379").unwrap(), "https://etcd:2379");
        assert!(Client::new(&["https://etcd:2379"], Limits::default()).is_err());
        assert!(Client::new::<&str>(&[], Limits::default()).is_err());
    }
}
