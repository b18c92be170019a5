//! Received frames of a neighbor: which of them are accepted, and what a hello changes.

use super::body::Body;
use super::budget::{OTHER_TAGS, TAGS};
use super::longest::Lengths;
use super::reason::Reason;
use super::window::Window;
use super::{Neighbor, SESSIONS, Session, stamp};
use crate::frame::{FrameKind, Header, MarkedFrame, Refused};

/// How often at most a neighbor sends the longest frame.
const PROBE_MAX_NS: u64 = 20_000_000_000;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is accepted.
    Yes {
        /// No later one has come before it.
        latest: bool,
    },
    No,
}

impl Neighbor {
    /// A frame that is not authenticated. There may be millions of them: the state of the link is updated
    /// later, with the next tick.
    pub(crate) fn refused(&mut self, now_ns: u64, why: Refused) {
        self.pass(now_ns);
        match why {
            Refused::Foreign(claims) => {
                self.counts.foreign += 1;
                self.sign(Reason::Foreign(claims));
            }
            Refused::Version(version) => {
                self.counts.malformed += 1;
                self.sign(Reason::Version(self.peer, version));
            }
            Refused::Malformed => self.counts.malformed += 1,
        }
    }

    /// Whether the sequence number in a header was used, as far as is remembered.
    fn is_used(&self, header: &Header) -> bool {
        if let Some((_, window)) = self.seen.iter().find(|(nonce, _)| *nonce == header.nonce) {
            // A frame that echoes another session of this end is older than those that have echoed the
            // current one.
            return window.has(header.sequence)
                || (header.echo != self.nonce && header.sequence <= window.latest);
        }
        self.past.iter().any(|(nonce, highest)| *nonce == header.nonce && header.sequence <= *highest)
    }

    fn is_mine(&self, header: &Header) -> bool {
        (header.from, header.to) == (self.peer, self.me)
    }

    /// Whether a frame with this header, whose short code is valid, has arrived before.
    pub(crate) fn is_repeated(&mut self, now_ns: u64, header: &Header) -> bool {
        self.pass(now_ns);
        let repeated = self.is_mine(header) && self.is_used(header);
        self.counts.stale += u64::from(repeated);
        repeated
    }

    /// Whether the full code of a frame, whose short codes are valid, is to be checked.
    pub(crate) fn may_open(&mut self, now_ns: u64, frame: &MarkedFrame<'_>) -> bool {
        let header = &frame.header;
        let present = self.session.as_ref().is_none_or(|s| s.nonce == header.nonce || !s.proven);
        let taken = if self.is_mine(header) && header.echo == self.nonce && present {
            // It is already known that the frame was made with the key, unless it is long.
            frame.is_covered() || self.budget.take(now_ns, frame.bytes(), TAGS, &self.settings)
        } else {
            self.other_budget.take(now_ns, frame.bytes(), OTHER_TAGS, &self.settings)
        };
        *(if taken { &mut self.counts.opened } else { &mut self.counts.ignored }) += 1;
        taken
    }

    /// Receives an authenticated frame; returns whether it counts.
    pub(crate) fn admit(&mut self, now_ns: u64, header: &Header, bytes: u16) -> Admission {
        let admitted = self.admit_now(now_ns, header, bytes);
        if admitted == Admission::No {
            self.judge(now_ns);
        }
        admitted
    }

