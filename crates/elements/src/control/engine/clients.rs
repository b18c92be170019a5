//! The limits on clients of a control socket: their number, their idle time, and their pending input.

use super::listen::Connection;
use locks::IgnorePoison;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The limits for all clients together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of clients that may be connected.
    pub(crate) clients: usize,
    /// The idle time after which a client may be disconnected to admit a new one.
    pub(crate) idle: Duration,
    /// Bytes of unanswered input, not counting what each client may always have ([`FREE`]).
    pub(crate) input: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 128, idle: Duration::from_secs(30), input: 128 << 20 }
    }
}

/// The input that each client may have pending, whatever the other clients have: commands are short.
const FREE: usize = 64 << 10;

/// The state of a client in the table.
struct Entry {
    connection: Connection,
    /// When it was answered last.
    since: Mutex<Instant>,
    /// Whether it waits for an answer.
    asks: AtomicBool,
    /// Whether the client still has to send the token.
    strange: AtomicBool,
}

impl Entry {
    fn idle(&self) -> Duration {
        if self.asks.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        self.since.lock().ignore_poison().elapsed()
    }
    fn is_strange(&self) -> bool {
        self.strange.load(Ordering::Acquire)
    }
}

/// All clients of a socket.
pub(crate) struct Clients {
    limits: Limits,
    list: Mutex<Vec<Arc<Entry>>>,
    /// Pending input above [`FREE`], of all clients.
    input: AtomicUsize,
}

/// A client's entry in the table; it lasts as long as the client is served.
pub(crate) struct Client {
    table: Arc<Clients>,
    entry: Arc<Entry>,
    /// The part of this client's input that is counted.
    held: AtomicUsize,
}

impl Clients {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, list: Mutex::default(), input: AtomicUsize::new(0) }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.list.lock().ignore_poison()
    }

    /// Adds a client, `strange` if it has to send a token first; `None` if there are too many clients and all
    /// are busy. Clients that have not sent the token are disconnected before all others, however recently
    /// they have connected: they must not keep out clients that know the token.
    pub(crate) fn add(self: &Arc<Self>, connection: &Connection, strange: bool) -> Option<Client> {
        let mut list = self.list();
        if list.len() >= self.limits.clients {
            let all = list.iter().map(|e| (e.is_strange(), e.idle())).enumerate();
            let (at, (stranger, idle)) = all.max_by_key(|(_, order)| *order)?;
            if !stranger && idle < self.limits.idle {
                return None;
            }
            list.swap_remove(at).connection.close();
        }
        let entry = Arc::new(Entry {
            connection: connection.another().ok()?,
            since: Mutex::new(Instant::now()),
            asks: AtomicBool::new(false),
            strange: AtomicBool::new(strange),
        });
        list.push(Arc::clone(&entry));
        Some(Client { table: Arc::clone(self), entry, held: AtomicUsize::new(0) })
    }

    /// Disconnects all clients.
    pub(crate) fn end(&self) {
        self.list().drain(..).for_each(|entry| entry.connection.close());
    }

    /// Stops reading from all clients; answers that were given are still sent.
    pub(crate) fn close(&self) {
        self.list().drain(..).for_each(|entry| entry.connection.close_reading());
    }
}

impl Client {
    /// Ends the connection: the other side sees it also if the process has another descriptor of it.
    pub(crate) fn close(&self) {
        self.entry.connection.close();
    }

    /// Sets whether the client waits for an answer.
    pub(crate) fn asks(&self, asks: bool) {
        *self.entry.since.lock().ignore_poison() = Instant::now();
        self.entry.asks.store(asks, Ordering::Release);
    }

    /// Sets whether the client still has to send a token.
    pub(crate) fn is_strange(&self, strange: bool) {
        self.entry.strange.store(strange, Ordering::Release);
    }

