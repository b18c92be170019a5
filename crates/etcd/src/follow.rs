//! Following everything below a prefix.

use crate::backoff::Backoff;
use crate::{Client, Error, News};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How often everything is read again although nothing seems to be missing: a store that was restored from a
/// backup, and has been written to since, looks like one that was not.
const AGAIN: Duration = Duration::from_secs(300);

/// A thread that reads everything below a prefix, and from there on each change: every change once and in
/// order, or, where that cannot be had (after a compaction, a restored backup), everything again. It goes on
/// through any trouble.
#[derive(Debug)]
pub struct Follower {
    stop: Arc<AtomicBool>,
}

impl Follower {
    /// Starts the thread. It ends when the follower is dropped or nobody listens any more, at the latest
    /// after [`Limits::watch`](crate::Limits).
    pub fn start(client: Arc<Client>, prefix: String, news: Sender<News>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = Follow { client, prefix, news, stop: Arc::clone(&stop), seen: None, trouble: None };
        std::thread::spawn(move || thread.run());
        Self { stop }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Nobody listens any more.
struct Deaf;

struct Follow {
    client: Arc<Client>,
    prefix: String,
    news: Sender<News>,
    stop: Arc<AtomicBool>,
    /// The last revision that was passed on, and when everything was read.
    seen: Option<(i64, Instant)>,
    trouble: Option<Error>,
}

impl Follow {
    fn run(mut self) {
        let (first, most) = self.client.limits().backoff;
        let mut backoff = Backoff::new(first, most);
        while !self.stopped() {
            match self.step(&mut backoff) {
                Ok(Ok(())) => {}
                Ok(Err(e)) => {
                    if matches!(e, Error::Compacted { .. } | Error::Rewound { .. }) {
                        self.seen = None;
                    } else {
                        self.client.turn();
                        if self.trouble.as_ref().is_none_or(|t| !t.same_trouble(&e)) {
                            self.trouble = Some(e.clone());
                            if self.news.send(News::Reading(Some(e))).is_err() {
                                return;
                            }
                        }
                    }
                    self.sleep(backoff.wait());
                }
                Err(Deaf) => return,
            }
        }
    }
    /// Reads everything if it must, then watches until the watch ends.
    fn step(&mut self, backoff: &mut Backoff) -> Result<Result<(), Error>, Deaf> {
        let seen = match self.seen {
            Some((seen, at)) if at.elapsed() < AGAIN => seen,
            _ => {
                let (entries, revision) = match self.client.list(&self.prefix) {
                    Ok(all) => all,
                    Err(e) => return Ok(Err(e)),
                };
                self.seen = Some((revision, Instant::now()));
                self.say(News::All { revision, entries })?;
                revision
            }
        };
        let mut watch = match self.client.watch(&self.prefix, seen + 1) {
            Ok(watch) => watch,
            Err(e) => return Ok(Err(e)),
        };
        backoff.reset();
        if self.trouble.take().is_some() {
            self.say(News::Reading(None))?;
        }
        loop {
            match watch.next_changes() {
                Ok(Some((changes, revision))) => {
                    if let Some((seen, _)) = &mut self.seen {
                        *seen = revision;
                    }
                    self.say(News::Changes { revision, changes })?;
                }
                Ok(None) => return Ok(Ok(())),
                Err(e) => return Ok(Err(e)),
            }
            if self.stopped() {
                return Ok(Ok(()));
            }
        }
    }
    fn say(&self, news: News) -> Result<(), Deaf> {
        self.news.send(news).map_err(|_| Deaf)
    }
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.stopped() && Instant::now() < end {
            std::thread::sleep((end - Instant::now()).min(Duration::from_millis(100)));
        }
    }
}
