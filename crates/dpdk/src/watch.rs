//! Notifications when a device disappears or its link changes: DPDK's events for devices, rtnetlink for
//! interfaces.

use std::collections::HashSet;
use std::ffi::c_int;
use std::fs;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;

use dpdk_sys::{VALIANT_EVENT_LINK, VALIANT_EVENT_REMOVED, valiant_link};
use locks::IgnorePoison;

use crate::netdev;
use crate::status::PortState;

/// The state of a port, shared by the port and the thread that watches it.
#[derive(Debug)]
pub(crate) struct State {
    value: AtomicU8,
}

impl State {
    #[inline]
    pub(crate) fn get(&self) -> PortState {
        match self.value.load(Ordering::Relaxed) {
            0 => PortState::Up,
            1 => PortState::Down,
            _ => PortState::Gone,
        }
    }

    fn set(&self, state: PortState) {
        let value = state as u8;
        // A port that is gone stays gone.
        let _ =
            self.value.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| (old < 2).then_some(value));
    }
}

struct Watch {
    ports: Vec<u16>,
    /// 0: no interface.
    if_index: u32,
    namespace: String,
    state: Weak<State>,
}

struct Watches {
    watches: Vec<Watch>,
    /// Network namespaces that have a listener.
    listeners: HashSet<String>,
}

static WATCHES: Mutex<Option<Watches>> = Mutex::new(None);

fn watches() -> MutexGuard<'static, Option<Watches>> {
    WATCHES.lock().ignore_poison()
}

/// A number that was not used before in this process.
pub(crate) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Watches these DPDK ports and this interface (0: none) until the state is dropped.
pub(crate) fn watch(ports: Vec<u16>, if_index: u32) -> Arc<State> {
    let state = Arc::new(State { value: AtomicU8::new(PortState::Up as u8) });
    let namespace = if if_index == 0 { String::new() } else { namespace() };
    let mut guard = watches();
    let all = guard.get_or_insert_with(|| Watches { watches: Vec::new(), listeners: HashSet::new() });
    all.watches.retain(|watch| watch.state.strong_count() != 0);
    all.watches.push(Watch { ports, if_index, namespace: namespace.clone(), state: Arc::downgrade(&state) });
    if if_index != 0 && !all.listeners.contains(&namespace) && listen(namespace.clone()) {
        all.listeners.insert(namespace);
    }
    drop(guard);
    state
}

