//! Requests to etcd's JSON gateway.

use crate::Error;
use crate::error::reason;
use crate::trust::{Found, HANGS_UP, Stamp, Tls, Trust, probe};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use locks::IgnorePoison;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The longest answer that is read, in bytes: far above what etcd keeps for one cluster, far below what
/// hurts.
const LONGEST: u64 = 256 << 20;
/// gRPC status codes, as etcd uses them.
mod code {
    pub(super) const NOT_FOUND: i64 = 5;
    pub(super) const EXHAUSTED: i64 = 8;
    pub(super) const OUT_OF_RANGE: i64 = 11;
    pub(super) const FAILED_PRECONDITION: i64 = 9;
    pub(super) const UNAVAILABLE: i64 = 14;
}

/// What etcd may take before another attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// For a request, connecting included; with several endpoints, for each of them. Where a user logs in for
    /// it, or a TLS connection broke and it is looked why, that much and a connection more.
    pub request: Duration,
    /// After so long a watch is set up anew, so that a connection that died silently is noticed.
    pub watch: Duration,
    /// The first and the longest waiting time between attempts.
    pub backoff: (Duration, Duration),
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            request: Duration::from_secs(3),
            watch: Duration::from_secs(30),
            backoff: (Duration::from_millis(100), Duration::from_secs(5)),
        }
    }
}

/// A key and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, with the prefix. Bytes that are no UTF-8 are replaced: such keys are not ours.
    pub key: String,
    /// What it holds.
    pub value: Vec<u8>,
    /// The revision at which it was written.
    pub revision: i64,
    /// The lease that it goes with.
    pub lease: Option<LeaseId>,
}

/// One change below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key has a new value.
    Put(Entry),
    /// A key is gone.
    Delete(String),
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// What became of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The key has the new value, written at this revision.
    Done(i64),
    /// It was not at the expected revision; this is what it holds instead.
    Conflict(Option<Entry>),
}

/// A client for the members of one etcd. Cheap to share by reference between threads.
#[derive(Debug)]
pub struct Client {
    access: Mutex<Access>,
    endpoints: Vec<String>,
    /// The endpoint that answered last.
    current: AtomicUsize,
    limits: Limits,
    trust: Trust,
}

/// By what it gets in.
#[derive(Debug)]
struct Access {
    agent: ureq::Agent,
    tls: Option<Tls>,
    /// What the certificates' files looked like when they were read.
    stamp: Stamp,
    /// What etcd gave the user for his password; empty if it asks for none.
    token: Option<String>,
}

impl Client {
    /// A client for `http://HOST:PORT` endpoints, which are tried in turn. Opens no connection yet.
    ///
    /// # Errors
    /// No endpoint, or one that is none.
    pub fn new<S: AsRef<str>>(endpoints: &[S], limits: Limits) -> Result<Self, Error> {
        Self::trusting(endpoints, limits, Trust::default())
    }
    /// The same for endpoints that may be `https://HOST:PORT`, and an etcd that may ask who this is. Reads
    /// the certificates; when their files change they are read again, and passwords each time that one is
    /// needed.
    ///
    /// # Errors
    /// No endpoint, or one that is none; settings that do not fit each other, files that cannot be used.
    pub fn trusting<S: AsRef<str>>(endpoints: &[S], limits: Limits, trust: Trust) -> Result<Self, Error> {
        let endpoints = checked(endpoints, &trust)?;
        let stamp = trust.stamp();
        let tls = trust.load()?;
        trust.login()?;
        let access = Access { agent: agent(&limits, tls.as_ref()), tls, stamp, token: None };
        Ok(Self { access: Mutex::new(access), endpoints, current: AtomicUsize::new(0), limits, trust })
    }
    /// What [`Self::trusting`] would say before it looks at any file.
    ///
    /// # Errors
    /// No endpoint, or one that is none; settings that do not fit each other.
    pub fn check<S: AsRef<str>>(endpoints: &[S], trust: &Trust) -> Result<(), Error> {
        checked(endpoints, trust).map(drop)
    }
    /// The limits that it keeps.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }
    /// All endpoints, for messages.
    #[must_use]
    pub fn names(&self) -> String {
        self.endpoints.join(", ")
    }
    /// From here on another member is asked first.
    pub(crate) fn turn(&self) {
        let next = (self.current.load(Ordering::Relaxed) + 1) % self.endpoints.len();
        self.current.store(next, Ordering::Relaxed);
    }

