//! TCP and UDP flows, numbered in the order in which they began.

use crate::ip::engine::header::header;
use crate::prelude::*;
use tables::{Displaced, ExactMap};
use wire::protocol::{ICMP, TCP, UDP};
use wire::{Ipv4, icmpv4, tcp};

/// What the packets of a flow have in common, in both directions: the two ends in the order of their
/// addresses, and of their ports if these are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::analysis) struct Key {
    pub(in crate::analysis) protocol: u8,
    pub(in crate::analysis) low: u32,
    pub(in crate::analysis) high: u32,
    pub(in crate::analysis) ports: [u16; 2],
}

/// A flow.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::analysis) struct Flow {
    pub(in crate::analysis) aggregate: u32,
    /// Whether its first packet went from the higher end to the lower.
    pub(in crate::analysis) reverse: bool,
    /// A bit for each direction in which it was closed.
    over: u8,
    pub(in crate::analysis) first_ns: u64,
    pub(in crate::analysis) last_ns: u64,
    /// The packets of each direction, and where in a file the first one was.
    pub(in crate::analysis) packets: [u32; 2],
    pub(in crate::analysis) position: u32,
}

const OVER: u8 = 3;
const SECOND: u64 = 1_000_000_000;

/// What is known of a packet that belongs to a flow.
#[derive(Clone, Copy, Debug)]
pub(in crate::analysis) struct Seen {
    /// Addresses and ports; the ports are 0 in a later fragment.
    pub(in crate::analysis) key: Key,
    /// Whether it goes, or the packet that an error quotes went, from the higher end to the lower.
    pub(in crate::analysis) flipped: bool,
    /// Whether there are ports.
    pub(in crate::analysis) first_fragment: bool,
    pub(in crate::analysis) fragment: bool,
    pub(in crate::analysis) id: u16,
    /// Whether it is an ICMP error.
    error: bool,
    /// The flags of TCP.
    flags: u8,
}

impl Seen {
    /// Reads a packet; `None` if it belongs to no flow. ICMP errors belong to that of the packet that they
    /// quote, if `errors`.
    #[inline]
    pub(in crate::analysis) fn of(packet: &Packet, errors: bool) -> Option<Self> {
        let outer = header(packet)?;
        let transport = packet.transport_header();
        let error = errors && outer.protocol() == ICMP && outer.fragment_offset() == 0;
        let (ip, behind): (Ipv4<&[u8; 20]>, &[u8]) = if error {
            let message = transport?;
            let quoted = message.get(icmpv4::HEADER_LEN..).filter(|_| icmpv4::is_error(message[0]))?;
            let inner = Ipv4::new(quoted).filter(|ip| ip.header_len() >= 20)?;
            (inner, quoted.get(inner.header_len()..)?)
        } else {
            // The header says where the ports are.
            let at = outer.header_len();
            (outer, packet.network_header().and_then(|bytes| bytes.get(at..)).unwrap_or(&[]))
        };
        let (src, dst) = (u32::from(ip.src()), u32::from(ip.dst()));
        if !matches!(ip.protocol(), TCP | UDP) || (src == 0 && dst == 0) {
            return None;
        }
        let first_fragment = ip.fragment_offset() == 0;
        let (mut ports, mut flags) = ([0; 2], 0);
        if first_fragment {
            let [a, b, c, d] = *behind.first_chunk::<4>()?;
            ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            if !error && ip.protocol() == TCP {
                flags = behind.get(13).copied().unwrap_or(0);
            }
        }
        let flipped = (src, ports[0]) > (dst, ports[1]);
        if flipped {
            ports.swap(0, 1);
        }
        let key = Key { protocol: ip.protocol(), low: src.min(dst), high: src.max(dst), ports };
        let fragment = ip.is_fragment();
        Some(Self { key, flipped, first_fragment, fragment, id: ip.id(), error, flags })
    }

    /// The pair of addresses, and the protocol.
    pub(in crate::analysis) fn pair(&self) -> (u8, u32, u32) {
        (self.key.protocol, self.key.low, self.key.high)
    }
}

/// For how long flows live without packets, in seconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::analysis) struct Timeouts {
    pub(in crate::analysis) tcp: u64,
    pub(in crate::analysis) tcp_done: u64,
    pub(in crate::analysis) udp: u64,
}

