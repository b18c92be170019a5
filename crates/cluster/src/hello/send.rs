//! Frames for a neighbor: the header of the next one, and the contents of a hello.

use super::body::Body;
use super::longest::Search;
use super::reason::Reason;
use super::{Neighbor, stamp};
use crate::frame::{FrameKind, Header};
use crate::routes::Summary;

impl Neighbor {
    /// The header of the next frame.
    pub(crate) fn header(&mut self, kind: FrameKind) -> Header {
        self.sequence += 1;
        self.counts.sent += 1;
        Header {
            kind,
            from: self.me,
            to: self.peer,
            nonce: self.nonce,
            echo: self.session.as_ref().map_or(self.candidate, |s| s.nonce),
            sequence: self.sequence,
        }
    }

    /// The contents of the hello that is due, and its minimum length.
    pub(crate) fn next_hello(&mut self, now_ns: u64, routes: Summary) -> (Body, u16) {
        self.due_ns = now_ns.saturating_add(self.settings.hello_ns);
        self.urgent = false;
        let (session, longest) = (self.session.as_ref(), self.settings.frame_bytes);
        let length = match session.map(|s| s.body.largest) {
            None => 0,
            Some(largest) if largest >= longest => {
                self.search = None;
                if now_ns.saturating_sub(self.probed_ns) >= self.settings.probe_ns() { longest } else { 0 }
            }
            // While it is not known that long frames arrive, every other hello is short, so that it arrives
            // in any case.
            Some(_) if !self.probe_next => 0,
            Some(largest) if matches!(self.reason, Some(Reason::Mtu { .. })) => {
                let answer_ns = self.rtt_ns.unwrap_or(0).saturating_add(4 * self.settings.hello_ns);
                let search = self.search.get_or_insert(Search::new(longest));
                search.next(self.ran, largest, longest, answer_ns)
            }
            Some(_) => longest,
        };
        self.probe_next = !self.probe_next;
        if length >= longest {
            self.probed_ns = now_ns;
        }
        let body = Body {
            hears: session.is_some(),
            ready: self.ready,
            nodes: self.nodes,
            largest: session.map_or(0, |s| s.lengths.longest()),
            probe_us: (self.settings.probe_ns() / 1000) as u32,
            digest: self.settings.digest,
            routes,
            stamp: stamp(self.ran),
            echo_stamp: session.map_or(0, |s| s.body.stamp),
            held_ns: session.map_or(0, |s| now_ns.saturating_sub(s.stamp_at_ns)),
        };
        (body, length)
    }
}