    /// Everything below a prefix, in the order of keys, and the revision of the store.
    ///
    /// # Errors
    /// etcd does not answer, or not with that.
    pub fn list(&self, prefix: &str) -> Result<(Vec<Entry>, i64), Error> {
        let answer =
            self.call("kv/range", &json!({"key": text(prefix), "range_end": bytes(&end(prefix))}))?;
        Ok((entries(&answer), revision(&answer)))
    }
    /// What a key holds.
    ///
    /// # Errors
    /// etcd does not answer, or not with that.
    pub fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        Ok(entries(&self.call("kv/range", &json!({"key": text(key)}))?).pop())
    }
    /// Writes a key, whatever it held. Returns the revision. After [`Error::Slow`] it may have been written
    /// or not.
    ///
    /// # Errors
    /// etcd does not answer, is full, or the lease is gone.
    pub fn put(&self, key: &str, value: &[u8], lease: Option<LeaseId>) -> Result<i64, Error> {
        let lease = lease.map_or(0, |l| l.0).to_string();
        let answer =
            self.call("kv/put", &json!({"key": text(key), "value": bytes(value), "lease": lease}))?;
        Ok(revision(&answer))
    }
    /// Writes a key if it was last written at a revision; 0: if it is not there. A key that holds the value
    /// already counts as written, so that a request that got lost on its way back can be repeated.
    ///
    /// # Errors
    /// etcd does not answer, or is full.
    pub fn swap(&self, key: &str, value: &[u8], expected: i64) -> Result<Swap, Error> {
        let key = text(key);
        let answer = self.call(
            "kv/txn",
            &json!({
                "compare": [{"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": expected.to_string()}],
                "success": [{"request_put": {"key": key, "value": bytes(value)}}],
                "failure": [{"request_range": {"key": key}}],
            }),
        )?;
        if answer["succeeded"] == json!(true) {
            return Ok(Swap::Done(revision(&answer)));
        }
        let found = entries(&answer["responses"][0]["response_range"]).pop();
        Ok(match found {
            Some(entry) if entry.value == value => Swap::Done(entry.revision),
            other => Swap::Conflict(other),
        })
    }
    /// Removes a key. Returns whether it was there.
    ///
    /// # Errors
    /// etcd does not answer.
    pub fn delete(&self, key: &str) -> Result<bool, Error> {
        Ok(integer(&self.call("kv/deleterange", &json!({"key": text(key)}))?["deleted"]) > 0)
    }
    /// A new lease that ends when it has not been kept alive for a number of seconds.
    ///
    /// # Errors
    /// etcd does not answer, or is full.
    pub fn grant(&self, ttl_s: u32) -> Result<LeaseId, Error> {
        let answer = self.call("lease/grant", &json!({"TTL": ttl_s.to_string(), "ID": "0"}))?;
        Ok(LeaseId(integer(&answer["ID"])))
    }
    /// Keeps a lease alive for another of its terms.
    ///
    /// # Errors
    /// etcd does not answer, or the lease is gone.
    pub fn keep_alive(&self, lease: LeaseId) -> Result<(), Error> {
        let answer = self.call("lease/keepalive", &json!({"ID": lease.0.to_string()}))?;
        if integer(&answer["TTL"]) > 0 { Ok(()) } else { Err(Error::LeaseGone) }
    }
    /// Ends a lease, and removes the keys that go with it.
    ///
    /// # Errors
    /// etcd does not answer, or the lease is gone.
    pub fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.call("lease/revoke", &json!({"ID": lease.0.to_string()})).map(drop)
    }
    /// Forgets what changed before a revision.
    ///
    /// # Errors
    /// etcd does not answer, or is not there yet.
    pub fn compact(&self, revision: i64) -> Result<(), Error> {
        self.call("kv/compaction", &json!({"revision": revision.to_string(), "physical": true})).map(drop)
    }

    /// Begins to watch what changes below a prefix from a revision on.
    ///
    /// # Errors
    /// etcd does not answer, or has forgotten that revision, or never was so far.
    pub fn watch(&self, prefix: &str, from: i64) -> Result<Watch, Error> {
        let endpoint = self.endpoints[self.current.load(Ordering::Relaxed) % self.endpoints.len()].clone();
        let body = json!({"create_request":
            {"key": text(prefix), "range_end": bytes(&end(prefix)), "start_revision": from.to_string()}});
        let body = body.to_string();
        self.as_user(&endpoint, |token| self.watch_as(&endpoint, &body, from, token))
    }
    fn watch_as(&self, endpoint: &str, body: &str, from: i64, token: Option<&str>) -> Result<Watch, Error> {
        let request = self
            .post(endpoint, "watch", token)
            // A member that has lost the others says so, instead of staying silent.
            .header("grpc-metadata-hasleader", "true")
            .config()
            .timeout_send_request(Some(self.limits.request))
            .timeout_recv_response(Some(self.limits.request))
            .timeout_recv_body(Some(self.limits.watch))
            .build();
        let response = request.send(body).map_err(|e| self.broken(endpoint, &e))?;
        if !response.status().is_success() {
            let mut text = Vec::new();
            // A body that breaks off says less, nothing worse.
            let _ = response.into_body().into_reader().take(LONGEST).read_to_end(&mut text);
            return Err(self.refusal(endpoint, &text));
        }
        let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut watch = Watch { lines: BufReader::new(Box::new(reader)), endpoint: endpoint.to_owned() };
        let created = watch.line()?.ok_or_else(|| watch.foreign("the watch ended before it began"))?;
        let now = revision(&created);
        // A watch from the future is allowed, and would sleep through everything until then.
        if now < from - 1 {
            return Err(Error::Rewound { seen: from - 1, now });
        }
        Ok(watch)
    }

    /// A request to whichever endpoint answers first, beginning with the one that did last.
    fn call(&self, what: &str, body: &Value) -> Result<Value, Error> {
        let first = self.current.load(Ordering::Relaxed);
        let body = body.to_string();
        let mut failed: Option<Error> = None;
        for step in 0..self.endpoints.len() {
            let index = (first + step) % self.endpoints.len();
            match self.ask(&self.endpoints[index], what, &body) {
                Err(e) if e.elsewhere() => failed = failed.or(Some(e)),
                other => {
                    self.current.store(index, Ordering::Relaxed);
                    return other;
                }
            }
        }
        Err(match failed {
            // The first failure tells most; it holds for all.
            Some(Error::Unreachable { why, .. }) => Error::Unreachable { endpoint: self.names(), why },
            Some(Error::Slow { limit_ms, .. }) => Error::Slow { endpoint: self.names(), limit_ms },
            Some(other) => other,
            None => Error::Unreachable { endpoint: self.names(), why: "no endpoint".into() },
        })
    }
    fn ask(&self, endpoint: &str, what: &str, body: &str) -> Result<Value, Error> {
        self.as_user(endpoint, |token| self.ask_as(endpoint, what, body, token))
    }
    /// Does something as the user that is to be, and once more with a new token if the old one does not count
    /// any more: etcd forgets them after some minutes, and when it restarts.
    fn as_user<T>(
        &self,
        endpoint: &str,
        work: impl Fn(Option<&str>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.trust.user.is_none() {
            return work(None);
        }
        let known = self.access().token.clone();
        if let Some(token) = &known {
            match work(Some(token)) {
                Err(e) if e.stale() => {}
                other => return other,
            }
        }
        work(Some(&self.log_in(endpoint)?))
    }
    /// Exchanges the password for a token.
    fn log_in(&self, endpoint: &str) -> Result<String, Error> {
        let Some((user, password)) = self.trust.login()? else { return Ok(String::new()) };
        let body = json!({"name": user, "password": password}).to_string();
        let token = match self.ask_as(endpoint, "auth/authenticate", &body, None) {
            Ok(answer) => answer["token"].as_str().unwrap_or_default().to_owned(),
            // It asks nobody who he is.
            Err(Error::Refused { code: code::FAILED_PRECONDITION, .. }) => String::new(),
            Err(Error::Refused { message, .. }) => {
                let file = self.trust.password_file.as_deref().unwrap_or(std::path::Path::new("?"));
                let why = format!("user {user}, with the password in {}: {message}", file.display());
                return Err(Error::Unwelcome { endpoint: endpoint.to_owned(), why });
            }
            Err(e) => return Err(e),
        };
        self.access().token = Some(token.clone());
        Ok(token)
    }
    fn access(&self) -> MutexGuard<'_, Access> {
        self.access.lock().ignore_poison()
    }
    /// The HTTP client, with the certificates that are in the files now.
    fn agent(&self) -> ureq::Agent {
        let stamp = self.trust.stamp();
        let mut access = self.access();
        // Where only one of two files has been replaced yet, what was there serves until the next time.
        if stamp != access.stamp
            && let Ok(tls) = self.trust.load()
        {
            (access.agent, access.tls, access.stamp) = (agent(&self.limits, tls.as_ref()), tls, stamp);
        }
        access.agent.clone()
    }
    fn post(
        &self,
        endpoint: &str,
        what: &str,
        token: Option<&str>,
    ) -> ureq::RequestBuilder<ureq::typestate::WithBody> {
        let request =
            self.agent().post(format!("{endpoint}/v3/{what}")).header("content-type", "application/json");
        match token {
            Some(token) if !token.is_empty() => request.header("authorization", token),
            _ => request,
        }
    }
    fn ask_as(&self, endpoint: &str, what: &str, body: &str, token: Option<&str>) -> Result<Value, Error> {
        let request =
            self.post(endpoint, what, token).config().timeout_global(Some(self.limits.request)).build();
        let mut response = request.send(body).map_err(|e| self.broken(endpoint, &e))?;
        let text = (response.body_mut().with_config().limit(LONGEST).read_to_vec())
            .map_err(|e| self.broken(endpoint, &e))?;
        if !response.status().is_success() {
            return Err(self.refusal(endpoint, &text));
        }
        let answer: Value = (serde_json::from_slice(&text))
            .map_err(|e| foreign(endpoint, format!("it answers {what} with no JSON ({e})")))?;
        // Answers of streams are wrapped.
        let answer = match answer.get("result") {
            Some(result) => result.clone(),
            None => answer,
        };
        if !answer["header"].is_object() {
            return Err(if answer.get("error").is_some() {
                self.refusal(endpoint, &text)
            } else {
                foreign(endpoint, format!("its answer to {what} has no header"))
            });
        }
        Ok(answer)
    }
    fn broken(&self, endpoint: &str, error: &ureq::Error) -> Error {
        if let Some(e) = tls_error(error) {
            return self.distrust(endpoint, e);
        }
        let secure = endpoint.starts_with("https://");
        // The lock is not held while it is looked.
        let tls = if secure { self.access().tls.clone() } else { None };
        if let (ureq::Error::Io(e), Some(tls)) = (error, tls)
            && is_break(e)
            && let Some(found) = probe(&tls.bare, endpoint, self.limits.connect)
        {
            return match found {
                Found::Error(e) => self.distrust(endpoint, &e),
                Found::HangsUp => {
                    Error::Untrusted { endpoint: endpoint.to_owned(), why: HANGS_UP.to_owned() }
                }
            };
        }
        let endpoint = endpoint.to_owned();
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                Error::Slow { endpoint, limit_ms: self.limits.connect.as_millis() as u64 }
            }
            e if is_timeout(e) => Error::Slow { endpoint, limit_ms: self.limits.request.as_millis() as u64 },
            ureq::Error::HostNotFound => Error::Unreachable { endpoint, why: "no such host".into() },
            ureq::Error::ConnectionFailed => Error::Unreachable { endpoint, why: "no connection".into() },
            ureq::Error::Io(e) if is_break(e) && !secure => {
                let why = format!("{}; an etcd that speaks TLS is an https:// endpoint", reason(e));
                Error::Unreachable { endpoint, why }
            }
            ureq::Error::Io(e) => Error::Unreachable { endpoint, why: reason(e) },
            ureq::Error::Protocol(e) => Error::Foreign { endpoint, why: e.to_string() },
            other => Error::Unreachable { endpoint, why: other.to_string() },
        }
    }
    /// What is wrong with TLS. If this client's own files are why, they are named.
    fn distrust(&self, endpoint: &str, error: &rustls::Error) -> Error {
        match (self.trust.failure(endpoint, error), self.trust.load()) {
            (Error::Unwelcome { .. }, Err(file)) => file,
            (failure, _) => failure,
        }
    }
    /// What an answer other than 200 means.
    fn refusal(&self, endpoint: &str, text: &[u8]) -> Error {
        match serde_json::from_slice::<Value>(text) {
            Ok(answer) if answer.get("code").is_some() || answer["error"].is_object() => {
                refusal(endpoint, &answer)
            }
            _ => {
                let text: String = String::from_utf8_lossy(text).chars().take(60).collect();
                foreign(endpoint, format!("it says '{}'", text.trim()))
            }
        }
    }
}

