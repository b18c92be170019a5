//! The state of a link at one of its ends: whether each end receives the other's hellos, and if not, why.
//!
//! # Which frames count
//!
//! Each end of a link has a *session*, a random number that it puts into each of its frames together with the
//! session of the other end. A frame counts only if it is authenticated with the cluster's key
//! ([`crate::frame`]), comes from the neighbor, echoes this end's session, and has a new sequence number in
//! its session (numbers up to 64 behind the latest are accepted). Recorded frames cannot be replayed: they
//! echo a session that has ended, or repeat a number. A hello also echoes the latest timestamp of this end
//! that its sender has received, and does not count if that is old ([`Settings::fresh_ns`]): so an attacker
//! cannot hold frames back and deliver them after the neighbor has died. While hellos arrive from a neighbor,
//! frames that do not count change only counters. No clock of another node is used.
//!
//! # What a flood costs
//!
//! A frame that was not made with the key is refused by the short code of its header, and a repeated one by
//! its number. Full authentication codes are checked only for frames that may count, and only for a bounded
//! number of bytes per time (`TagBudget`). Frames of other sessions, which may start a new session, have a
//! budget of their own: to replay many of them delays the start of a session, and nothing else. The memory
//! for the neighbor's sessions is bounded.
//!
//! # When a link is up
//!
//! An end is *ready* when it has received some valid hellos, both ends have the same configuration, and the
//! other end has received a hello as long as the longest frame that the link must carry. Its hellos report
//! this to the other end; the link is up when both are ready. An end that is ready accepts packets, so no
//! packet is lost between the moments when the two ends know that the link is up.
//!
//! A neighbor is dead if no hello has arrived for [`Settings::dead_ns`]. Only time in which this node could
//! have received one counts: a pause of this node, whose processor was not available, counts only so far that
//! three hellos can still arrive afterwards ([`Settings::pause_ns`]). So a node that was stopped for a while
//! does not declare all others dead before it has read the frames that they have sent meanwhile, and one that
//! is paused again and again still notices a failure in time. A neighbor that comes and goes (flapping) must
//! send more and more hellos before it counts as alive, up to 128 times as many, until it has been stable for
//! some seconds.
//!
//! On a link that was up, mismatched configurations are tolerated for [`Settings::differ_ns`], so that nodes
//! can be reconfigured one after the other.

mod body;
mod budget;
mod longest;
mod reason;
mod receive;
mod send;
mod settings;
mod window;

pub use body::BODY_BYTES;
pub(crate) use body::Body;
pub use reason::Reason;
pub(crate) use receive::Admission;
pub use settings::Settings;

use crate::NodeId;
use crate::frame::Key;
use crate::routes::Summary;
use budget::TagBudget;
use longest::{Lengths, Search};
use window::Window;

/// For how long a sign of a fault is reported as the reason.
const SIGN_NS: u64 = 1_000_000_000;
/// Sessions of the neighbor that are remembered within one of this end.
const SESSIONS: usize = 16;
/// After how long one going and coming of a neighbor is forgotten.
const CALM_NS: u64 = 2_000_000_000;
/// How many of them are free.
const FREE_FLAPS: u32 = 4;

/// Counters of a link, in frames unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sent.
    pub sent: u64,
    /// Received and accepted.
    pub heard: u64,
    /// Made without the key.
    pub foreign: u64,
    /// Malformed, or of another version.
    pub malformed: u64,
    /// Made with the key, but repeated, held back, or of another session.
    pub stale: u64,
    /// Above the limit of checks of this node.
    pub ignored: u64,
    /// Frames whose full authentication code was checked.
    pub opened: u64,
    /// Made with the key, but from another node than the neighbor or for another one than this.
    pub misdirected: u64,
    /// How often hellos from the neighbor began again, after its start or after silence.
    pub sessions: u64,
    /// How often the link went down.
    pub downs: u64,
}

/// The session of the other end.
#[derive(Clone, Debug)]
struct Session {
    nonce: u64,
    /// When the last hello arrived, in this node's running time.
    heard: u64,
    /// When hellos began to arrive, in this node's running time.
    since: u64,
    /// Whether it has answered this end. Until it has, another session may replace it.
    proven: bool,
    good: u32,
    /// The highest sequence number whose hello was read.
    highest: u64,
    body: Body,
    /// When its timestamp arrived.
    stamp_at_ns: u64,
    /// Whether both configurations have been the same at some time.
    agreed: bool,
    /// Since when they differ.
    differs_ns: Option<u64>,
    lengths: Lengths,
    /// Another session whose frames arrive at the same time: since when, and how many frames of this session
    /// had arrived by then.
    rival: Option<(u64, u64)>,
}

/// A time in this node's running time in the form in which it is sent: 0 means none.
const fn stamp(ran: u64) -> u64 {
    ran.saturating_add(1)
}

