//! Sockets of this machine's network stack: opening them, receiving packets, and packets that wait until a
//! socket takes them. `Socket`, `RawSocket` and `McastSocket` are made of these.

use crate::prelude::*;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvmsg};
use runtime::reason;
use socket2::{SockAddr, Socket};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;

pub(in crate::devices) const QUEUE_FULL: DropReason = DropReason::new("socket queue full");
pub(in crate::devices) const REFUSED: DropReason = DropReason::new("refused by the socket");
pub(in crate::devices) const NOT_OPEN: DropReason = DropReason::new("socket not open");

/// Drop reasons of every element that sends by a socket.
pub(in crate::devices) const DROPS: [DropCase; 3] = [
    QUEUE_FULL.when("1024 packets wait already because the socket takes no more"),
    REFUSED.when("the system refused to send the packet, for example because it is too long or has no route"),
    NOT_OPEN.when("there is no socket"),
];

/// How many packets may wait for a socket.
const ROOM: usize = 1024;

/// An IPv4 address and a port, for the system.
pub(in crate::devices) fn inet(address: Ipv4Addr, port: u16) -> SockAddr {
    SockAddr::from(SocketAddrV4::new(address, port))
}

/// The sender of a packet, to answer it; `None` if it has no address.
fn sender(from: &SockaddrStorage) -> Option<SockAddr> {
    if let Some(inet) = from.as_sockaddr_in() {
        return Some(SockAddr::from(SocketAddr::V4(SocketAddrV4::from(*inet))));
    }
    let unix = from.as_unix_addr()?;
    match (unix.path(), unix.as_abstract()) {
        (Some(path), _) => SockAddr::unix(path).ok(),
        (None, Some(name)) => SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat())).ok(),
        (None, None) => None,
    }
}

/// Calls that a signal interrupts are made again.
pub(in crate::devices) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Becomes readable when a socket can be written: a task waits for descriptors that are readable.
pub(in crate::devices) struct Writable(Epoll);

impl Writable {
    pub(in crate::devices) fn of(socket: &Socket) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLOUT, 0))?;
        Ok(Self(epoll))
    }
    pub(in crate::devices) fn fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

/// The arguments that all socket elements have.
#[derive(Clone, Debug)]
pub(in crate::devices) struct Buffers {
    snaplen: usize,
    headroom: usize,
    timestamp: bool,
    receive: Option<usize>,
    send: Option<usize>,
}

impl Buffers {
    /// Reads `SNAPLEN` and `HEADROOM`.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(in crate::devices) fn read(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let snaplen = args.k_or("SNAPLEN", 2048u32)? as usize;
        let headroom = args.k::<u32>("HEADROOM")?.map_or(dpdk::DEFAULT_HEADROOM, |n| n as usize);
        if snaplen == 0 || snaplen.saturating_add(headroom) > dpdk::MAX_BUFFER {
            let most = dpdk::MAX_BUFFER;
            return Err(
                args.error(format!("SNAPLEN: should be at least 1, and with HEADROOM at most {most}"))
            );
        }
        Ok(Self { snaplen, headroom, timestamp: true, receive: None, send: None })
    }

    /// Reads `TIMESTAMP`, `RCVBUF` and `SNDBUF` too.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(in crate::devices) fn read_all(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let mut buffers = Self::read(args)?;
        buffers.timestamp = args.k_or("TIMESTAMP", true)?;
        buffers.receive = args.k::<u32>("RCVBUF")?.map(|n| n as usize);
        buffers.send = args.k::<u32>("SNDBUF")?.map(|n| n as usize);
        Ok(buffers)
    }

    /// Sets how much the system keeps in front of a socket and behind it.
    ///
    /// # Errors
    /// What the system says, after the name of the call.
    pub(in crate::devices) fn set(&self, socket: &Socket, sends: bool, receives: bool) -> Result<(), String> {
        let named = |call: &'static str| move |e: io::Error| format!("setsockopt({call}): {}", reason(&e));
        if let (true, Some(bytes)) = (sends, self.send) {
            socket.set_send_buffer_size(bytes).map_err(named("SO_SNDBUF"))?;
        }
        if let (true, Some(bytes)) = (receives, self.receive) {
            socket.set_recv_buffer_size(bytes).map_err(named("SO_RCVBUF"))?;
        }
        Ok(())
    }
}

/// Receives packets.
pub(in crate::devices) struct Receiver {
    buffers: Buffers,
    /// Memory for the next packet.
    next: Option<Packet>,
}

impl Receiver {
    pub(in crate::devices) fn new(buffers: Buffers) -> Self {
        Self { buffers, next: None }
    }

    /// The next packet, and who has sent it. A stream that has ended gives an empty packet. What is longer
    /// than `SNAPLEN` is cut, and the packet's annotation says by how much.
    ///
    /// # Errors
    /// What the system says: `WouldBlock` if there is nothing now, `OutOfMemory` if there is no memory.
    pub(in crate::devices) fn receive(
        &mut self,
        socket: &Socket,
        stream: bool,
        now_ns: u64,
    ) -> io::Result<(Packet, Option<SockAddr>)> {
        // TCP would throw away what is asked for with this flag.
        let whole_length = if stream { MsgFlags::empty() } else { MsgFlags::MSG_TRUNC };
        let memory = || Packet::alloc(self.buffers.headroom, self.buffers.snaplen);
        let mut packet = self.next.take().or_else(memory).ok_or(io::ErrorKind::OutOfMemory)?;
        let received = again(|| {
            let mut data = [IoSliceMut::new(packet.data_mut())];
            let message = recvmsg::<SockaddrStorage>(
                socket.as_raw_fd(),
                &mut data,
                None,
                whole_length | MsgFlags::MSG_DONTWAIT,
            )?;
            Ok((message.bytes, message.address))
        });
        let (length, from) = match received {
            Ok(received) => received,
            Err(e) => {
                self.next = Some(packet);
                return Err(e);
            }
        };
        match length.checked_sub(packet.len()) {
            Some(extra) => packet.set_extra_length(u32::try_from(extra).unwrap_or(u32::MAX)),
            None => {
                packet.take(packet.len() - length);
            }
        }
        if self.buffers.timestamp {
            packet.set_timestamp_ns(now_ns);
        }
        Ok((packet, from.as_ref().and_then(sender)))
    }
}

