//! # FTPPortMapper
//! Lets FTP clients behind an IPRewriter be reached by servers: rewrites `PORT` commands.
//!
//! ## Synopsis
//! `FTPPortMapper(CONTROL_REWRITER, DATA_REWRITER, DATA_REWRITER_INPUT)`
//!
//! ## Arguments
//! - `CONTROL_REWRITER` (*element*): the TCPRewriter or IPRewriter through which the control connections go.
//!   It must be downstream of this element.
//! - `DATA_REWRITER` (*element*): the rewriter through which the data connections go: the same or another
//!   one.
//! - `DATA_REWRITER_INPUT` (*int*): the input of that whose specification makes the flows of data
//!   connections: one for packets from the client.
//!
//! In active mode an FTP client sends the server an address and a port, `PORT h1,h2,h3,h4,p1,p2` (RFC 959
//! §4.1.2), and the server connects from the port below its control port to that. This element takes packets
//! from clients to servers. For a `PORT` command on a connection that `CONTROL_REWRITER` knows, it makes the
//! flow of the data connection in `DATA_REWRITER`, or finds it there, and puts the address and port that the
//! client has outside into the command. Packets that become longer or shorter by that shift the sequence
//! numbers of the connection: `CONTROL_REWRITER` adjusts the numbers of all later packets in both directions,
//! and selective acknowledgments (RFC 2018).
//!
//! All other packets pass as they are. A command is only seen if it is the first in its packet, and whole. A
//! packet whose TCP checksum is wrong, and a fragment, pass as they are. Commands in encrypted connections
//! are not seen, nor is `EPRT` (RFC 2428). A client that names the address of another host gets a flow for
//! that, as in Click; where clients are not trusted, let `DATA_REWRITER_INPUT` be one whose pattern suits
//! their addresses alone.
//!
//! ## Ports
//! One input, one output, agnostic. The IP header must have been marked.
//!
//! ## Threads
//! Each worker does this for its packets. Of one connection up to 16 changes are remembered, of all 65,536
//! connections; a command beyond that passes as it is if its length would change. Later packets of a
//! connection whose numbers are adjusted take a lock.
//!
//! ## Example
//! ```click
//! // A client asks to be called at its port 777: 3 * 256 + 9.
//! nat :: IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1);
//! FromIPSummaryDump(/dev/null, STOP true)
//!     -> FTPPortMapper(nat, nat, 0) -> nat;
//! nat [0] -> Discard;
//! nat [1] -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, TCPRewriter, IPRewriterPatterns

use super::engine::finds::Finds;
use super::engine::headers::FlowId;
use super::engine::rewriter::{Hit, SharedRewriter, View};
use super::engine::translator::time;
use crate::prelude::*;
use crate::transport::engine::datagram::Datagram;
use lang::args::Word;
use runtime::{ElementId, Side};
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::{protocol, tcp};

/// The longest address and port in a command: six numbers of three digits.
const LONGEST: usize = 6 * 4;

/// The `FTPPortMapper` element.
pub struct FTPPortMapper {
    control: View,
    data: View,
    input: usize,
}

/// A rewriter by its name, if it suits.
fn rewriter(
    args: &mut Args<'_>,
    cx: &ConfigCx<'_>,
    argument: &str,
    suits: impl Fn(Finds) -> Option<&'static str>,
) -> Result<(ElementId, Arc<SharedRewriter>), ArgError> {
    let Word(name) = args.mp(argument)?;
    let id = cx.find(&name).ok_or_else(|| args.error(format!("no element named '{name}'")))?;
    let shared = cx.shared_by::<SharedRewriter>(id);
    let wrong = match &shared {
        None => Some("IPRewriterBase"),
        Some(shared) => suits(shared.translator.finds()),
    };
    match (wrong, shared) {
        (None, Some(shared)) => Ok((id, shared)),
        (wrong, _) => {
            let class = wrong.unwrap_or("IPRewriterBase");
            Err(args.error(format!("{argument} type mismatch, expected {class}")))
        }
    }
}

impl Element for FTPPortMapper {
    const CLASS: &'static str = "FTPPortMapper";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Last;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] =
        &[drops::OUT_OF_MEMORY.when("there was no buffer for a command that became longer")];
    const MANUAL: &'static str = manual!("nat/ftpportmapper");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let tcp = |finds| (!matches!(finds, Finds::Both | Finds::Tcp)).then_some("TCPRewriter");
        let (control_id, control) = rewriter(args, cx, "CONTROL_REWRITER", tcp)?;
        let (_, data) = rewriter(args, cx, "DATA_REWRITER", |_| None)?;
        let input = args.mp::<usize>("DATA_REWRITER_INPUT")?;
        if input >= data.inputs {
            return Err(args.error("DATA_REWRITER_INPUT out of range"));
        }
        if cx.nearest(Side::Downstream, 0, |id| id == control_id).is_empty() {
            let (name, class) = (cx.name_of(control_id).to_owned(), cx.class_of(control_id).name);
            cx.warn(format!("control packet rewriter '{name} :: {class}' is not downstream"));
        }
        Ok(Self { control: View::of(control), data: View::of(data), input })
    }
}

/// A `PORT` command at the beginning of a packet's data.
struct Command {
    /// Where in the data its argument begins, and how long that is.
    begin: usize,
    length: usize,
    address: Ipv4Addr,
    port: u16,
}

