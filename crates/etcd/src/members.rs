//! Requests to the members of etcd: if one does not answer, the next one is tried.

use crate::failure::{Cause, cause, refusal};
use crate::probe::{self, Found};
use crate::trust::{Stamp, Tls, Trust};
use crate::{Change, Entry, Error, LeaseId, Limits, Swap};
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, EventType, GetOptions, KeyValue, KvClient, PutOptions,
    ResponseHeader, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchStream,
};
use locks::IgnorePoison;
use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Code;

/// The longest answer that is read, in bytes: far more than etcd stores for one cluster, and far less than
/// the memory of a router.
const LONGEST: usize = 256 << 20;

/// The members of one etcd, each with a connection after its first request.
pub(crate) struct Members {
    access: Mutex<Access>,
    endpoints: Vec<String>,
    /// The endpoint that answered last.
    current: AtomicUsize,
    limits: Limits,
    trust: Trust,
}

/// Connections, and the certificates that they use.
struct Access {
    tls: Option<Tls>,
    /// Time, length and inode of the certificates' files when they were read.
    stamp: Stamp,
    /// One for each endpoint.
    connections: Vec<Option<Client>>,
}

impl Access {
    fn new(tls: Option<Tls>, stamp: Stamp, endpoints: usize) -> Self {
        Self { tls, stamp, connections: vec![None; endpoints] }
    }
}

