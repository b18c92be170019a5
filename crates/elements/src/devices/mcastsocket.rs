//! # McastSocket
//! Sends packets to a multicast group as UDP datagrams, and receives those of others.
//!
//! Any number of programs, on any hosts of a LAN, exchange packets in this way; so do virtual machines of
//! QEMU, with `-net socket,mcast=GROUP:PORT`.
//!
//! ## Synopsis
//! `McastSocket(MCASTIP, MCASTPORT [, SOURCEIP, SOURCEPORT, SNAPLEN, HEADROOM, TIMESTAMP, RCVBUF, SNDBUF, LOOP])`
//!
//! ## Arguments
//! - `MCASTIP` (*IP address*), `MCASTPORT` (*port number*): the group and its port.
//! - `SOURCEIP` (*IP address*): this machine's address with which datagrams are sent, and by whose interface
//!   they go and come. By default the system's routes decide. Datagrams that come back are dropped with it.
//! - `SOURCEPORT` (*port number*): the port that they are sent from; by default any that is free.
//! - `LOOP` (*bool*, keyword, default true): whether programs of this machine receive what is sent, this one
//!   too if it has no `SOURCEIP`.
//! - `SNAPLEN` (*int*, keyword, default 2048): the most bytes of a packet that is received; the rest is cut
//!   off.
//! - `HEADROOM` (*int*, keyword, default 128): bytes left free before each packet.
//! - `TIMESTAMP` (*bool*, keyword, default true): sets the timestamp of packets that are received to the
//!   present time.
//! - `RCVBUF`, `SNDBUF` (*int*, keyword): how many bytes the system keeps for the sockets, at most.
//!
//! The sockets stay open over a hot swap if their element has the same name and arguments.
//!
//! ## Ports
//! One agnostic input and one push output; each may be left out. While the socket takes no more, up to 1024
//! pushed packets wait, and packets to be pulled stay where they are.
//!
//! ## Handlers
//! - `count` (read): packets received.
//! - `sent` (read): packets sent.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! link :: McastSocket(239.0.0.1, 41971, 127.0.0.1);
//! InfiniteSource(DATA hello, LIMIT 1) -> link -> Print(got) -> Discard;
//! DriverManager(wait 10ms);
//! ```
//!
//! ## See also
//! Socket, KernelTap

use super::engine::socket::{self as engine, Buffers, Receiver, Sent, Waiting, Writable, again, inet};
use crate::prelude::*;
use lang::args::UdpPort;
use runtime::reason;
use socket2::{Domain, SockAddr, Socket as System, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Debug)]
struct Settings {
    group: SocketAddrV4,
    source: SocketAddrV4,
    looped: bool,
    buffers: Buffers,
}

struct Endpoint {
    receives: System,
    sends: System,
    writable: Writable,
    /// With a source address: the sender of what this element has sent itself.
    own: Option<SocketAddrV4>,
    group: SockAddr,
}

impl Settings {
    fn open(&self) -> Result<Endpoint, String> {
        let call = |call: &'static str| move |e: io::Error| format!("{call}: {}", reason(&e));
        let new = || System::new(Domain::IPV4, Type::DGRAM, None).map_err(call("socket"));
        let (receives, sends) = (new()?, new()?);
        self.buffers.set(&sends, true, false)?;
        self.buffers.set(&receives, false, true)?;
        receives.set_reuse_address(true).map_err(call("setsockopt(SO_REUSEADDR)"))?;
        let group = SockAddr::from(self.group);
        receives.bind(&group).map_err(call("bind"))?;
        let mut own = None;
        if !self.source.ip().is_unspecified() {
            sends.bind(&inet(*self.source.ip(), self.source.port())).map_err(call("bind"))?;
            own = sends.local_addr().map_err(call("getsockname"))?.as_socket_ipv4();
            sends.set_multicast_if_v4(self.source.ip()).map_err(call("setsockopt(IP_MULTICAST_IF)"))?;
        }
        let joined = receives.join_multicast_v4(self.group.ip(), self.source.ip());
        joined.map_err(call("setsockopt(IP_ADD_MEMBERSHIP)"))?;
        sends.set_multicast_loop_v4(self.looped).map_err(call("setsockopt(IP_MULTICAST_LOOP)"))?;
        for socket in [&receives, &sends] {
            socket.set_nonblocking(true).map_err(call("socket"))?;
        }
        let writable = Writable::of(&sends).map_err(call("socket"))?;
        Ok(Endpoint { receives, sends, writable, own, group })
    }
}

