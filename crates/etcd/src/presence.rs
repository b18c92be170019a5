//! A key that exists for as long as this process runs.

use crate::backoff::Backoff;
use crate::members::Members;
use crate::mirror::Reported;
use crate::{Client, Error, LeaseId, News};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long ending the lease may delay the end of the process.
const PARTING: Duration = Duration::from_secs(1);

/// A task on the client's thread that keeps a key under a lease. The key is removed one term after the
/// process has died or lost its connection to etcd, and at once when the presence is dropped. After a lost
/// connection the task writes it again.
#[derive(Debug)]
pub struct Presence {
    /// The value of the key; none: the lease is to end.
    value: Option<watch::Sender<Vec<u8>>>,
    task: JoinHandle<()>,
    client: Arc<Client>,
}

impl Presence {
    /// Starts the task; the lease lasts for `ttl_s` seconds (at least 2) without being renewed.
    pub fn start(client: Arc<Client>, key: String, value: Vec<u8>, ttl_s: u32, news: Sender<News>) -> Self {
        let (sender, value) = watch::channel(value);
        let (members, ttl_s) = (client.members(), ttl_s.max(2));
        let keeper =
            Keeper { members, key, value, written: None, ttl_s, news, reported: Reported::default() };
        Self { value: Some(sender), task: client.spawn(keeper.run()), client }
    }
    /// Sets the value of the key.
    pub fn set(&self, value: Vec<u8>) {
        if let Some(sender) = &self.value {
            sender.send_if_modified(|old| {
                *old != value && {
                    *old = value;
                    true
                }
            });
        }
    }
}

impl Drop for Presence {
    /// Ends the lease; waits for that for one second at most.
    fn drop(&mut self) {
        self.value = None;
        // If etcd has not received the request by then, the lease expires.
        let _ = self.client.wait(async { timeout(PARTING, &mut self.task).await });
    }
}

struct Keeper {
    members: Arc<Members>,
    key: String,
    value: watch::Receiver<Vec<u8>>,
    /// The value that was last written under this lease.
    written: Option<Vec<u8>>,
    ttl_s: u32,
    news: Sender<News>,
    reported: Reported,
}

impl Keeper {
    async fn run(mut self) {
        let (first, most) = self.members.limits().backoff;
        let mut backoff = Backoff::new(first, most);
        let mut lease = None;
        loop {
            let wait = match self.keep(&mut lease).await {
                Ok(()) => {
                    backoff.reset();
                    self.say(None);
                    // Two renewals may be lost in a term.
                    Duration::from_secs(u64::from(self.ttl_s)) / 3
                }
                Err(Error::LeaseGone) => {
                    lease = None;
                    backoff.wait()
                }
                Err(e) => {
                    self.say(Some(e));
                    backoff.wait()
                }
            };
            // A new value is written at once. When the sender is gone, the lease is to end.
            if let Ok(Err(_)) = timeout(wait, self.value.changed()).await {
                break;
            }
        }
        if let Some(lease) = lease
            && self.reported.trouble().is_none()
        {
            // A lease that cannot be revoked expires.
            let _ = self.members.revoke(lease).await;
        }
    }
    /// Renews the lease; makes a new lease and writes the value where needed.
    async fn keep(&mut self, lease: &mut Option<LeaseId>) -> Result<(), Error> {
        let id = match *lease {
            Some(id) => {
                self.members.keep_alive(id).await?;
                id
            }
            None => {
                self.written = None;
                *lease.insert(self.members.grant(self.ttl_s).await?)
            }
        };
        let value = self.value.borrow_and_update().clone();
        if self.written.as_ref() != Some(&value) {
            self.members.put(&self.key, &value, Some(id)).await?;
            self.written = Some(value);
        }
        Ok(())
    }
    fn say(&mut self, trouble: Option<Error>) {
        if self.reported.changes(trouble.as_ref()) {
            // The key is kept also if nothing receives the news.
            let _ = self.news.send(News::Presence(trouble));
        }
    }
}
