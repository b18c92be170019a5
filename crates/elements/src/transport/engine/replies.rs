//! The replies to pings: counts and round-trip times.

use runtime::Hub;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The state of a ping.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::transport) enum PingState {
    NeverSent,
    InFlight,
    Answered,
    /// More than once.
    Repeated,
}

/// A ping.
#[derive(Clone, Copy)]
pub(in crate::transport) struct Sent {
    pub(in crate::transport) at_ns: u64,
    pub(in crate::transport) to: Ipv4Addr,
    pub(in crate::transport) fate: PingState,
}

pub(in crate::transport) const NEVER: Sent =
    Sent { at_ns: 0, to: Ipv4Addr::UNSPECIFIED, fate: PingState::NeverSent };

/// The replies to pings, and the statistics of the path.
pub(in crate::transport) struct Replies {
    /// The last ping with each sequence number.
    pub(in crate::transport) sent: Vec<Sent>,
    pub(in crate::transport) received: u64,
    pub(in crate::transport) duplicates: u64,
    pub(in crate::transport) min_us: u64,
    pub(in crate::transport) max_us: u64,
    pub(in crate::transport) sum_us: u64,
    pub(in crate::transport) sum_squares: u128,
    /// Where the summary is printed at the end.
    pub(in crate::transport) hub: Arc<Hub>,
    pub(in crate::transport) declaration: String,
    pub(in crate::transport) verbose: bool,
    /// A copy at the last change, for the summary at the end.
    pub(in crate::transport) count: u64,
}

impl Replies {
    /// For the pings of the element `declaration`, of which `count` have been sent.
    pub(in crate::transport) fn new(hub: Arc<Hub>, declaration: String, verbose: bool, count: u64) -> Self {
        Self {
            sent: vec![NEVER; 1 << 16],
            received: 0,
            duplicates: 0,
            min_us: 0,
            max_us: 0,
            sum_us: 0,
            sum_squares: 0,
            hub,
            declaration,
            verbose,
            count,
        }
    }
    pub(in crate::transport) fn reset(&mut self) {
        self.sent.fill(NEVER);
        (self.received, self.duplicates, self.count) = (0, 0, 0);
        (self.min_us, self.max_us, self.sum_us, self.sum_squares) = (0, 0, 0, 0);
    }
    pub(in crate::transport) fn note_sent(&mut self, seq: u16, to: Ipv4Addr, now_ns: u64, count: u64) {
        if let Some(sent) = self.sent.get_mut(usize::from(seq)) {
            *sent = Sent { at_ns: now_ns, to, fate: PingState::InFlight };
        }
        self.count = count;
    }
    /// Returns the round-trip time of a reply in microseconds, and the previous state of the ping; `None` if
    /// there was no such ping to this address.
    pub(in crate::transport) fn note_reply(
        &mut self,
        seq: u16,
        from: Ipv4Addr,
        now_ns: u64,
    ) -> Option<(u64, PingState)> {
        let sent = self.sent.get_mut(usize::from(seq))?;
        let before = sent.fate;
        if before == PingState::NeverSent || sent.to != from {
            return None;
        }
        if before == PingState::InFlight {
            sent.fate = PingState::Answered;
        } else {
            sent.fate = PingState::Repeated;
            self.duplicates += 1;
        }
        let us = now_ns.saturating_sub(sent.at_ns) / 1000;
        self.min_us = if self.received == 0 { us } else { self.min_us.min(us) };
        self.max_us = self.max_us.max(us);
        self.sum_us = self.sum_us.saturating_add(us);
        self.sum_squares = self.sum_squares.saturating_add(u128::from(us) * u128::from(us));
        self.received += 1;
        Some((us, before))
    }
    pub(in crate::transport) fn average_us(&self) -> u64 {
        self.sum_us / self.received.max(1)
    }
    /// As `ping` prints it.
    pub(in crate::transport) fn summary(&self) -> String {
        let (sent, received, duplicates) = (self.count, self.received, self.duplicates);
        let mut text =
            format!("{sent} packets transmitted, {} received", received.saturating_sub(duplicates));
        if duplicates > 0 {
            text += &format!(", +{duplicates} duplicates");
        }
        let lost = sent.saturating_sub(received.saturating_sub(duplicates));
        if let Some(percent) = (lost * 100).checked_div(sent) {
            text += &format!(", {percent}% packet loss\n");
        }
        if received > 0 {
            let average = self.average_us();
            let variance = (self.sum_squares / u128::from(received))
                .saturating_sub(u128::from(average) * u128::from(average));
            let times = [self.min_us, average, self.max_us, variance.isqrt() as u64].map(milliseconds);
            text += &format!("rtt min/avg/max/mdev = {}\n", times.join("/"));
        }
        text
    }
    /// Takes over the counts of the element's predecessor, which then prints no summary at its end.
    pub(in crate::transport) fn take(&mut self, mut old: Self) {
        old.verbose = false;
        std::mem::swap(&mut self.sent, &mut old.sent);
        (self.received, self.duplicates, self.count) = (old.received, old.duplicates, old.count);
        (self.min_us, self.max_us) = (old.min_us, old.max_us);
        (self.sum_us, self.sum_squares) = (old.sum_us, old.sum_squares);
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        if self.verbose {
            for line in self.summary().lines() {
                self.hub.chatter(&format!("{}: {line}", self.declaration));
            }
        }
    }
}

pub(in crate::transport) fn milliseconds(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// A time as handlers write it: `17us`, `0.5s`, `2s`.
pub(in crate::transport) fn microseconds(us: u64) -> String {
    match us {
        1..1000 => format!("{us}us"),
        _ if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        _ => format!("{}s", format!("{}.{:06}", us / 1_000_000, us % 1_000_000).trim_end_matches('0')),
    }
}