impl Members {
    /// Reads the files of certificates and passwords; opens no connection yet.
    pub(crate) fn new(endpoints: Vec<String>, limits: Limits, trust: Trust) -> Result<Self, Error> {
        let stamp = trust.stamp();
        let tls = trust.load()?;
        trust.login()?;
        let access = Mutex::new(Access::new(tls, stamp, endpoints.len()));
        Ok(Self { access, endpoints, current: AtomicUsize::new(0), limits, trust })
    }
    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }
    pub(crate) fn names(&self) -> String {
        self.endpoints.join(", ")
    }
    /// Makes later requests begin with another member.
    pub(crate) fn turn(&self) {
        let next = (self.current.load(Ordering::Relaxed) + 1) % self.endpoints.len();
        self.current.store(next, Ordering::Relaxed);
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<(Vec<Entry>, i64), Error> {
        let all = || Some(GetOptions::new().with_prefix());
        let answer = self.call(|c| async move { kv(&c).get(prefix, all()).await }).await?;
        Ok((answer.kvs().iter().map(entry).collect(), revision(answer.header())))
    }
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let answer = self.call(|c| async move { kv(&c).get(key, None).await }).await?;
        Ok(answer.kvs().first().map(entry))
    }
    pub(crate) async fn put(&self, key: &str, value: &[u8], lease: Option<LeaseId>) -> Result<i64, Error> {
        let options = || Some(PutOptions::new().with_lease(lease?.0));
        let answer = self.call(|c| async move { kv(&c).put(key, value, options()).await }).await?;
        Ok(revision(answer.header()))
    }
    pub(crate) async fn swap(&self, key: &str, value: &[u8], expected: i64) -> Result<Swap, Error> {
        let txn = || {
            Txn::new()
                .when([Compare::mod_revision(key, CompareOp::Equal, expected)])
                .and_then([TxnOp::put(key, value, None)])
                .or_else([TxnOp::get(key, None)])
        };
        let answer = self.call(|c| async move { kv(&c).txn(txn()).await }).await?;
        if answer.succeeded() {
            return Ok(Swap::Done(revision(answer.header())));
        }
        let found = match answer.op_responses().first() {
            Some(TxnOpResponse::Get(found)) => found.kvs().first().map(entry),
            _ => None,
        };
        Ok(match found {
            Some(entry) if entry.value == value => Swap::Done(entry.revision),
            other => Swap::Conflict(other),
        })
    }
    pub(crate) async fn delete(&self, key: &str) -> Result<bool, Error> {
        Ok(self.call(|c| async move { kv(&c).delete(key, None).await }).await?.deleted() > 0)
    }
    pub(crate) async fn grant(&self, ttl_s: u32) -> Result<LeaseId, Error> {
        let answer = self.call(|mut c| async move { c.lease_grant(ttl_s.into(), None).await }).await?;
        Ok(LeaseId(answer.id()))
    }
    pub(crate) async fn keep_alive(&self, lease: LeaseId) -> Result<(), Error> {
        self.call(|mut c| async move { c.lease_keep_alive(lease.0).await }).await.map(drop)
    }
    pub(crate) async fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.call(|mut c| async move { c.lease_revoke(lease.0).await }).await.map(drop)
    }
    pub(crate) async fn compact(&self, revision: i64) -> Result<(), Error> {
        self.call(|c| async move { kv(&c).compact(revision, None).await }).await.map(drop)
    }
    pub(crate) async fn watch(self: &Arc<Self>, prefix: &str, from: i64) -> Result<Watch, Error> {
        let index = self.current.load(Ordering::Relaxed);
        let options = || Some(WatchOptions::new().with_prefix().with_start_revision(from));
        let begin = |c: Client| async move {
            let mut client = c.watch_client().max_decoding_message_size(LONGEST);
            let mut stream = client.watch(prefix, options()).await?;
            match stream.message().await? {
                Some(first) if first.canceled() && first.compact_revision() == 0 => {
                    Err(etcd_client::Error::WatchError(first.cancel_reason().to_owned()))
                }
                Some(first) => Ok((stream, revision(first.header()))),
                None => Err(etcd_client::Error::WatchError("the watch ended before it began".to_owned())),
            }
        };
        let (stream, now) = self.ask(index, &begin).await?;
        // etcd accepts a watch from a future revision, and would report no change before that revision.
        if now < from - 1 {
            return Err(Error::Rewound { seen: from - 1, now });
        }
        let until = Instant::now() + self.limits.watch;
        Ok(Watch { stream, members: Arc::clone(self), index, until })
    }

    /// A request to the first endpoint that answers, beginning with the one that answered last.
    async fn call<T, F>(&self, work: impl Fn(Client) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let first = self.current.load(Ordering::Relaxed);
        let mut failed: Option<Error> = None;
        for step in 0..self.endpoints.len() {
            let index = (first + step) % self.endpoints.len();
            match self.ask(index, &work).await {
                Err(e) if e.elsewhere() => failed = failed.or(Some(e)),
                other => {
                    self.current.store(index, Ordering::Relaxed);
                    return other;
                }
            }
        }
        Err(match failed {
            // The first failure explains most; it is reported for all endpoints.
            Some(Error::Unreachable { why, .. }) => Error::Unreachable { endpoint: self.names(), why },
            Some(Error::Slow { limit_ms, .. }) => Error::Slow { endpoint: self.names(), limit_ms },
            Some(other) => other,
            None => Error::Unreachable { endpoint: self.names(), why: "no endpoint".into() },
        })
    }
    /// A request to one endpoint. It is repeated once on a new connection if the user has to log in again.
    async fn ask<T, F>(&self, index: usize, work: &impl Fn(Client) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        loop {
            let (connection, new) = self.connection(index).await?;
            let answer = self.within(index, work(connection)).await;
            let Err(e) = &answer else { return answer };
            let stale = self.trust.user.is_some() && !new && e.stale();
            if stale || e.elsewhere() {
                self.access().connections[index] = None;
            }
            if !stale {
                return answer;
            }
        }
    }
    /// Waits for a request, up to a time limit.
    async fn within<T>(
        &self,
        index: usize,
        work: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, Error> {
        match timeout(self.limits.request, work).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(e)) => Err(self.failure(index, e).await),
            Err(_) => Err(self.slow(index, self.limits.request)),
        }
    }
    /// The connection to an endpoint, with the certificates that are in the files now and as the user that is
    /// set; whether it is a new one.
    async fn connection(&self, index: usize) -> Result<(Client, bool), Error> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.limits.connect)
            // A member that has lost contact with the others then answers with an error instead of not at
            // all.
            .with_require_leader(true);
        let used = {
            let mut access = self.access();
            let stamp = self.trust.stamp();
            // If only one of two files has been replaced yet, the former certificates are used until the next
            // request.
            if stamp != access.stamp
                && let Ok(tls) = self.trust.load()
            {
                *access = Access::new(tls, stamp, self.endpoints.len());
            }
            if let Some(known) = &access.connections[index] {
                return Ok((known.clone(), false));
            }
            if let Some(tls) = access.tls.as_ref().filter(|_| self.endpoints[index].starts_with("https://")) {
                options = options.with_tls(tls.options.clone());
            }
            access.stamp.clone()
        };
        // Connects with the first request.
        let connect = Client::connect([&self.endpoints[index]], Some(options));
        let mut connection = self.within(index, connect).await?;
        self.log_in(index, &mut connection).await?;
        self.keep(index, &connection, &used);
        Ok((connection, true))
    }
    /// Keeps a connection for the next requests, unless the certificates have been renewed since those that
    /// it uses were read: the next request then opens one with the new certificates.
    fn keep(&self, index: usize, connection: &Client, used: &Stamp) {
        let mut access = self.access();
        if access.stamp == *used {
            access.connections[index] = Some(connection.clone());
        }
    }
    /// Exchanges the password, if there is one, for a token.
    async fn log_in(&self, index: usize, connection: &mut Client) -> Result<(), Error> {
        let Some((user, password)) = self.trust.login()? else { return Ok(()) };
        let user = user.to_owned();
        match self.within(index, connection.update_user(Some((user.clone(), password)))).await {
            // This etcd does not require users to log in.
            Err(Error::Refused { code, .. }) if code == Code::FailedPrecondition as i32 => Ok(()),
            Err(Error::Refused { message, .. }) => {
                let file = self.trust.password_file.as_deref().unwrap_or(std::path::Path::new("?"));
                let why = format!("user {user}, with the password in {}: {message}", file.display());
                Err(Error::Unwelcome { endpoint: self.endpoints[index].clone(), why })
            }
            other => other,
        }
    }
    fn access(&self) -> MutexGuard<'_, Access> {
        self.access.lock().ignore_poison()
    }
    fn slow(&self, index: usize, limit: std::time::Duration) -> Error {
        Error::Slow { endpoint: self.endpoints[index].clone(), limit_ms: limit.as_millis() as u64 }
    }

    /// The error for one of the library.
    async fn failure(&self, index: usize, error: etcd_client::Error) -> Error {
        let endpoint = self.endpoints[index].clone();
        let cause = match &error {
            etcd_client::Error::GRpcStatus(status) if status.source().is_none() => {
                return refusal(endpoint, status.code(), status.message());
            }
            etcd_client::Error::GRpcStatus(status) => cause(status),
            etcd_client::Error::TransportError(e) => cause(e),
            etcd_client::Error::LeaseKeepAliveError(_) => return Error::LeaseGone,
            etcd_client::Error::WatchError(message) => {
                return Error::Refused { endpoint, message: message.clone(), code: 0 };
            }
            other => return Error::Foreign { endpoint, why: other.to_string() },
        };
        let unexplained = match cause {
            Cause::Tls(e) => return self.distrust(&endpoint, &e),
            Cause::Slow => return self.slow(index, self.limits.connect),
            Cause::Away(why) => return Error::Unreachable { endpoint, why },
            Cause::Broken(why) => {
                Error::Unreachable { why: why + hint(&endpoint), endpoint: endpoint.clone() }
            }
            Cause::Foreign(why) => Error::Foreign { why: why + hint(&endpoint), endpoint: endpoint.clone() },
        };
        self.look(endpoint).await.unwrap_or(unexplained)
    }
    /// Finds out why a connection broke, or which kind of server does not speak HTTP/2.
    async fn look(&self, endpoint: String) -> Option<Error> {
        let limit = self.limits.connect;
        if endpoint.starts_with("http://") {
            let why = format!("it says '{}'{}", probe::words(&endpoint, limit).await?, hint(&endpoint));
            return Some(Error::Foreign { endpoint, why });
        }
        // The lock is not held during the probe.
        let tls = self.access().tls.clone()?;
        Some(match probe::tls(tls.config, &endpoint, limit).await? {
            Found::Error(e) => self.distrust(&endpoint, &e),
            Found::HangsUp => Error::hangs_up(endpoint),
        })
    }
    /// The error for a failure of TLS. If this client's own files are the cause, it names them.
    fn distrust(&self, endpoint: &str, error: &tokio_rustls::rustls::Error) -> Error {
        match (self.trust.failure(endpoint, error), self.trust.load()) {
            (Error::Unwelcome { .. }, Err(file)) => file,
            (failure, _) => failure,
        }
    }
}

