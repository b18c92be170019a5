//! A queue of lines to a thread that prints them: who adds a line never waits for a slow reader.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// What a relay prints.
pub(crate) enum Entry<T> {
    Line(T),
    /// So many lines did not fit into the queue.
    Lost(u64),
}

/// The queue.
pub(crate) struct Relay<T> {
    lines: SyncSender<T>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Lines that have not been printed yet.
    waiting: AtomicUsize,
    /// Lines lost since that was last reported.
    lost: AtomicU64,
}

impl<T: Send + 'static> Relay<T> {
    /// Starts the thread. At most `length` lines wait for it; further ones are lost.
    pub(crate) fn start(
        name: &str,
        length: usize,
        print: impl Fn(Entry<T>) + Send + 'static,
    ) -> io::Result<Self> {
        let (lines, queue) = sync_channel(length);
        let relay = Self { lines, counts: Arc::default() };
        let counts = Arc::clone(&relay.counts);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            for (printed, line) in queue.iter().enumerate() {
                print(Entry::Line(line));
                // Lost lines are reported when the flood is over, and now and then while it lasts.
                let due = counts.waiting.load(Ordering::Relaxed) == 1 || printed % length == 0;
                let lost = if due { counts.lost.swap(0, Ordering::Relaxed) } else { 0 };
                if lost > 0 {
                    print(Entry::Lost(lost));
                }
                counts.waiting.fetch_sub(1, Ordering::Release);
            }
        })?;
        Ok(relay)
    }
    /// Adds a line.
    pub(crate) fn send(&self, line: T) {
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if self.lines.try_send(line).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
    /// Waits until all lines have been printed, at most `limit`. Returns how many were lost; `None`: the
    /// reader is too slow, and who prints more now may wait for ever.
    pub(crate) fn drain(&self, limit: Duration) -> Option<u64> {
        let began = Instant::now();
        loop {
            if self.counts.waiting.load(Ordering::Acquire) == 0 {
                return Some(self.counts.lost.swap(0, Ordering::Relaxed));
            }
            if began.elapsed() >= limit {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use locks::IgnorePoison;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    #[test]
    fn a_slow_reader_holds_nobody_up() {
        let (reads, may_print) = channel::<()>();
        let (seen, of_thread) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let (lines, lost) = (Arc::clone(&seen), Arc::clone(&of_thread));
        let relay = Relay::start("test", 4, move |entry| match entry {
            Entry::Line(line) => {
                // Nobody reads until the test drops the other end.
                let _ = may_print.recv();
                lines.lock().ignore_poison().push(line);
            }
            Entry::Lost(n) => *lost.lock().ignore_poison() += n,
        });
        let relay = relay.unwrap();
        // If this waited for the reader, it would not end.
        (0..100).for_each(|line| relay.send(line));
        assert_eq!(relay.drain(Duration::ZERO), None);
        drop(reads);
        let late = relay.drain(Duration::MAX);
        let seen = seen.lock().ignore_poison();
        assert!((4..=5).contains(&seen.len()) && seen.is_sorted(), "{seen:?}");
        let reported = late.unwrap() + *of_thread.lock().ignore_poison();
        assert_eq!(reported + seen.len() as u64, 100);
    }

    #[test]
    fn lost_lines_are_reported() {
        let (printed, entries) = channel();
        let (go, gone) = channel::<()>();
        let relay = Relay::start("test", 2, move |entry| {
            let _ = gone.recv();
            let _ = printed.send(match entry {
                Entry::Line(_) => None,
                Entry::Lost(n) => Some(n),
            });
        });
        let relay = relay.unwrap();
        (0..50).for_each(|line| relay.send(line));
        drop(go);
        assert_eq!(relay.drain(Duration::MAX), Some(0));
        drop(relay);
        let entries: Vec<Option<u64>> = entries.iter().collect();
        let lines = entries.iter().filter(|entry| entry.is_none()).count() as u64;
        assert_eq!(lines + entries.into_iter().flatten().sum::<u64>(), 50);
    }
}
