//! Following everything below a prefix.

use crate::backoff::Backoff;
use crate::members::Members;
use crate::mirror::Reported;
use crate::{Client, Error, News};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How often everything is read again although no change seems to be missing: a store that was restored from
/// a backup and has been written to since cannot be distinguished from one that was not.
const AGAIN: Duration = Duration::from_secs(300);

/// A task on the client's thread that reads everything below a prefix, and from there on each change: every
/// change once and in order, or, where that is impossible (after a compaction, or a restored backup),
/// everything again. It continues after every error until the follower is dropped.
#[derive(Debug)]
pub struct Follower {
    task: JoinHandle<()>,
    _client: Arc<Client>,
}

impl Follower {
    /// Starts the task.
    pub fn start(client: Arc<Client>, prefix: String, news: Sender<News>) -> Self {
        let follow =
            Follow { members: client.members(), prefix, news, seen: None, reported: Reported::default() };
        Self { task: client.spawn(follow.run()), _client: client }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follow {
    members: Arc<Members>,
    prefix: String,
    news: Sender<News>,
    /// The last revision that was passed on, and when everything was read.
    seen: Option<(i64, Instant)>,
    reported: Reported,
}

impl Follow {
    async fn run(mut self) {
        let (first, most) = self.members.limits().backoff;
        let mut backoff = Backoff::new(first, most);
        loop {
            match self.step(&mut backoff).await {
                Ok(()) => continue,
                Err(Error::Compacted { .. } | Error::Rewound { .. }) => self.seen = None,
                Err(e) => {
                    self.members.turn();
                    if self.reported.changes(Some(&e)) {
                        self.say(News::Reading(Some(e)));
                    }
                }
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }
    /// Reads everything if it must, then watches until the watch ends.
    async fn step(&mut self, backoff: &mut Backoff) -> Result<(), Error> {
        let seen = match self.seen {
            Some((seen, at)) if at.elapsed() < AGAIN => seen,
            _ => {
                let (entries, revision) = self.members.list(&self.prefix).await?;
                self.seen = Some((revision, Instant::now()));
                self.say(News::All { revision, entries });
                revision
            }
        };
        let mut watch = self.members.watch(&self.prefix, seen + 1).await?;
        backoff.reset();
        if self.reported.changes(None) {
            self.say(News::Reading(None));
        }
        while let Some((changes, revision)) = watch.next_changes().await? {
            if let Some((seen, _)) = &mut self.seen {
                *seen = revision;
            }
            self.say(News::Changes { revision, changes });
        }
        Ok(())
    }
    fn say(&self, news: News) {
        // Nothing receives the news any more: wait until the follower is dropped.
        let _ = self.news.send(news);
    }
}
