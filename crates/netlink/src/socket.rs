//! Network namespaces, and netlink sockets in them.

use crate::error::Error;
use crate::message::List;
use locks::IgnorePoison;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;

/// A network namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Namespace {
    /// That of the thread which starts a follower: usually the process's.
    Own,
    /// The one that `ip netns` knows by this name.
    Named(String),
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("this process's network namespace"),
            Self::Named(name) => write!(f, "network namespace '{name}'"),
        }
    }
}

/// Where a file is, however it is named.
type Identity = (u64, u64);

impl Namespace {
    /// The namespace that `ip netns` knows by a name.
    ///
    /// # Errors
    /// The name cannot be one: it is empty, or names another directory.
    pub fn named(name: &str) -> Result<Self, Error> {
        let bad = matches!(name, "" | "." | "..") || name.contains(['/', '\0']) || name.len() > 255;
        if bad { Err(Error::BadName(name.to_owned())) } else { Ok(Self::Named(name.to_owned())) }
    }

    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Own => None,
            Self::Named(name) => Some(PathBuf::from("/run/netns").join(name)),
        }
    }

    /// Which namespace has the name now; `None` if none has, or if this has no name.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let data = self.path()?.metadata().ok()?;
        Some((data.dev(), data.ino()))
    }

    /// Moves the calling thread there.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        let (Self::Named(name), Some(path)) = (self, self.path()) else { return Ok(()) };
        let file = File::open(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => Error::NoNamespace(name.clone()),
            _ => Error::Enter { name: name.clone(), cause },
        })?;
        setns(&file, CloneFlags::CLONE_NEWNET)
            .map_err(|e| Error::Enter { name: name.clone(), cause: e.into() })
    }
}

/// The namespace that the calling thread is in, to return to.
pub(crate) struct Home(File);

impl Home {
    pub(crate) fn here() -> Result<Self, Error> {
        File::open("/proc/thread-self/ns/net").map(Self).map_err(Error::Socket)
    }
    /// Moves the calling thread back, so that it keeps no other namespace alive.
    pub(crate) fn return_to(&self) {
        // It was this thread's before.
        let _ = setns(&self.0, CloneFlags::CLONE_NEWNET);
    }
}

/// The multicast groups whose notifications are wanted (linux/rtnetlink.h): interfaces, neighbors, IPv4
/// addresses, IPv4 routes; and next-hop objects, which kernels before 5.3 do not have.
const GROUPS: [u32; 4] = [1, 3, 5, 7];
const OBJECT_GROUP: u32 = 32;

/// The size of the buffer for one datagram: the kernel writes lists in datagrams of up to 32 KB.
const DATAGRAM: usize = 64 << 10;

/// Sockets that wait in namespaces which this process cannot enter any more.
static PREPARED: Mutex<Vec<Prepared>> = Mutex::new(Vec::new());

struct Prepared {
    namespace: Namespace,
    identity: Option<Identity>,
    sockets: Sockets,
}

/// Sockets that were prepared in a namespace, if some are not in use and it still has its name.
pub(crate) fn take_prepared(namespace: &Namespace) -> Option<Sockets> {
    let identity = namespace.identity();
    let mut all = PREPARED.lock().ignore_poison();
    let at = all.iter().position(|known| known.namespace == *namespace && known.identity == identity)?;
    let mut sockets = all.swap_remove(at).sockets;
    drop(all);
    sockets.listen(true);
    Some(sockets)
}

/// What a socket had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    Datagram,
    Nothing,
    /// The kernel had to discard notifications, because the buffer was full.
    Lost,
    /// The socket is of no use any more.
    Broken,
}

/// The sockets in a namespace.
pub(crate) struct Sockets {
    pub(crate) notifications: Socket,
    pub(crate) requests: Socket,
    pub(crate) datagram: Vec<u8>,
    /// The size of the buffer for notifications that the kernel has set, in bytes.
    pub(crate) buffer: usize,
    sequence: u32,
    /// They are kept when nobody uses them: which namespace had the name then.
    prepared_in: Option<Option<Identity>>,
}

