//! # RawSocket
//! Sends IP packets of a protocol by this machine's network stack, and receives what comes for it.
//!
//! Every packet of the protocol that reaches the machine comes out, with its IP header, in addition to being
//! processed by the kernel. Packets that are sent must have an IP header; the kernel routes them by their
//! destination, and fills in what is zero: source, identification, and always checksum and length.
//!
//! ## Synopsis
//! `RawSocket(TYPE [, PORT, SNAPLEN, HEADROOM])`
//!
//! ## Arguments
//! - `TYPE` (*IP protocol*): the protocol, such as `UDP`, `ICMP`, or its number.
//! - `PORT` (*port number*): of TCP or UDP: no other program of this machine can bind this port meanwhile, so
//!   that the kernel does not answer datagrams to it with errors. Packets to all ports come out. Ignored with
//!   other protocols.
//! - `SNAPLEN` (*int*, keyword, default 2048): the most bytes of a packet that is received; the rest is cut
//!   off.
//! - `HEADROOM` (*int*, keyword, default 128): bytes left free before each packet.
//!
//! It takes the capability CAP_NET_RAW. The socket stays open over a hot swap if its element has the same
//! name and arguments.
//!
//! ## Ports
//! One pull input and one push output; each may be left out. While the socket takes no more, packets stay
//! where they are.
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
//! RawSocket(UDP, 7777) -> IPPrint -> Discard;
//! DriverManager(wait 10ms);
//! ```
//!
//! ## See also
//! Socket, KernelTun

use super::engine::host::mark;
use super::engine::socket::{
    self as engine, Buffers, Receiver, Seldom, Sent, Waiting, Writable, again, inet,
};
use crate::prelude::*;
use lang::args::{FromArg, IpProto, TcpPort, UdpPort};
use runtime::reason;
use socket2::{Domain, Protocol, Socket as System, Type};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use wire::{Ipv4, protocol};

const RUNT: DropReason = DropReason::new("runt IP packet");
const NOT_IP: DropReason = DropReason::new("not IP");
/// An IP header without options.
const SHORTEST: usize = 20;

struct Endpoint {
    socket: System,
    writable: Writable,
    /// Keeps the port from others.
    _port: Option<System>,
}

fn open(kind: u8, port: u16) -> Result<Endpoint, String> {
    let call = |call: &'static str| move |e: io::Error| format!("{call}: {}", reason(&e));
    let socket = System::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(kind))));
    let socket = socket.map_err(call("socket"))?;
    let of_port = match kind {
        protocol::TCP => Some(Type::STREAM),
        protocol::UDP => Some(Type::DGRAM),
        _ => None,
    };
    let mut held = None;
    if let Some(of_port) = of_port.filter(|_| port != 0) {
        let holder = System::new(Domain::IPV4, of_port, None).map_err(call("socket"))?;
        let bound = holder.bind(&inet(Ipv4Addr::UNSPECIFIED, port));
        bound.map_err(call("Bind for planetlab port registration failed"))?;
        held = Some(holder);
    }
    socket.set_nonblocking(true).map_err(call("socket"))?;
    socket.set_header_included_v4(true).map_err(call("IP_HDRINCL"))?;
    socket.set_broadcast(true).map_err(call("SO_BROADCAST"))?;
    let writable = Writable::of(&socket).map_err(call("socket"))?;
    Ok(Endpoint { socket, writable, _port: held })
}

fn send(socket: &System, packet: &Packet) -> Sent {
    let Some(header) = Ipv4::new(packet.data()) else {
        return Sent::Refused(io::ErrorKind::InvalidInput.into());
    };
    match again(|| socket.send_to(packet.data(), &inet(Ipv4Addr::from(header.dst().octets()), 0))) {
        Ok(_) => Sent::Done,
        Err(e) => Sent::failed(e),
    }
}

/// The `RawSocket` element.
pub struct RawSocket {
    end: Arc<OnceLock<Arc<Endpoint>>>,
    receiver: Receiver,
    waiting: Waiting,
    said: Seldom,
    count: Counter,
    sent: Counter,
}