/// The `McastSocket` element.
pub struct McastSocket {
    end: Arc<OnceLock<Arc<Endpoint>>>,
    receiver: Receiver,
    waiting: Waiting,
    count: Counter,
    sent: Counter,
}

impl Element for McastSocket {
    const CLASS: &'static str = "McastSocket";
    const PORTS: &'static str = "0-1/0-1";
    const PROCESSING: &'static str = "a/h";
    const FLOW: &'static str = "x/y";
    const READS: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &engine::DROPS;
    const OPENS: Option<Opens> = Some(Opens::Socket);
    const MANUAL: &'static str = manual!("devices/mcastsocket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (group, UdpPort(port)) = (args.mp("MCASTIP")?, args.mp("MCASTPORT")?);
        let source = args.p("SOURCEIP")?.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let from = args.p::<UdpPort>("SOURCEPORT")?.map_or(0, |p| p.0);
        let buffers = Buffers::read_all(args)?;
        let looped = args.k_or("LOOP", true)?;
        cx.permits(Outside::Namespace(None), args)?;
        let (group, source) = (SocketAddrV4::new(group, port), SocketAddrV4::new(source, from));
        let settings = Settings { group, source, looped, buffers: buffers.clone() };
        let end = Arc::<OnceLock<Arc<Endpoint>>>::default();
        let (place, hub) = (Arc::clone(&end), Arc::clone(cx.hub()));
        let key = format!("multicast socket {} {settings:?}", cx.name());
        cx.before_start(move || {
            // Set once, here.
            let _ = place.set(hub.resource(&key, || settings.open())?);
            Ok(())
        });
        let (count, sent) = (Counter::new(), Counter::new());
        Ok(Self { end, receiver: Receiver::new(buffers), waiting: Waiting::default(), count, sent })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.counter("sent", |e| &e.sent);
        h.task();
        h.listed(&["scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(end) = self.end.get().cloned() else { return false };
        cx.reschedule();
        let mut moved = cx.n_outputs() > 0 && self.receive(&end, cx);
        let pulls = cx.n_inputs() > 0 && cx.input_is_pull(0);
        let mut batch = cx.spare_batch();
        if pulls && self.waiting.is_empty() {
            moved |= cx.pull_lending(self, 0, cx.batch_size(), &mut batch) > 0;
        }
        if self.waiting.is_empty() && batch.is_empty() {
            cx.recycle(batch);
        } else {
            let before = self.sent.get();
            self.send(&end, batch, cx);
            moved |= self.sent.get() > before;
        }
        let more = pulls && self.waiting.is_empty() && cx.upstream_active(0);
        if !moved && !more {
            engine::sleep(cx, end.receives.as_raw_fd(), (&end.writable, &self.waiting));
        }
        moved
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.sent.set(old.sent.get());
        self.waiting.take_over(&mut old.waiting);
    }
}

impl McastSocket {
    fn receive(&mut self, end: &Endpoint, cx: &mut Cx<'_>) -> bool {
        let (mut batch, mut received) = (cx.spare_batch(), 0);
        // Those of this element are counted too, so that they do not keep the task from others.
        while received < cx.batch_size() {
            match self.receiver.receive(&end.receives, false, cx.now_ns()) {
                Ok((packet, from)) => {
                    received += 1;
                    let from = from.and_then(|from| from.as_socket_ipv4());
                    if end.own.is_none() || from != end.own {
                        batch.push(packet);
                    }
                }
                Err(e) => {
                    if !matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory) {
                        cx.log(Level::WARN, &format!("{} :: McastSocket: {}", cx.name(), reason(&e)));
                    }
                    break;
                }
            }
        }
        self.count.add(batch.len() as u64);
        cx.output_batch(0, batch);
        received > 0
    }

    fn send(&mut self, end: &Endpoint, batch: Batch, cx: &mut Cx<'_>) {
        let sent = &self.sent;
        let done = self.waiting.offer(batch, cx, |packet| {
            match again(|| end.sends.send_to(packet.data(), &end.group)) {
                Ok(_) => {
                    sent.add(1);
                    Sent::Done
                }
                Err(e) => Sent::failed(e),
            }
        });
        debug_assert!(done.is_ok(), "each packet is sent on its own");
    }
}

impl Vector for McastSocket {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        match self.end.get().cloned() {
            Some(end) => self.send(&end, batch, cx),
            None => cx.drop_batch(batch, engine::NOT_OPEN),
        }
    }
}
