//! One key that is there for as long as this process is.

use crate::backoff::Backoff;
use crate::{Client, Error, LeaseId, News};
use locks::IgnorePoison;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long the end of the lease may hold up the end of the process.
const PARTING: Duration = Duration::from_secs(1);

/// What the thread is to do.
#[derive(Debug)]
struct Wish {
    value: Vec<u8>,
    /// Grows with each new value.
    version: u64,
    stop: bool,
    /// The thread has done what it could.
    ended: bool,
}

#[derive(Debug)]
struct Shared {
    wish: Mutex<Wish>,
    changed: Condvar,
}

impl Shared {
    fn wish(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().ignore_poison()
    }
}

/// A thread that keeps a key under a lease. It is gone a term after the process died or lost etcd, at once
/// when the presence is dropped, and comes back by itself.
#[derive(Debug)]
pub struct Presence {
    shared: Arc<Shared>,
}

impl Presence {
    /// Starts the thread; the lease lasts for `ttl_s` seconds (at least 2) without a sign of life.
    pub fn start(client: Arc<Client>, key: String, value: Vec<u8>, ttl_s: u32, news: Sender<News>) -> Self {
        let wish = Mutex::new(Wish { value, version: 1, stop: false, ended: false });
        let shared = Arc::new(Shared { wish, changed: Condvar::new() });
        let keeper =
            Keeper { client, key, ttl_s: ttl_s.max(2), news, shared: Arc::clone(&shared), trouble: None };
        let done = Arc::clone(&shared);
        std::thread::spawn(move || {
            keeper.run();
            done.wish().ended = true;
            done.changed.notify_all();
        });
        Self { shared }
    }
    /// What the key holds from now on.
    pub fn set(&self, value: Vec<u8>) {
        let mut wish = self.shared.wish();
        if wish.value != value {
            (wish.value, wish.version) = (value, wish.version + 1);
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Presence {
    /// Ends the lease; waits a second for that at the most.
    fn drop(&mut self) {
        let mut wish = self.shared.wish();
        wish.stop = true;
        self.shared.changed.notify_all();
        let until = Instant::now() + PARTING;
        while !wish.ended {
            // What etcd has not heard by then runs out.
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) else {
                return;
            };
            wish = self.shared.changed.wait_timeout(wish, left).ignore_poison().0;
        }
    }
}

struct Keeper {
    client: Arc<Client>,
    key: String,
    ttl_s: u32,
    news: Sender<News>,
    shared: Arc<Shared>,
    trouble: Option<Error>,
}

impl Keeper {
    fn run(mut self) {
        let (first, most) = self.client.limits().backoff;
        let mut backoff = Backoff::new(first, most);
        let mut lease = None;
        let mut written = 0;
        while !self.shared.wish().stop {
            let wait = match self.keep(&mut lease, &mut written) {
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
            self.wait(wait, written);
        }
        if let Some(lease) = lease
            && self.trouble.is_none()
        {
            // What cannot be revoked runs out.
            let _ = self.client.revoke(lease);
        }
    }
    /// One sign of life; a new lease and a new value where needed.
    fn keep(&self, lease: &mut Option<LeaseId>, written: &mut u64) -> Result<(), Error> {
        let id = match *lease {
            Some(id) => {
                self.client.keep_alive(id)?;
                id
            }
            None => {
                *written = 0;
                *lease.insert(self.client.grant(self.ttl_s)?)
            }
        };
        let (value, version) = {
            let wish = self.shared.wish();
            (wish.value.clone(), wish.version)
        };
        if version != *written {
            self.client.put(&self.key, &value, Some(id))?;
            *written = version;
        }
        Ok(())
    }
    fn say(&mut self, trouble: Option<Error>) {
        let same = match (&self.trouble, &trouble) {
            (None, None) => true,
            (Some(a), Some(b)) => a.same_trouble(b),
            _ => false,
        };
        if !same {
            self.trouble.clone_from(&trouble);
            // Without a listener the key is kept all the same.
            let _ = self.news.send(News::Presence(trouble));
        }
    }
    /// Waits, unless there is something to do earlier.
    fn wait(&self, time: Duration, written: u64) {
        let end = Instant::now() + time;
        let mut wish = self.shared.wish();
        let due =
            |wish: &Wish| wish.stop || (self.trouble.is_none() && wish.version != written && written != 0);
        while !due(&wish) {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) else {
                return;
            };
            wish = self.shared.changed.wait_timeout(wish, left).ignore_poison().0;
        }
    }
}