/// A watch that has begun.
pub struct Watch {
    lines: BufReader<Box<dyn Read + Send>>,
    endpoint: String,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Watch {
    /// Waits for changes. Returns them with the revision of the last one; `None` when it is time to set up
    /// the watch anew.
    ///
    /// # Errors
    /// The connection broke, or etcd ended the watch.
    pub fn next_changes(&mut self) -> Result<Option<(Vec<Change>, i64)>, Error> {
        loop {
            let Some(result) = self.line()? else { return Ok(None) };
            let changes: Vec<Change> =
                result["events"].as_array().into_iter().flatten().map(change).collect();
            if let Some(last) = result["events"].as_array().and_then(|e| e.last()) {
                return Ok(Some((changes, integer(&last["kv"]["mod_revision"]))));
            }
        }
    }
    /// The next message, `None` at the end of the time.
    fn line(&mut self) -> Result<Option<Value>, Error> {
        let mut line = Vec::new();
        match (&mut self.lines).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => {
                return Err(Error::Unreachable {
                    endpoint: self.endpoint.clone(),
                    why: "it ended the watch".into(),
                });
            }
            Ok(_) => {}
            Err(e) if is_timeout_io(&e) => return Ok(None),
            Err(e) => {
                return Err(Error::Unreachable { endpoint: self.endpoint.clone(), why: reason(&e) });
            }
        }
        let message: Value = serde_json::from_slice(&line)
            .map_err(|e| self.foreign(&format!("no JSON in its watch ({e})")))?;
        if message.get("error").is_some() {
            return Err(refusal(&self.endpoint, &message));
        }
        let Some(result) = message.get("result") else {
            return Err(self.foreign("its watch has no result"));
        };
        let compacted = integer(&result["compact_revision"]);
        if compacted > 0 {
            return Err(Error::Compacted { revision: compacted });
        }
        if result["canceled"] == json!(true) {
            let message = result["cancel_reason"].as_str().unwrap_or("the watch was cancelled").to_owned();
            return Err(Error::Refused { endpoint: self.endpoint.clone(), message, code: 0 });
        }
        Ok(Some(result.clone()))
    }
    fn foreign(&self, why: &str) -> Error {
        foreign(&self.endpoint, why.to_owned())
    }
}

