//! The control channel: a Unix socket by which the peer, which listens there, gets the memory.
//!
//! Every message has 128 bytes: its type, and values without gaps between them.

use crate::layout::Direction;
use crate::region::Region;
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::sockopt::{ReceiveTimeout, SendTimeout};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect as connect_to, recv,
    sendmsg, setsockopt, socket,
};
use nix::sys::time::TimeVal;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const VERSION: u16 = 2 << 8;
const MESSAGE: usize = 128;
const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;
/// The flag of a ring from the client to the server.
const TO_SERVER: u16 = 1;
const NAME: &[u8] = b"valiant";

/// A connection to a peer that has the memory. When it is dropped, the peer gives the memory up, if it keeps
/// to the protocol.
#[derive(Debug)]
pub struct Connection {
    _socket: OwnedFd,
    /// Signals for rings, which the protocol wants; both sides may poll instead.
    _signals: Vec<EventFd>,
}

struct Message([u8; MESSAGE]);

impl Message {
    fn new(kind: u16) -> Self {
        let mut this = Self([0; MESSAGE]);
        this.put(0, &kind.to_ne_bytes());
        this
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_ne_bytes([self.0[at], self.0[at + 1]])
    }

    fn kind(&self) -> u16 {
        self.u16_at(0)
    }
}

fn told(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

fn receive(socket: &OwnedFd, kind: u16) -> io::Result<Message> {
    let mut message = Message::new(0);
    // Descriptors that come with a message are not taken, and so closed by the kernel.
    let length = match recv(socket.as_raw_fd(), &mut message.0, MsgFlags::empty()) {
        Ok(length) => length,
        Err(Errno::EAGAIN) => return Err(told("the peer does not answer")),
        Err(e) => return Err(e.into()),
    };
    match (length, message.kind()) {
        (0, _) => Err(told("the peer has hung up")),
        (MESSAGE, DISCONNECT) => {
            let reason = String::from_utf8_lossy(&message.0[6..102]);
            let reason: String = reason.chars().take_while(|c| !c.is_control()).collect();
            Err(told(format!("the peer refuses: {reason}")))
        }
        (MESSAGE, known) if known == kind => Ok(message),
        (_, other) => Err(told(format!("the peer sends message {other} instead of {kind}"))),
    }
}

fn send(socket: &OwnedFd, message: &Message, with: Option<RawFd>) -> io::Result<()> {
    let descriptors: Vec<RawFd> = with.into_iter().collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let control = if descriptors.is_empty() { &[][..] } else { &rights[..] };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&message.0)], control, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Connects to a peer that listens at `path` for the interface `id`, and gives it the memory. No step takes