impl Command {
    fn of(data: &[u8]) -> Option<Self> {
        let rest =
            data.get(4..).filter(|_| data.get(..4).is_some_and(|w| w.eq_ignore_ascii_case(b"PORT")))?;
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        let begin = 4 + spaces;
        let argument = data.get(begin..).filter(|_| spaces > 0)?;
        let length = argument.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b',').count();
        // The command must be whole.
        argument.get(length).filter(|end| matches!(end, b'\r' | b'\n'))?;
        let mut numbers = [0u8; 6];
        let mut words = argument.get(..length)?.split(|byte| *byte == b',');
        for number in &mut numbers {
            let word = words.next()?;
            // Click takes no digits as 0.
            *number = word.iter().try_fold(0u8, |n, digit| n.checked_mul(10)?.checked_add(digit - b'0'))?;
        }
        let [a, b, c, d, e, f] = numbers;
        let whole = words.next().is_none();
        whole.then_some(Self {
            begin,
            length,
            address: [a, b, c, d].into(),
            port: u16::from_be_bytes([e, f]),
        })
    }
}

/// What is known of a packet with a command.
struct Found {
    command: Command,
    control: Hit,
    data: Hit,
    /// Where in the packet's bytes the IP header, the TCP header and its data begin, and where the data ends.
    ip: usize,
    tcp: usize,
    begin: usize,
    end: usize,
}

impl FTPPortMapper {
    fn find(&self, packet: &Packet, cx: &mut Cx<'_>) -> Option<Found> {
        let d = Datagram::of(packet)?;
        if d.ip.protocol() != protocol::TCP || d.ip.flags_fragment() & 0x3fff != 0 {
            return None;
        }
        let segment = d.payload()?;
        let parsed = wire::TcpSegment::parse(segment)?;
        let command = Command::of(parsed.payload())?;
        let length = d.payload_len()?;
        if !tcp::verify(d.pseudo_sum(length), segment) {
            return None;
        }
        let h = parsed.header();
        let id = FlowId { src: d.ip.src(), sport: h.src_port(), dst: d.ip.dst(), dport: h.dst_port() };
        let control = self.control.find(protocol::TCP, id.to_tuple())?;
        let wanted = FlowId {
            src: command.address,
            sport: command.port,
            dport: id.dport.wrapping_sub(1),
            dst: id.dst,
        };
        let new = (time(cx.now_ns()), cx.random(), control.found.mark());
        let data = self.data.find_or_make(protocol::TCP, wanted, self.input, new)?;
        let ip = usize::try_from(packet.network_header_offset()?).ok()?;
        let tcp = ip + d.ip.header_len();
        let end = tcp + segment.len();
        Some(Found { command, control, data, ip, tcp, begin: end - parsed.payload().len(), end })
    }

    /// Puts another address and port into the command; `None` if there is no memory for it.
    fn rewrite(&self, mut packet: Packet, found: &Found) -> Option<Packet> {
        let Found { command, control, data, ip, tcp, begin, end } = found;
        let FlowId { src, sport, .. } = FlowId::of(data.to);
        let [a, b, c, d] = src.octets();
        let [e, f] = sport.to_be_bytes();
        let text = format!("{a},{b},{c},{d},{e},{f}");
        debug_assert!(text.len() <= LONGEST);
        let more = (text.len() as u32).wrapping_sub(command.length as u32);
        let bytes = packet.data();
        let sequence =
            bytes.get(tcp + 4..).and_then(|s| s.first_chunk()).map_or(0, |s| u32::from_be_bytes(*s));
        let total = end - ip + text.len() - command.length;
        let new_total = u16::try_from(total).ok();
        // The end of the address, wherever the packet that brings it begins and ends: it may be sent again
        // with more.
        let next = sequence.wrapping_add((command.begin + command.length) as u32);
        let Some(new_total) = new_total else { return Some(packet) };
        if more != 0 && !self.control.translator().lengthen(&control.key, &control.found, next, more) {
            return Some(packet);
        }
        // Without what is behind the IP packet.
        let excess = packet.len().saturating_sub(*end);
        packet.take(excess);
        let at = begin + command.begin;
        let rest = at + command.length;
        if text.len() > command.length {
            packet = packet.put(text.len() - command.length)?;
        }
        let bytes = packet.data_mut();
        bytes.copy_within(rest..*end, at + text.len());
        if let Some(place) = bytes.get_mut(at..at + text.len()) {
            place.copy_from_slice(text.as_bytes());
        }
        if text.len() < command.length {
            packet.take(command.length - text.len());
        }
        finish(&mut packet, *ip, *tcp, new_total);
        Some(packet)
    }
}

/// Sets the length of an IP packet and both checksums.
fn finish(packet: &mut Packet, ip: usize, tcp_at: usize, total: u16) -> Option<()> {
    let header = packet.data_mut().get_mut(ip..tcp_at)?;
    header.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
    wire::ipv4::fill_header(header);
    let length = total.checked_sub((tcp_at - ip) as u16)?;
    let sum = Datagram::of(packet)?.pseudo_sum(length);
    tcp::fill(sum, packet.data_mut().get_mut(tcp_at..)?.get_mut(..usize::from(length))?);
    Some(())
}

impl Simple for FTPPortMapper {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        self.control.refresh();
        self.data.refresh();
        let Some(found) = self.find(&packet, cx) else { return Some(packet) };
        let rewritten = self.rewrite(packet, &found);
        if rewritten.is_none() {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
        }
        rewritten
    }
}