/// One end of a link.
#[derive(Clone, Debug)]
pub struct Neighbor {
    me: NodeId,
    peer: NodeId,
    settings: Settings,
    nodes: u16,
    key: Key,
    seed: [u8; 16],
    /// How many sessions this end has begun.
    begun: u64,
    nonce: u64,
    sequence: u64,
    session: Option<Session>,
    /// A session of the neighbor that has not echoed this end's session yet.
    candidate: u64,
    /// When the last frame arrived that did not echo this end's session, and since when such frames arrive.
    unanswered: Option<(u64, u64)>,
    /// The neighbor's sessions that echoed this end's current one, and the numbers that were used in them.
    seen: Vec<(u64, Window)>,
    /// Its earlier sessions, with the highest number of each.
    past: Vec<(u64, u64)>,
    budget: TagBudget,
    other_budget: TagBudget,
    /// This node's running time, and the clock's time at the last call.
    ran: u64,
    looked_ns: u64,
    /// The last call came late: frames that the neighbor has sent meanwhile may not have been read yet.
    late: bool,
    sign: Option<(u64, Reason)>,
    ready: bool,
    up: bool,
    reason: Option<Reason>,
    flaps: u32,
    flap_ns: u64,
    due_ns: u64,
    urgent: bool,
    probed_ns: u64,
    probe_next: bool,
    search: Option<Search>,
    rtt_ns: Option<u64>,
    counts: Counts,
}

impl Neighbor {
    /// An end whose session numbers are derived from a random seed.
    pub(crate) fn new(
        me: NodeId,
        peer: NodeId,
        nodes: u16,
        settings: Settings,
        key: &Key,
        seed: [u8; 16],
        now_ns: u64,
    ) -> Self {
        Self {
            me,
            peer,
            settings,
            nodes,
            nonce: key.derive(seed, u64::from(peer.0) << 48),
            key: key.clone(),
            seed,
            begun: 0,
            sequence: 0,
            session: None,
            candidate: 0,
            unanswered: None,
            seen: Vec::with_capacity(SESSIONS),
            past: Vec::with_capacity(SESSIONS),
            budget: TagBudget::new(now_ns),
            other_budget: TagBudget::new(now_ns),
            ran: 0,
            looked_ns: now_ns,
            late: false,
            sign: None,
            ready: false,
            up: false,
            reason: Some(Reason::Silent(peer)),
            flaps: 0,
            flap_ns: now_ns,
            due_ns: now_ns,
            urgent: false,
            probed_ns: 0,
            probe_next: false,
            search: None,
            rtt_ns: None,
            counts: Counts::default(),
        }
    }

    pub(crate) fn change(&mut self, nodes: u16, settings: Settings) {
        (self.nodes, self.settings) = (nodes, settings);
        self.urgent = true;
    }

    pub(crate) fn rekey(&mut self, key: &Key) {
        self.key = key.clone();
    }

    /// Adds the time for which this node ran.
    fn pass(&mut self, now_ns: u64) {
        // If the time since the last call is longer, this node did not run, or did not check.
        let step = now_ns.saturating_sub(self.looked_ns).min(self.settings.pause_ns());
        self.ran += step;
        self.looked_ns = self.looked_ns.max(now_ns);
    }

    fn sign(&mut self, reason: Reason) {
        self.sign = Some((self.ran, reason));
    }