/// The network namespace of the calling thread.
fn namespace() -> String {
    let link = fs::read_link("/proc/thread-self/ns/net");
    link.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What DPDK calls, from a thread of its own, when a device changes.
pub(crate) extern "C" fn on_event(port: u16, event: c_int) {
    let guard = watches();
    for watch in guard.iter().flat_map(|all| &all.watches).filter(|watch| watch.ports.contains(&port)) {
        let Some(state) = watch.state.upgrade() else { continue };
        match event as u32 {
            VALIANT_EVENT_REMOVED => state.set(PortState::Gone),
            VALIANT_EVENT_LINK => {
                let mut link = valiant_link { speed_mbps: 0, up: 0, full_duplex: 0, autoneg: 0 };
                // SAFETY: the port has just raised an event, and the function fills the place or fails.
                let known = unsafe { dpdk_sys::valiant_port_link(port, &mut link) } == 0;
                state.set(if known && link.up == 0 { PortState::Down } else { PortState::Up });
            }
            _ => state.set(PortState::Down),
        }
    }
}

/// The device of this DPDK port has disappeared, or is about to.
pub(crate) fn gone(port: u16) {
    on_event(port, VALIANT_EVENT_REMOVED as c_int);
}

fn on_link(namespace: &str, if_index: u32, new: PortState) {
    let guard = watches();
    let all = guard.iter().flat_map(|all| &all.watches);
    for watch in all.filter(|watch| watch.if_index == if_index && watch.namespace == namespace) {
        if let Some(state) = watch.state.upgrade() {
            state.set(new);
        }
    }
}

/// After messages were lost: checks which interfaces still exist.
fn look_again(namespace: &str) {
    let interfaces = netdev::interfaces();
    let guard = watches();
    let all = guard.iter().flat_map(|all| &all.watches);
    for watch in all.filter(|watch| watch.if_index != 0 && watch.namespace == namespace) {
        let Some(state) = watch.state.upgrade() else { continue };
        state.set(match interfaces.iter().find(|interface| interface.index == watch.if_index) {
            Some(interface) if interface.up && interface.running => PortState::Up,
            Some(_) => PortState::Down,
            None => PortState::Gone,
        });
    }
}

/// Starts a thread that listens to the interfaces of the calling thread's network namespace.
fn listen(namespace: String) -> bool {
    // SAFETY: no pointers; a new descriptor is ours.
    let fd =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return false;
    }
    // SAFETY: as above.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an address of the right family and size.
    let bound = unsafe {
        let mut address: libc::sockaddr_nl = mem::zeroed();
        address.nl_family = libc::AF_NETLINK as _;
        address.nl_groups = libc::RTMGRP_LINK as u32;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) == 0
    };
    let listener = thread::Builder::new().name("valiant-links".to_owned());
    bound
        && listener
            .spawn(move || {
                look_again(&namespace);
                let mut buffer = vec![0u8; 65536];
                loop {
                    // SAFETY: the kernel writes at most the buffer's length.
                    let n = unsafe {
                        libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0)
                    };
                    match usize::try_from(n) {
                        Ok(0) => return,
                        Ok(n) => messages(&buffer[..n], |index, state| on_link(&namespace, index, state)),
                        Err(_) => match std::io::Error::last_os_error().raw_os_error() {
                            Some(libc::ENOBUFS) => look_again(&namespace),
                            Some(libc::EINTR) => {}
                            _ => return,
                        },
                    }
                }
            })
            .is_ok()
}

/// Reads rtnetlink messages about interfaces: `nlmsghdr` (length, type, ...) then `ifinfomsg` (family, type,
/// index, flags).
fn messages(mut bytes: &[u8], mut changed: impl FnMut(u32, PortState)) {
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
    while let Some(len) =
        word(bytes, 0).map(|len| len as usize).filter(|&len| (16..=bytes.len()).contains(&len))
    {
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        let message = &bytes[..len];
        if let (Some(index), Some(flags)) = (word(message, 20), word(message, 24)) {
            let up = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
            match kind {
                // A bridge's port leaving the bridge is a DELLINK too, of the family AF_BRIDGE.
                libc::RTM_DELLINK if message[16] == libc::AF_UNSPEC as u8 => changed(index, PortState::Gone),
                libc::RTM_NEWLINK if flags & up == up => changed(index, PortState::Up),
                libc::RTM_NEWLINK => changed(index, PortState::Down),
                _ => {}
            }
        }
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, family: u8, index: u32, flags: u32) -> Vec<u8> {
        let mut bytes = 32u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend([family, 0, 0, 0]);
        bytes.extend(index.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn link_messages_are_read() {
        let mut bytes = message(libc::RTM_NEWLINK, 0, 7, (libc::IFF_UP | libc::IFF_RUNNING) as u32);
        bytes.extend(message(libc::RTM_NEWLINK, 0, 8, libc::IFF_UP as u32));
        bytes.extend(message(libc::RTM_DELLINK, libc::AF_BRIDGE as u8, 9, 0));
        bytes.extend(message(libc::RTM_DELLINK, 0, 9, 0));
        let mut seen = Vec::new();
        messages(&bytes, |index, state| seen.push((index, state)));
        assert_eq!(seen, [(7, PortState::Up), (8, PortState::Down), (9, PortState::Gone)]);
        for len in 0..bytes.len() {
            messages(&bytes[..len], |_, _| {});
        }
    }

    #[test]
    fn gone_is_for_good() {
        let state = State { value: AtomicU8::new(0) };
        state.set(PortState::Down);
        assert_eq!(state.get(), PortState::Down);
        state.set(PortState::Gone);
        state.set(PortState::Up);
        assert_eq!(state.get(), PortState::Gone);
    }
}