    fn admit_now(&mut self, now_ns: u64, header: &Header, bytes: u16) -> Admission {
        if header.from == self.me {
            self.counts.misdirected += 1;
            let own = header.nonce == self.nonce;
            self.sign(if own { Reason::Loop } else { Reason::DuplicateOfThisNode(self.me) });
            return Admission::No;
        }
        if header.from != self.peer || header.to != self.me {
            self.counts.misdirected += 1;
            let (wanted, heard, meant) = (self.peer, header.from, header.to);
            self.sign(if heard == wanted {
                Reason::WrongLink { heard, meant }
            } else {
                Reason::WrongNode { wanted, heard, meant }
            });
            return Admission::No;
        }
        if header.echo != self.nonce {
            self.counts.stale += 1;
            if self.session.is_none() {
                if self.candidate != header.nonce {
                    self.candidate = header.nonce;
                    self.urgent = true;
                }
                let since = self.unanswered.map_or(self.ran, |(_, since)| since);
                self.unanswered = Some((self.ran, since));
            }
            return Admission::No;
        }
        let window = match self.seen.iter().position(|(nonce, _)| *nonce == header.nonce) {
            Some(at) => self.seen.get_mut(at),
            None if self.seen.len() < SESSIONS => {
                self.seen.push((header.nonce, Window::default()));
                self.seen.last_mut()
            }
            None => None,
        };
        if !window.is_some_and(|(_, w)| w.take(header.sequence)) {
            self.counts.stale += 1;
            return Admission::No;
        }
        let ran = self.ran;
        match self.session.as_mut() {
            Some(session) if session.nonce == header.nonce => {}
            Some(session) if session.proven => {
                // It has restarted, and is accepted when its earlier session is dead; or there are two nodes
                // with this number.
                let (since, heard) = *session.rival.get_or_insert((ran, self.counts.heard));
                let together =
                    ran.saturating_sub(since) > 3 * self.settings.dead_ns && self.counts.heard > heard + 2;
                self.counts.stale += 1;
                if together {
                    self.sign(Reason::DuplicatePeer(self.peer));
                }
                return Admission::No;
            }
            _ if header.kind != FrameKind::Hello => {
                self.counts.stale += 1;
                return Admission::No;
            }
            place => {
                self.counts.sessions += 1;
                let session = Session {
                    nonce: header.nonce,
                    heard: ran,
                    since: ran,
                    proven: false,
                    good: 0,
                    highest: 0,
                    body: Body::default(),
                    stamp_at_ns: now_ns,
                    agreed: false,
                    differs_ns: None,
                    lengths: Lengths::new(ran),
                    rival: None,
                };
                match place {
                    Some(old) => *old = session,
                    None => self.session = Some(session),
                }
            }
        }
        let Some(session) = self.session.as_mut() else { return Admission::No };
        self.counts.heard += 1;
        self.unanswered = None;
        let probe_ns = match session.body.probe_us {
            0 => self.settings.probe_ns(),
            us => (u64::from(us) * 1000).min(PROBE_MAX_NS),
        };
        session.lengths.add(ran, bytes, 2 * probe_ns);
        let latest = header.sequence > session.highest || session.highest == 0;
        session.highest = session.highest.max(header.sequence);
        Admission::Yes { latest }
    }

    /// Handles a hello that is accepted, unless it is too late.
    pub(crate) fn take_hello(&mut self, now_ns: u64, body: Body, latest: bool) {
        let (ran, fresh_ns) = (self.ran, self.settings.fresh_ns());
        let Some(session) = self.session.as_mut() else { return };
        if body.echo_stamp != 0 {
            // The echo of this end's own time: nobody can have made the frame before that time, nor long
            // after it.
            if stamp(ran).checked_sub(body.echo_stamp).is_none_or(|age| age > fresh_ns) {
                self.counts.stale += 1;
                return self.judge(now_ns);
            }
            session.proven = true;
        } else if !latest {
            return self.judge(now_ns);
        }
        session.heard = ran;
        session.good = session.good.saturating_add(1);
        if latest {
            (session.body, session.stamp_at_ns) = (body, now_ns);
            if body.echo_stamp != 0
                && let Some(rtt) =
                    stamp(ran).checked_sub(body.echo_stamp).and_then(|t| t.checked_sub(body.held_ns))
            {
                self.rtt_ns =
                    Some(self.rtt_ns.map_or(rtt, |old| (old.saturating_mul(7).saturating_add(rtt)) / 8));
            }
        }
        self.judge(now_ns);
    }
}