fn foreign(endpoint: &str, why: String) -> Error {
    Error::Foreign { endpoint: endpoint.to_owned(), why }
}

/// What etcd's error means: of a request `{"error": TEXT, "code": N}`, of a stream
/// `{"error": {"message", "grpc_code"}}`.
fn refusal(endpoint: &str, answer: &Value) -> Error {
    let inner = if answer["error"].is_object() { &answer["error"] } else { answer };
    let code = integer(if inner.get("grpc_code").is_some() { &inner["grpc_code"] } else { &inner["code"] });
    let message = [&inner["message"], &inner["error"]].into_iter().find_map(Value::as_str);
    let message = message.unwrap_or("no reason given").to_owned();
    let endpoint = endpoint.to_owned();
    match code {
        code::EXHAUSTED if message.contains("space exceeded") => Error::Full { endpoint },
        code::OUT_OF_RANGE if message.contains("compacted") => Error::Compacted { revision: 0 },
        code::NOT_FOUND if message.contains("lease") => Error::LeaseGone,
        // The gateway is a client of its own etcd, with etcd's certificate. 3.4 says no more than that.
        code::UNAVAILABLE if message == "connection closed" || message.contains("handshake failed") => {
            let why = format!(
                "its JSON gateway gets no connection to it ({message}); with --client-cert-auth, etcd's own certificate has to be \
                 good for clients too (extendedKeyUsage serverAuth and clientAuth), and signed by a CA in its --trusted-ca-file"
            );
            Error::Unwelcome { endpoint, why }
        }
        code::UNAVAILABLE => Error::NoLeader { endpoint, message },
        _ if message.contains("user name is empty") => {
            Error::Unwelcome { endpoint, why: "it asks for a user: give user and password_file".into() }
        }
        code => Error::Refused { endpoint, message, code },
    }
}