/// What has become of a packet that was given to a socket.
pub(in crate::devices) enum Sent {
    /// It is sent.
    Done,
    /// The socket takes no more now.
    Later,
    /// It can never be sent.
    Refused(io::Error),
    /// Nothing more can be sent.
    Lost(io::Error),
}

impl Sent {
    /// What an error means where each packet is sent on its own.
    pub(in crate::devices) fn failed(e: io::Error) -> Self {
        match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EAGAIN | Errno::ENOBUFS) => Self::Later,
            _ => Self::Refused(e),
        }
    }
}

/// Lets the task sleep until there is something to receive, if there is an output for it, or the socket takes
/// what waits.
pub(in crate::devices) fn sleep(cx: &mut Cx<'_>, read: RawFd, (writable, waiting): (&Writable, &Waiting)) {
    match (cx.n_outputs() > 0, waiting.is_empty()) {
        (true, true) => cx.idle_until_readable(&[read]),
        (true, false) => cx.idle_until_readable(&[read, writable.fd()]),
        (false, true) => cx.idle_until_readable(&[]),
        (false, false) => cx.idle_until_readable(&[writable.fd()]),
    }
}

/// What any packet may cause is logged once a second; drops are counted all the same.
#[derive(Default)]
pub(in crate::devices) struct Seldom(Option<u64>);

impl Seldom {
    pub(in crate::devices) fn log(&mut self, cx: &Cx<'_>, text: impl FnOnce() -> String) {
        let now = cx.now_ns();
        if self.0.is_none_or(|last| now.saturating_sub(last) >= 1_000_000_000) {
            self.0 = Some(now);
            cx.log(Level::WARN, &text());
        }
    }
}

/// Packets that wait until a socket takes them, at most [`ROOM`].
#[derive(Default)]
pub(in crate::devices) struct Waiting {
    packets: VecDeque<Packet>,
    said: Seldom,
}

impl Waiting {
    pub(in crate::devices) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Sends the packets that wait; the next ones are sent by [`Waiting::offer`]. Returns how many have left.
    ///
    /// # Errors
    /// That of [`Sent::Lost`]; all that waited are dropped then.
    pub(in crate::devices) fn flush(
        &mut self,
        cx: &mut Cx<'_>,
        mut send: impl FnMut(&mut Packet) -> Sent,
    ) -> io::Result<usize> {
        let mut moved = 0;
        while let Some(mut packet) = self.packets.pop_front() {
            match send(&mut packet) {
                Sent::Done => {}
                Sent::Later => {
                    self.packets.push_front(packet);
                    break;
                }
                Sent::Refused(e) => self.refuse(packet, &e, cx),
                Sent::Lost(e) => {
                    cx.drop(packet, REFUSED);
                    self.clear(REFUSED, cx);
                    return Err(e);
                }
            }
            moved += 1;
        }
        Ok(moved)
    }

    /// Sends packets after those that wait.
    ///
    /// # Errors
    /// That of [`Sent::Lost`]; all packets are dropped then.
    pub(in crate::devices) fn offer(
        &mut self,
        mut batch: Batch,
        cx: &mut Cx<'_>,
        mut send: impl FnMut(&mut Packet) -> Sent,
    ) -> io::Result<()> {
        let mut lost = self.flush(cx, &mut send).err();
        for mut packet in batch.drain(..) {
            if lost.is_some() {
                cx.drop(packet, REFUSED);
                continue;
            }
            let sent = if self.packets.is_empty() { send(&mut packet) } else { Sent::Later };
            match sent {
                Sent::Done => drop(packet),
                Sent::Later if self.packets.len() < ROOM => self.packets.push_back(packet),
                Sent::Later => cx.drop(packet, QUEUE_FULL),
                Sent::Refused(e) => self.refuse(packet, &e, cx),
                Sent::Lost(e) => {
                    cx.drop(packet, REFUSED);
                    lost = Some(e);
                }
            }
        }
        cx.recycle(batch);
        if !self.packets.is_empty() {
            cx.reschedule_here();
        }
        lost.map_or(Ok(()), Err)
    }

    /// Drops what waits.
    pub(in crate::devices) fn clear(&mut self, why: DropReason, cx: &mut Cx<'_>) {
        for packet in self.packets.drain(..) {
            cx.drop(packet, why);
        }
    }

    fn refuse(&mut self, packet: Packet, e: &io::Error, cx: &mut Cx<'_>) {
        self.said.log(cx, || format!("{} :: {}: {}", cx.name(), cx.class(), reason(e)));
        cx.drop(packet, REFUSED);
    }

    pub(in crate::devices) fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(self, old);
    }
}