/// A watch that was started.
pub(crate) struct Watch {
    stream: WatchStream,
    members: Arc<Members>,
    index: usize,
    until: Instant,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("endpoint", &self.endpoint()).finish_non_exhaustive()
    }
}

impl Watch {
    fn endpoint(&self) -> String {
        self.members.endpoints[self.index].clone()
    }
    pub(crate) async fn next_changes(&mut self) -> Result<Option<(Vec<Change>, i64)>, Error> {
        loop {
            let answer = match timeout_at(self.until, self.stream.message()).await {
                Err(_) => return Ok(None),
                Ok(Err(e)) => return Err(self.members.failure(self.index, e).await),
                Ok(Ok(None)) => {
                    let why = "it ended the watch".to_owned();
                    return Err(Error::Unreachable { endpoint: self.endpoint(), why });
                }
                Ok(Ok(Some(answer))) => answer,
            };
            if answer.compact_revision() > 0 {
                return Err(Error::Compacted { revision: answer.compact_revision() });
            }
            if answer.canceled() {
                let message = answer.cancel_reason().to_owned();
                return Err(Error::Refused { endpoint: self.endpoint(), message, code: 0 });
            }
            let changes: Vec<(Change, i64)> = answer.events().iter().filter_map(change).collect();
            if let Some((_, revision)) = changes.last() {
                let revision = *revision;
                return Ok(Some((changes.into_iter().map(|(change, _)| change).collect(), revision)));
            }
        }
    }
}