/// An HTTP client that keeps the limits.
fn agent(limits: &Limits, tls: Option<&Tls>) -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(limits.connect));
    match tls {
        Some(tls) => config.tls_config(tls.http.clone()).build().into(),
        None => config.build().into(),
    }
}

/// Checks endpoints and what there is to get in by.
fn checked<S: AsRef<str>>(endpoints: &[S], trust: &Trust) -> Result<Vec<String>, Error> {
    let endpoints = endpoints.iter().map(|e| endpoint(e.as_ref())).collect::<Result<Vec<_>, _>>()?;
    if endpoints.is_empty() {
        let why = "there must be at least one, as in \"http://127.0.0.1:2379\"";
        return Err(Error::Endpoint { text: String::new(), why });
    }
    trust.check(&endpoints)?;
    Ok(endpoints)
}

/// Checks an endpoint, and takes a slash from its end.
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

/// The end of the range of keys with a prefix: the first key that is behind all of them (etcd's API,
/// `range_end`).
fn end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    // No key is behind all: "\0" is etcd's word for the end of the store.
    vec![0]
}

fn text(key: &str) -> String {
    bytes(key.as_bytes())
}

fn bytes(value: &[u8]) -> String {
    STANDARD.encode(value)
}

/// A 64-bit integer, which the gateway writes as a string, and leaves out if it is 0.
fn integer(value: &Value) -> i64 {
    value.as_str().and_then(|s| s.parse().ok()).or_else(|| value.as_i64()).unwrap_or(0)
}