impl Sockets {
    /// Opens sockets in the calling thread's namespace. Notifications are received from now on; up to
    /// `buffer` bytes of them can wait.
    pub(crate) fn open(buffer: usize) -> Result<Self, Error> {
        let open = || -> io::Result<Self> {
            let mut notifications = Socket::new(NETLINK_ROUTE)?;
            notifications.set_non_blocking(true)?;
            if setsockopt(&notifications, sockopt::RcvBufForce, &buffer).is_err() {
                setsockopt(&notifications, sockopt::RcvBuf, &buffer)?;
            }
            // The kernel doubles what is set, for what it uses itself.
            let got = getsockopt(&notifications, sockopt::RcvBuf)? / 2;
            notifications.bind_auto()?;
            for group in GROUPS {
                notifications.add_membership(group)?;
            }
            // Kernels before 5.3 do not have it.
            let _ = notifications.add_membership(OBJECT_GROUP);
            let mut requests = Socket::new(NETLINK_ROUTE)?;
            requests.set_non_blocking(true)?;
            requests.bind_auto()?;
            requests.connect(&SocketAddr::new(0, 0))?;
            // Only for lists of one table, which older kernels do not have; other tables are left out anyway.
            let _ = requests.set_netlink_get_strict_chk(true);
            let datagram = Vec::with_capacity(DATAGRAM);
            Ok(Self { notifications, requests, datagram, buffer: got, sequence: 0, prepared_in: None })
        };
        open().map_err(Error::Socket)
    }

    /// Whether the kernel's notifications are wanted.
    fn listen(&mut self, wanted: bool) {
        for group in GROUPS.into_iter().chain([OBJECT_GROUP]) {
            // It can fail for a group that the kernel does not have.
            let _ = if wanted {
                self.notifications.add_membership(group)
            } else {
                self.notifications.drop_membership(group)
            };
        }
    }

    /// Keeps them for a follower of the namespace that starts when this process cannot enter it any more.
    pub(crate) fn keep_for(mut self, namespace: Namespace) {
        self.prepared_in.get_or_insert_with(|| namespace.identity());
        self.put_back(namespace);
    }

    /// The same, if they were kept before.
    pub(crate) fn put_back(mut self, namespace: Namespace) {
        let Some(identity) = self.prepared_in else { return };
        self.listen(false);
        // What has come meanwhile: no more than the buffers hold.
        for receive in [Self::notification, Self::answer] {
            while matches!(receive(&mut self), Heard::Datagram | Heard::Lost) {}
        }
        PREPARED.lock().ignore_poison().push(Prepared { namespace, identity, sockets: self });
    }

    /// Asks for a list; returns the number of the request.
    pub(crate) fn ask(&mut self, list: List) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.requests.send(&list.request(self.sequence), 0)?;
        Ok(self.sequence)
    }

    /// Reads one datagram of notifications.
    pub(crate) fn notification(&mut self) -> Heard {
        Self::receive(&self.notifications, &mut self.datagram)
    }
    /// Reads one datagram of a list.
    pub(crate) fn answer(&mut self) -> Heard {
        Self::receive(&self.requests, &mut self.datagram)
    }

    fn receive(socket: &Socket, datagram: &mut Vec<u8>) -> Heard {
        datagram.clear();
        match socket.recv_from(datagram, 0) {
            // Only the kernel, whose number is 0, is listened to: any process may send to a netlink socket.
            Ok((_, from)) if from.port_number() != 0 => {
                datagram.clear();
                Heard::Datagram
            }
            Ok(_) => Heard::Datagram,
            Err(e) => match nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0)) {
                nix::errno::Errno::ENOBUFS => Heard::Lost,
                nix::errno::Errno::EAGAIN => Heard::Nothing,
                nix::errno::Errno::EINTR => Heard::Nothing,
                _ => Heard::Broken,
            },
        }
    }
}

/// Waits until one of these can be read or the time is over.
pub(crate) fn wait(fds: &[&dyn AsFd], time: std::time::Duration) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    // Rounded up, so that the time is over afterwards.
    let time = time.as_millis().saturating_add(1).min(60_000) as u16;
    // A signal ends it early, which does no harm.
    let _ = poll(&mut fds, PollTimeout::from(time));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_namespaces() {
        for bad in ["", ".", "..", "a/b", "a\0b"] {
            assert!(Namespace::named(bad).is_err(), "{bad}");
        }
        let none = Namespace::named("valiant-no-such-namespace").unwrap();
        assert_eq!(none.identity(), None);
        assert!(none.enter().unwrap_err().to_string().contains("ip netns add valiant-no-such-namespace"));
    }

    #[test]
    fn a_list_can_be_read_without_rights() {
        let mut sockets = Sockets::open(1 << 20).unwrap();
        let sequence = sockets.ask(List::Links).unwrap();
        wait(&[&sockets.requests], std::time::Duration::from_secs(5));
        assert_eq!(sockets.answer(), Heard::Datagram);
        let found: Vec<_> = crate::message::messages(&sockets.datagram).collect();
        assert!(found.iter().all(|m| m.sequence == sequence), "{found:?}");
        assert_eq!(sockets.notification(), Heard::Nothing);
    }
}