    /// Sets how many bytes of input the client has pending. Returns false if that is too much, together with
    /// the input of the other clients.
    pub(crate) fn holds(&self, bytes: usize) -> bool {
        let (want, held) = (bytes.saturating_sub(FREE), self.held.load(Ordering::Relaxed));
        if want <= held {
            self.table.input.fetch_sub(held - want, Ordering::AcqRel);
        } else {
            let more = want - held;
            let sum = self.table.input.fetch_add(more, Ordering::AcqRel) + more;
            if sum > self.table.limits.input {
                self.table.input.fetch_sub(more, Ordering::AcqRel);
                return false;
            }
        }
        self.held.store(want, Ordering::Relaxed);
        true
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.table.input.fetch_sub(self.held.load(Ordering::Relaxed), Ordering::AcqRel);
        self.table.list().retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn table(limits: Limits) -> Arc<Clients> {
        Arc::new(Clients::new(limits))
    }

    fn connect(table: &Arc<Clients>) -> (Option<Client>, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (table.add(&Connection::Unix(here), false), there)
    }

    #[test]
    fn strangers_make_room_before_those_who_have_shown_the_token() {
        let clients = table(Limits { clients: 3, idle: Duration::from_secs(3600), input: 0 });
        let (known, _a) = connect(&clients);
        let add = || {
            let (here, there) = UnixStream::pair().unwrap();
            there.set_nonblocking(true).unwrap();
            (clients.add(&Connection::Unix(here), true), there)
        };
        let ended = |mut stream: &UnixStream| stream.read(&mut [0]).is_ok_and(|n| n == 0);
        let (_first, first) = add();
        std::thread::sleep(Duration::from_millis(2));
        let (second, second_end) = add();
        assert!(!ended(&first));
        let (third, third_end) = add();
        assert!(third.is_some() && ended(&first) && !ended(&second_end));
        // A client that has sent the token stays connected.
        second.as_ref().unwrap().is_strange(false);
        let (fourth, _b) = add();
        assert!(fourth.is_some() && !ended(&second_end) && ended(&third_end));
        fourth.as_ref().unwrap().is_strange(false);
        assert!(add().0.is_none(), "all are known, and none has been idle for an hour");
        drop(known);
    }

    #[test]
    fn a_full_table_makes_room_by_who_is_idle_for_long() {
        let patient = Limits { clients: 3, idle: Duration::from_secs(3600), input: 0 };
        let clients = table(patient);
        let all: Vec<_> = (0..3).map(|_| connect(&clients)).collect();
        assert!(all.iter().all(|(client, _)| client.is_some()));
        assert!(connect(&clients).0.is_none(), "nobody has been idle for an hour");
        drop(all);
        assert!(connect(&clients).0.is_some(), "who has gone makes room");

        let clients = table(Limits { idle: Duration::ZERO, ..patient });
        let mut all: Vec<_> = (0..3).map(|_| connect(&clients)).collect();
        // The second client has been idle for longest: the first waits for its answer, and the third has
        // received one.
        all[0].0.as_ref().unwrap().asks(true);
        std::thread::sleep(Duration::from_millis(2));
        all[2].0.as_ref().unwrap().asks(false);
        let new = connect(&clients);
        assert!(new.0.is_some());
        let mut ended = |n: usize| {
            let stream = &mut all[n].1;
            stream.set_nonblocking(true).unwrap();
            stream.read(&mut [0]).is_ok_and(|n| n == 0)
        };
        assert_eq!([ended(0), ended(1), ended(2)], [false, true, false]);
        drop(all);
        assert_eq!(clients.list().len(), 1);
        drop(new);
        assert_eq!(clients.list().len(), 0);
    }

    #[test]
    fn input_of_all_together_is_bounded_and_commands_always_pass() {
        let clients = table(Limits { clients: 8, idle: Duration::from_secs(60), input: 1 << 20 });
        let (one, _a) = connect(&clients);
        let (two, _b) = connect(&clients);
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one.holds(FREE + (1 << 20)) && !one.holds(FREE + (1 << 20) + 1));
        assert!(two.holds(FREE) && !two.holds(FREE + 1));
        assert!(one.holds(FREE + 1000) && two.holds(1 << 20));
        drop(two);
        assert_eq!(clients.input.load(Ordering::Relaxed), 1000);
        drop(one);
        assert_eq!(clients.input.load(Ordering::Relaxed), 0);
    }
}