fn revision(answer: &Value) -> i64 {
    integer(&answer["header"]["revision"])
}

fn decoded(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}

fn entry(kv: &Value) -> Entry {
    let lease = integer(&kv["lease"]);
    Entry {
        key: String::from_utf8_lossy(&decoded(&kv["key"])).into_owned(),
        value: decoded(&kv["value"]),
        revision: integer(&kv["mod_revision"]),
        lease: (lease != 0).then_some(LeaseId(lease)),
    }
}

fn entries(answer: &Value) -> Vec<Entry> {
    answer["kvs"].as_array().into_iter().flatten().map(entry).collect()
}

fn change(event: &Value) -> Change {
    let entry = entry(&event["kv"]);
    if event["type"] == json!("DELETE") { Change::Delete(entry.key) } else { Change::Put(entry) }
}

/// Whether a connection ended where it should not.
fn is_break(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// What TLS has against it.
fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(e) => Some(e),
        ureq::Error::Io(e) => e.get_ref()?.downcast_ref(),
        _ => None,
    }
}

fn is_timeout(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Timeout(_) => true,
        ureq::Error::Io(e) => is_timeout_io(e),
        _ => false,
    }
}

fn is_timeout_io(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
        || error.get_ref().and_then(|e| e.downcast_ref::<ureq::Error>()).is_some_and(is_timeout)
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

    #[test]
    fn ends_of_ranges() {
        assert_eq!(end("/a/"), b"/a0");
        assert_eq!(end(""), [0]);
        assert_eq!(end("\u{7f}"), [0x80]);
    }

    #[test]
    fn what_refusals_mean() {
        let said = |text: &str| refusal("http://e:1", &serde_json::from_str(text).unwrap());
        let full = r#"{"error":"etcdserver: mvcc: database space exceeded","message":"etcdserver: mvcc: database space exceeded","code":8}"#;
        assert!(matches!(said(full), Error::Full { .. }));
        assert!(matches!(
            said(r#"{"error":"etcdserver: too many requests","code":8}"#),
            Error::Refused { code: 8, .. }
        ));
        assert_eq!(said(r#"{"error":"etcdserver: requested lease not found","code":5}"#), Error::LeaseGone);
        let stream = r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable"}}"#;
        assert!(matches!(said(stream), Error::NoLeader { message, .. } if message.ends_with("no leader")));
    }

    /// Messages come one a line; anything that is none is an error, never a panic.
    #[test]
    fn watches_read_lines() {
        let watch = |text: &'static str| Watch {
            lines: BufReader::new(Box::new(text.as_bytes())),
            endpoint: "http://e:1".into(),
        };
        let text = r#"{"result":{"header":{"revision":"7"},"created":true}}
{"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"L2E=","value":"eA==","mod_revision":"8","lease":"3"}},{"type":"DELETE","kv":{"key":"L2I=","mod_revision":"9"}}]}}
"#;
        let mut w = watch(text);
        let put = Entry { key: "/a".into(), value: b"x".into(), revision: 8, lease: Some(LeaseId(3)) };
        assert_eq!(w.next_changes().unwrap(), Some((vec![Change::Put(put), Change::Delete("/b".into())], 9)));
        assert!(matches!(w.next_changes(), Err(Error::Unreachable { .. })));
        let gone = "{\"result\":{\"header\":{},\"canceled\":true,\"compact_revision\":\"5\"}}\n";
        assert_eq!(watch(gone).next_changes(), Err(Error::Compacted { revision: 5 }));
        for bad in ["hello\n", "{}\n", "{\"result\":{\"canceled\":true}}\n", "{\"error\":7}\n", "{\"result"] {
            assert!(watch(bad).next_changes().is_err(), "{bad}");
        }
    }
}