/// longer than `patience`.
///
/// # Errors
/// Nobody listens, the peer does not keep to the protocol, or it has not as many rings.
pub fn connect(path: &Path, id: u32, region: &Arc<Region>, patience: Duration) -> io::Result<Connection> {
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    let limit = TimeVal::new(patience.as_secs() as i64, i64::from(patience.subsec_micros()));
    setsockopt(&socket, ReceiveTimeout, &limit)?;
    setsockopt(&socket, SendTimeout, &limit)?;
    connect_to(socket.as_raw_fd(), &UnixAddr::new(path)?)?;

    let layout = region.layout();
    let hello = receive(&socket, HELLO)?;
    if !(hello.u16_at(34)..=hello.u16_at(36)).contains(&VERSION) {
        return Err(told("the peer has another version of memif"));
    }
    // Numbers of the last ring in each direction; the size of a ring.
    let last = usize::from(hello.u16_at(40).min(hello.u16_at(42)));
    if last + 1 < layout.rings() || hello.0[44] < layout.log2_slots() {
        return Err(told("the peer does not take so many or so long rings"));
    }
    let mut init = Message::new(INIT);
    init.put(2, &VERSION.to_ne_bytes());
    init.put(4, &id.to_ne_bytes());
    init.put(33, NAME);
    send(&socket, &init, None)?;
    receive(&socket, ACK)?;

    let file = region.file().ok_or_else(|| told("the memory has no file"))?;
    let mut add = Message::new(ADD_REGION);
    add.put(4, &(layout.bytes() as u64).to_ne_bytes());
    send(&socket, &add, Some(file.as_raw_fd()))?;
    receive(&socket, ACK)?;

    let mut signals = Vec::new();
    for direction in [Direction::Out, Direction::In] {
        for ring in 0..layout.rings() {
            let signal = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
            let mut add = Message::new(ADD_RING);
            let flags = if direction == Direction::Out { TO_SERVER } else { 0 };
            add.put(2, &flags.to_ne_bytes());
            add.put(4, &(ring as u16).to_ne_bytes());
            add.put(8, &(layout.ring(direction, ring) as u32).to_ne_bytes());
            add.put(12, &[layout.log2_slots()]);
            send(&socket, &add, Some(signal.as_fd().as_raw_fd()))?;
            receive(&socket, ACK)?;
            signals.push(signal);
        }
    }
    let mut end = Message::new(CONNECT);
    end.put(2, NAME);
    send(&socket, &end, None)?;
    receive(&socket, CONNECTED)?;
    Ok(Connection { _socket: socket, _signals: signals })
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use nix::sys::socket::{Backlog, accept, bind, listen};
    use std::os::fd::FromRawFd;

    /// A peer that answers each message with the next of these bytes, and then hangs up.
    fn against(answers: Vec<Vec<u8>>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peer");
        let server = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(server.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&server, Backlog::new(1).unwrap()).unwrap();
        let peer = std::thread::spawn(move || {
            // SAFETY: a new descriptor, which nobody else has.
            let socket = unsafe { OwnedFd::from_raw_fd(accept(server.as_raw_fd()).unwrap()) };
            let mut answers = answers.into_iter();
            loop {
                let Some(answer) = answers.next() else { return };
                let slices = [IoSlice::new(&answer)];
                let _ = sendmsg::<()>(socket.as_raw_fd(), &slices, &[], MsgFlags::MSG_NOSIGNAL, None);
                let mut message = [0; 256];
                if !matches!(recv(socket.as_raw_fd(), &mut message, MsgFlags::empty()), Ok(1..)) {
                    return;
                }
            }
        });
        let region = Region::new(Layout::new(2, 5)).unwrap();
        let done = connect(&path, 0, &region, Duration::from_millis(300));
        // The peer waits until it is dropped.
        let told = done.map_or_else(|e| e.to_string(), |_| String::new());
        peer.join().unwrap();
        told
    }

    fn hello(version: u16, rings: u16, log2: u8) -> Vec<u8> {
        let mut hello = Message::new(HELLO);
        for (at, value) in [(34, version), (36, version), (40, rings), (42, rings)] {
            hello.put(at, &value.to_ne_bytes());
        }
        hello.put(44, &[log2]);
        hello.0.to_vec()
    }

    #[test]
    fn a_peer_that_keeps_to_the_protocol_is_connected() {
        let ack = Message::new(ACK).0.to_vec();
        let mut answers = vec![hello(VERSION, 255, 14)];
        answers.extend(std::iter::repeat_n(ack, 2 + 4));
        answers.push(Message::new(CONNECTED).0.to_vec());
        assert_eq!(against(answers), "");
    }

    #[test]
    fn all_others_are_refused() {
        let ack = Message::new(ACK).0.to_vec();
        let good = hello(VERSION, 255, 14);
        let mut refusal = Message::new(DISCONNECT);
        refusal.put(6, b"ID not found");
        for (answers, reason) in [
            (vec![], "hung up"),
            (vec![vec![7; 3]], "instead of"),
            (vec![vec![0xff; MESSAGE]], "sends message 65535 instead of 2"),
            (vec![hello(3 << 8, 255, 14)], "another version"),
            (vec![hello(VERSION, 0, 14)], "so many"),
            (vec![hello(VERSION, 255, 4)], "so long"),
            (vec![good.clone(), refusal.0.to_vec()], "the peer refuses: ID not found"),
            (vec![good.clone(), ack.clone(), good.clone()], "sends message 2 instead of 1"),
            (vec![good.clone(), ack.clone()], "hung up"),
        ] {
            let told = against(answers);
            assert!(told.contains(reason), "{told} has not {reason}");
        }
        assert!(
            connect(
                Path::new("/nothing/here"),
                0,
                &Region::new(Layout::new(1, 4)).unwrap(),
                Duration::from_secs(1)
            )
            .is_err()
        );
    }

    #[test]
    fn a_peer_that_says_nothing_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peer");
        let server = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(server.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&server, Backlog::new(1).unwrap()).unwrap();
        let region = Region::new(Layout::new(1, 4)).unwrap();
        let told = connect(&path, 0, &region, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(told.contains("does not answer"), "{told}");
    }
}