/// A hint for an endpoint without TLS whose server sends something that is not HTTP/2.
fn hint(endpoint: &str) -> &'static str {
    if endpoint.starts_with("http://") { "; an etcd that speaks TLS is an https:// endpoint" } else { "" }
}

/// The part of a connection that reads and writes keys.
fn kv(connection: &Client) -> KvClient {
    connection.kv_client().max_decoding_message_size(LONGEST)
}

fn revision(header: Option<&ResponseHeader>) -> i64 {
    header.map_or(0, ResponseHeader::revision)
}

fn entry(kv: &KeyValue) -> Entry {
    Entry {
        key: String::from_utf8_lossy(kv.key()).into_owned(),
        value: kv.value().to_vec(),
        revision: kv.mod_revision(),
        lease: (kv.lease() != 0).then_some(LeaseId(kv.lease())),
    }
}

/// A change, and its revision.
fn change(event: &etcd_client::Event) -> Option<(Change, i64)> {
    let entry = entry(event.kv()?);
    let revision = entry.revision;
    Some(match event.event_type() {
        EventType::Put => (Change::Put(entry), revision),
        EventType::Delete => (Change::Delete(entry.key), revision),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_with_former_certificates_is_not_kept() {
        let endpoints = vec!["http://127.0.0.1:1".to_owned()];
        let members = Members::new(endpoints.clone(), Limits::default(), Trust::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            // Nothing is sent before the first request.
            let connection = Client::connect(&endpoints, None).await.unwrap();
            let former = members.access().stamp.clone();
            // The files are replaced and read while the connection is being made.
            let renewed = vec![Some((std::time::SystemTime::UNIX_EPOCH, 1, 1)); 3];
            *members.access() = Access::new(None, renewed.clone(), 1);
            members.keep(0, &connection, &former);
            assert!(members.access().connections[0].is_none());
            members.keep(0, &connection, &renewed);
            assert!(members.access().connections[0].is_some());
        });
    }
}