    /// Runs the timers. Afterwards [`Neighbor::is_up`] has the state of the link.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        // Not twice in a row, or a node that is always late would never notice a failure.
        self.late = !self.late && now_ns.saturating_sub(self.looked_ns) > self.settings.hello_ns;
        self.pass(now_ns);
        self.judge(now_ns);
    }

    fn judge(&mut self, now_ns: u64) {
        let dead_ns = self.settings.dead_ns;
        let (ran, late) = (self.ran, self.late);
        if let Some(session) = self.session.take_if(|s| !late && ran.saturating_sub(s.heard) > dead_ns) {
            // Its session is still echoed: if it receives this end's hellos, it must learn that this end does
            // not receive its own.
            self.candidate = session.nonce;
            self.urgent = true;
        }
        if self.session.is_none() && self.seen.len() >= SESSIONS / 2 {
            // A new session of this end makes frames for the old one invalid, so that little needs to be
            // remembered.
            for (nonce, window) in self.seen.drain(..) {
                self.past.retain(|(known, _)| *known != nonce);
                if self.past.len() >= SESSIONS {
                    self.past.remove(0);
                }
                self.past.push((nonce, window.latest));
            }
            self.begun = self.begun.wrapping_add(1);
            self.nonce =
                self.key.derive(self.seed, u64::from(self.peer.0) << 48 | self.begun & 0xffff_ffff_ffff);
            self.sequence = 0;
        }
        let reason = self.blocked(now_ns);
        let ready = reason.is_none();
        let body = self.session.as_ref().map(|s| s.body).unwrap_or_default();
        let up = ready && body.ready;
        self.reason = match reason {
            None if up => None,
            None => Some(Reason::Waits(self.peer)),
            some => some,
        };
        if self.up && !up {
            let calm = now_ns.saturating_sub(self.flap_ns) / CALM_NS;
            self.flaps = self.flaps.saturating_sub(calm.min(u64::from(u32::MAX)) as u32).saturating_add(1);
            self.flap_ns = now_ns;
            self.counts.downs += 1;
            if let Some(s) = self.session.as_mut() {
                s.good = 0;
            }
        }
        self.urgent |= (ready, up) != (self.ready, self.up);
        (self.ready, self.up) = (ready, up);
    }

    /// Why this end is not ready.
    fn blocked(&mut self, now_ns: u64) -> Option<Reason> {
        let peer = self.peer;
        let needed = {
            let calm = (now_ns.saturating_sub(self.flap_ns) / CALM_NS).min(u64::from(u32::MAX)) as u32;
            let flaps = self.flaps.saturating_sub(calm).saturating_sub(FREE_FLAPS).min(7);
            self.settings.good << flaps
        };
        let (ran, settings, nodes) = (self.ran, self.settings, self.nodes);
        let Some(session) = self.session.as_mut() else {
            if let Some((_, reason)) = self.sign.filter(|(at, _)| ran.saturating_sub(*at) < SIGN_NS) {
                return Some(reason);
            }
            return Some(match self.unanswered {
                Some((last, since))
                    if ran.saturating_sub(last) < settings.dead_ns
                        && ran.saturating_sub(since) > 2 * settings.dead_ns =>
                {
                    Reason::HalfOpen(peer)
                }
                _ => Reason::Silent(peer),
            });
        };
        if !session.body.hears {
            let long = ran.saturating_sub(session.since) > 2 * settings.dead_ns;
            return Some(if long { Reason::HalfOpen(peer) } else { Reason::Settling(peer) });
        }
        let short = session.body.largest < settings.frame_bytes && session.body.largest > 0;
        if short && ran.saturating_sub(session.since) > 4 * settings.dead_ns {
            let largest = self.search.and_then(|search| search.found(session.body.largest));
            return Some(Reason::Mtu { node: peer, wanted: settings.frame_bytes, largest });
        }
        if session.good == 0 || (!self.ready && session.good < needed) {
            return Some(Reason::Settling(peer));
        }
        if (session.body.digest, session.body.nodes) == (settings.digest, nodes) {
            (session.agreed, session.differs_ns) = (true, None);
        } else {
            let since = *session.differs_ns.get_or_insert(now_ns);
            if !session.agreed || now_ns.saturating_sub(since) > settings.differ_ns {
                session.agreed = false;
                return Some(Reason::Differs {
                    node: peer,
                    theirs: session.body.digest,
                    ours: settings.digest,
                });
            }
        }
        if session.body.largest < settings.frame_bytes {
            return Some(Reason::Settling(peer));
        }
        None
    }

    /// When the next hello is due.
    #[must_use]
    pub const fn due_ns(&self) -> u64 {
        // News is sent at once, but at most eight times as often as usual.
        let early = if self.urgent { self.settings.hello_ns / 8 * 7 } else { 0 };
        self.due_ns.saturating_sub(early)
    }
    /// Whether there is news, because of which the next hello is sent early.
    #[must_use]
    pub const fn is_urgent(&self) -> bool {
        self.urgent
    }
    /// There is news to send.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// The neighbor.
    #[must_use]
    pub const fn peer(&self) -> NodeId {
        self.peer
    }
    /// The settings of the link.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
    /// Whether packets can be sent to it.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.up
    }
    /// Whether packets from it are accepted.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready
    }
    /// Why it is not up, or what is wrong although it is.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        if let Some(reason) = self.reason {
            return Some(reason);
        }
        let session = self.session.as_ref()?;
        if session.differs_ns.is_some() {
            let (theirs, ours) = (session.body.digest, self.settings.digest);
            return Some(Reason::Differs { node: self.peer, theirs, ours });
        }
        self.sign.filter(|(at, _)| self.ran.saturating_sub(*at) < SIGN_NS).map(|(_, reason)| reason)
    }
    /// The smoothed round-trip time of a hello, without the time that the neighbor took to answer.
    #[must_use]
    pub const fn rtt_ns(&self) -> Option<u64> {
        self.rtt_ns
    }
    /// Its counters.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }
    /// The time since the neighbor's last hello, in this node's running time.
    #[must_use]
    pub fn quiet_ns(&self) -> Option<u64> {
        self.session.as_ref().map(|s| self.ran.saturating_sub(s.heard))
    }
    /// The digest of the neighbor's routes.
    pub(crate) fn routes(&self) -> Option<Summary> {
        self.session.as_ref().filter(|s| s.good > 0).map(|s| s.body.routes)
    }
    /// The neighbor's current session, if its hellos arrive.
    pub(crate) fn session(&self) -> Option<u64> {
        self.session.as_ref().map(|s| s.nonce)
    }
}