/// The flows.
pub(in crate::analysis) struct Flows {
    map: ExactMap<Key, Flow>,
    timeouts: Timeouts,
    next: u32,
}

/// Flows that have ended, while one more packet was handled.
pub(in crate::analysis) type Ended = Vec<(Key, Flow)>;

impl Flows {
    pub(in crate::analysis) fn new(capacity: usize, timeouts: Timeouts) -> Self {
        Self { map: ExactMap::new(capacity), timeouts, next: 1 }
    }

    fn timeout(&self, key: &Key, flow: &Flow) -> u64 {
        match key.protocol {
            UDP => self.timeouts.udp,
            _ if flow.over == OVER => self.timeouts.tcp_done,
            _ => self.timeouts.tcp,
        }
    }

    /// The flow of a packet with ports, and whether it is new. One whose time is over, or that was closed and
    /// is opened again, has ended.
    pub(in crate::analysis) fn find(
        &mut self,
        seen: &Seen,
        now_ns: u64,
        ended: &mut Ended,
    ) -> Option<(&mut Flow, bool)> {
        let fresh = Flow {
            aggregate: self.next,
            reverse: seen.flipped,
            first_ns: now_ns,
            last_ns: now_ns,
            ..Flow::default()
        };
        let dead = match self.map.get(&seen.key) {
            Some(flow) => {
                let age = (now_ns / SECOND).saturating_sub(flow.last_ns / SECOND);
                let reopened = flow.over == OVER && seen.flags & tcp::SYN != 0;
                (reopened || age > self.timeout(&seen.key, flow)).then_some(*flow)
            }
            None => None,
        };
        if let Some(flow) = dead {
            ended.push((seen.key, flow));
        }
        let new = dead.is_some() || self.map.get(&seen.key).is_none();
        if new {
            self.next = self.next.wrapping_add(1).max(1);
            if let Displaced::Evicted(key, flow) = self.map.insert(seen.key, fresh, now_ns) {
                ended.push((key, flow));
            }
        }
        Some((self.map.touch(&seen.key, now_ns)?, new))
    }

    /// The aggregate and the color of a packet of a flow.
    pub(in crate::analysis) fn mark(flow: &Flow, seen: &Seen) -> (u32, u8) {
        (flow.aggregate, u8::from(seen.flipped != flow.reverse) + if seen.error { 2 } else { 0 })
    }

    /// Notes that a packet of a flow with this color leaves.
    pub(in crate::analysis) fn pass(&mut self, key: &Key, seen: &Seen, color: u8, now_ns: u64) {
        let Some(flow) = self.map.get_mut(key) else { return };
        flow.last_ns = now_ns;
        let Some(packets) = flow.packets.get_mut(usize::from(color)) else { return };
        *packets = packets.wrapping_add(1);
        if seen.first_fragment && key.protocol == TCP {
            if seen.flags & tcp::RST != 0 {
                flow.over = OVER;
            } else if seen.flags & tcp::FIN != 0 {
                flow.over |= 1 << color;
            } else if seen.flags & tcp::SYN != 0 {
                flow.over = 0;
            }
        }
    }

    /// Removes the flows whose time is over, or all if there is no time; not those of address pairs that are
    /// to `stay`.
    pub(in crate::analysis) fn reap(
        &mut self,
        now_ns: Option<u64>,
        stay: impl Fn(&Key) -> bool,
        ended: &mut Ended,
    ) {
        let old = |key: &Key, flow: &Flow| {
            let second = flow.last_ns / SECOND;
            now_ns.is_none_or(|now| second + self.timeout(key, flow) < now / SECOND)
        };
        let from = ended.len();
        ended.extend(
            self.map.iter().filter(|(key, flow, _)| old(key, flow) && !stay(key)).map(|(k, f, _)| (*k, *f)),
        );
        for (key, _) in &ended[from..] {
            self.map.remove(key);
        }
    }

    /// Takes over the flows of another table.
    pub(in crate::analysis) fn take(&mut self, old: &mut Self) {
        self.next = old.next;
        while let Some((key, flow)) = old.map.pop_oldest() {
            self.map.insert(key, flow, flow.last_ns);
        }
    }
}