impl Element for RawSocket {
    const CLASS: &'static str = "RawSocket";
    const PORTS: &'static str = "0-1/0-1";
    const PROCESSING: &'static str = "l/h";
    const FLOW: &'static str = "x/y";
    const READS: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        engine::DROPS[0],
        engine::DROPS[1],
        RUNT.when("a packet to be sent is shorter than an IP header"),
        NOT_IP.when("a packet that was received, or is to be sent, has no whole IP header"),
    ];
    const OPENS: Option<Opens> = Some(Opens::Socket);
    const MANUAL: &'static str = manual!("devices/rawsocket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        // Click's manual has them in upper case.
        let kind = args
            .with("TYPE", true, true, |text, names| IpProto::from_arg(&text.to_ascii_lowercase(), names))?;
        let IpProto(kind) = kind.unwrap_or(IpProto(0));
        let port = match kind {
            protocol::TCP => args.p::<TcpPort>("PORT")?.map(|p| p.0),
            protocol::UDP => args.p::<UdpPort>("PORT")?.map(|p| p.0),
            _ => args.p::<u16>("PORT")?,
        };
        let buffers = Buffers::read(args)?;
        cx.permits(Outside::Namespace(None), args)?;
        let end = Arc::<OnceLock<Arc<Endpoint>>>::default();
        let (place, hub) = (Arc::clone(&end), Arc::clone(cx.hub()));
        let key = format!("raw socket {} {kind} {port:?}", cx.name());
        cx.before_start(move || {
            // Set once, here.
            let _ = place.set(hub.resource(&key, || open(kind, port.unwrap_or(0)))?);
            Ok(())
        });
        let (count, sent) = (Counter::new(), Counter::new());
        Ok(Self {
            end,
            receiver: Receiver::new(buffers),
            waiting: Waiting::default(),
            said: Seldom::default(),
            count,
            sent,
        })
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
        let mut batch = cx.spare_batch();
        if self.waiting.is_empty() {
            moved |= cx.pull_lending(self, 0, cx.batch_size(), &mut batch) > 0;
        }
        if self.waiting.is_empty() && batch.is_empty() {
            cx.recycle(batch);
        } else {
            let before = self.sent.get();
            self.send(&end, batch, cx);
            moved |= self.sent.get() > before;
        }
        let pulls = cx.n_inputs() > 0 && self.waiting.is_empty();
        let more = pulls && cx.upstream_active(0);
        if !moved && !more {
            engine::sleep(cx, end.socket.as_raw_fd(), (&end.writable, &self.waiting));
        }
        moved
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.sent.set(old.sent.get());
        self.waiting.take_over(&mut old.waiting);
    }
}

impl RawSocket {
    fn receive(&mut self, end: &Endpoint, cx: &mut Cx<'_>) -> bool {
        let (mut batch, mut any) = (cx.spare_batch(), false);
        for _ in 0..cx.batch_size() {
            let mut packet = match self.receiver.receive(&end.socket, false, cx.now_ns()) {
                Ok((packet, _)) => packet,
                Err(e) => {
                    if !matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory) {
                        cx.log(Level::WARN, &format!("recv: {}", reason(&e)));
                    }
                    break;
                }
            };
            any = true;
            if mark(&mut packet) {
                batch.push(packet);
            } else {
                cx.drop(packet, NOT_IP);
            }
        }
        self.count.add(batch.len() as u64);
        cx.output_batch(0, batch);
        any
    }

    fn send(&mut self, end: &Endpoint, mut batch: Batch, cx: &mut Cx<'_>) {
        batch.filter_map_in_place(|packet| {
            if packet.len() < SHORTEST {
                self.said.log(cx, || format!("runt IP packet ({} bytes)", packet.len()));
                cx.drop(packet, RUNT);
                return None;
            }
            if Ipv4::new(packet.data()).is_none() {
                cx.drop(packet, NOT_IP);
                return None;
            }
            Some(packet)
        });
        let sent = &self.sent;
        let done = self.waiting.offer(batch, cx, |packet| {
            let done = send(&end.socket, packet);
            sent.add(u64::from(matches!(done, Sent::Done)));
            done
        });
        debug_assert!(done.is_ok(), "each packet is sent on its own");
    }
}

impl Vector for RawSocket {}
