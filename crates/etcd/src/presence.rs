//! One key that is there for as long as this process is.

use crate::backoff::Backoff;
use crate::members::Members;
use crate::mirror::Said;
use crate::{Client, Error, LeaseId, News};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long the end of the lease may hold up the end of the process.
const PARTING: Duration = Duration::from_secs(1);

/// A task on the client's thread that keeps a key under a lease. It is gone a term after the process died or
/// lost etcd, at once when the presence is dropped, and comes back by itself.
#[derive(Debug)]
pub struct Presence {
    /// What the key is to hold; none: the lease is to end.
    value: Option<watch::Sender<Vec<u8>>>,
    task: JoinHandle<()>,
    client: Arc<Client>,
}

impl Presence {
    /// Starts the task; the lease lasts for `ttl_s` seconds (at least 2) without a sign of life.
    pub fn start(client: Arc<Client>, key: String, value: Vec<u8>, ttl_s: u32, news: Sender<News>) -> Self {
        let (sender, value) = watch::channel(value);
        let (members, ttl_s) = (client.members(), ttl_s.max(2));
        let keeper = Keeper { members, key, value, written: None, ttl_s, news, said: Said::default() };
        Self { value: Some(sender), task: client.spawn(keeper.run()), client }
    }
    /// What the key holds from now on.
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
    /// Ends the lease; waits a second for that at the most.
    fn drop(&mut self) {
        self.value = None;
        // What etcd has not heard by then runs out.
        let _ = self.client.wait(async { timeout(PARTING, &mut self.task).await });
    }
}

struct Keeper {
    members: Arc<Members>,
    key: String,
    value: watch::Receiver<Vec<u8>>,
    /// What was written last under this lease.
    written: Option<Vec<u8>>,
    ttl_s: u32,
    news: Sender<News>,
    said: Said,
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
                    // Two signs of life may get lost in a term.
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
            // A new value waits for nothing; nobody is left to set one when the lease is to end.
            if let Ok(Err(_)) = timeout(wait, self.value.changed()).await {
                break;
            }
        }
        if let Some(lease) = lease
            && self.said.trouble().is_none()
        {
            // What cannot be revoked runs out.
            let _ = self.members.revoke(lease).await;
        }
    }
    /// One sign of life; a new lease and a new value where needed.
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
        if self.said.changes(trouble.as_ref()) {
            // Without a listener the key is kept all the same.
            let _ = self.news.send(News::Presence(trouble));
        }
    }
}
