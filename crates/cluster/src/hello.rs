//! What a node knows of the neighbour at the other end of a link: whether each hears the other, and if not, why.
//!
//! # How a neighbour is believed
//!
//! Each end of a link has a *session*, a random number that it puts into each of its frames, and repeats the number of the
//! other end. A frame counts only if it was sealed with the cluster's key ([`crate::frame`]), comes from the neighbour, repeats this
//! end's session, and has a sequence number that this session has not had before (late ones are taken up to 64 behind the
//! latest). Whoever records frames cannot use them again: they repeat a session that has ended, or a number that was used. A hello
//! also repeats the last time of this end that its sender has seen, and does not count if that is long ago
//! ([`Settings::fresh_ns`]): so frames that somebody held back, and that never arrived, do not stand for a neighbour that has died
//! since. While a neighbour is heard, frames that do not count change nothing but counters. No clock of another node is trusted, nor
//! asked.
//!
//! # What a flood costs
//!
//! A frame without the key is refused by the mark of its header, one with a number that was used by that; tags are looked at
//! only for what may count, and of these for a bounded number of bytes in a time (`Budget`). Frames of other sessions, which may
//! begin a new one, have a budget of their own, and whoever repeats many of them delays a beginning, no more. What is remembered of
//! the neighbour's sessions is bounded.
//!
//! # When a link is up
//!
//! An end is *ready* when it has heard some good hellos, both ends have the same configuration, and the other end has received a
//! hello as long as the longest frame that the link is to carry. It says so in its hellos; the link is up when both are ready. An
//! end that is ready takes packets, so none is lost between the moments when the two ends learn of it.
//!
//! A neighbour that has not been heard for [`Settings::dead_ns`] is dead. What counts is time in which this node could hear it: of a
//! pause in which this node did not look, because its processor was kept from it, as much as leaves room for three hellos
//! afterwards ([`Settings::pause_ns`]). So a node that was stopped for a while does not declare all others dead before it has read
//! what they have sent meanwhile, and one that is kept waiting again and again still notices a death in time. A neighbour that
//! comes and goes must be heard for longer and longer, up to 128 times as many hellos, until it has been calm for some seconds.
//!
//! A configuration that changes on a link that was up is tolerated for [`Settings::differ_ns`], so that nodes can be changed one
//! after the other.

use crate::frame::{Bytes, Header, Key};
use crate::routes::Summary;
use crate::{Error, NodeId, in_range};

/// Bytes of a hello's body without reports.
pub const BODY_BYTES: usize = 60;
/// For how long the sign of a fault is the reason that is given for it.
const SIGN_NS: u64 = 1_000_000_000;
/// How often the longest frame is tried while it is known to pass: with each fifth hello, but not more seldom than this if hellos are
/// not,
const PROBE_NS: u64 = 100_000_000;
/// and how often at most a neighbour says that it does.
const PROBE_MAX_NS: u64 = 20_000_000_000;
/// Of how many times the lengths of frames that arrived are remembered. Each is that of two long frames.
const TIMES: usize = 4;
/// How often a length is tried before it counts as too long.
const TRIES: u8 = 2;
/// Frames of the longest kind whose tags are looked at in the time of a hello, and all at once after a pause,
const TAGS: (u64, u64) = (64, 256);
/// and of those that are not of the present session.
const OTHER_TAGS: (u64, u64) = (16, 32);
/// Sessions of the neighbour that are remembered within one of this end.
const SESSIONS: usize = 16;
/// After how long one going and coming of a neighbour is forgotten.
const CALM_NS: u64 = 2_000_000_000;
/// How many of them are free.
const FREE_FLAPS: u32 = 4;

/// How a link is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time between hellos.
    pub hello_ns: u64,
    /// A neighbour that was not heard for so long is dead.
    pub dead_ns: u64,
    /// So many hellos in a row make it alive.
    pub good: u32,
    /// Bytes that a frame on the link may have behind its Ethernet header.
    pub frame_bytes: u16,
    /// What must be the same on all nodes.
    pub digest: u64,
    /// For how long a link that was up bears another digest at its other end.
    pub differ_ns: u64,
}

impl Default for Settings {
    /// A hello each 10 ms, dead after 50 ms, three good ones, Ethernet's usual frames, 30 s to change all nodes.
    fn default() -> Self {
        Self {
            hello_ns: 10_000_000,
            dead_ns: Self::dead_after(10_000_000),
            good: 3,
            frame_bytes: 1500,
            digest: 0,
            differ_ns: 30_000_000_000,
        }
    }
}

impl Settings {
    /// The usual time to death: five hellos. The word of it needs the rest of the 100 ms.
    #[must_use]
    pub const fn dead_after(hello_ns: u64) -> u64 {
        hello_ns.saturating_mul(5)
    }
    /// How much of a pause in which this node did not look counts as silence of its neighbour: one hello may have been due before
    /// the pause, one is due within a hello's time of its end, and one of them may be lost.
    #[must_use]
    pub const fn pause_ns(&self) -> u64 {
        let room = self.dead_ns.saturating_sub(3 * self.hello_ns);
        if room > self.hello_ns { room } else { self.hello_ns }
    }
    /// How old may be what a hello answers: the neighbour may not have heard this end for as long as a death takes, and the hello
    /// has been on its way.
    #[must_use]
    pub const fn fresh_ns(&self) -> u64 {
        self.dead_ns.saturating_mul(3).saturating_add(250_000_000)
    }
    /// How often the longest frame is tried while it is known to pass.
    #[must_use]
    pub const fn probe_ns(&self) -> u64 {
        let five = self.hello_ns.saturating_mul(5);
        let often = if five < PROBE_NS { five } else { PROBE_NS };
        if often > self.hello_ns { often } else { self.hello_ns }
    }
    /// Whether they make sense.
    pub fn check(&self) -> Result<(), Error> {
        in_range("a hello", self.hello_ns, "nanoseconds", 1_000_000, 10_000_000_000)?;
        in_range("the time to death", self.dead_ns, "nanoseconds", 2 * self.hello_ns, 60_000_000_000)?;
        in_range("good hellos", self.good.into(), "hellos", 1, 1000)?;
        in_range("a frame", self.frame_bytes.into(), "bytes", 256, 9978)?;
        in_range("time to change", self.differ_ns, "nanoseconds", 0, 3_600_000_000_000)?;
        Ok(())
    }
}

/// Why a link is not up, or what is strange about one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Nothing was heard.
    #[error("node {0} is not heard")]
    Silent(NodeId),
    /// It is heard, and does not hear this node.
    #[error("node {0} is heard but does not hear this node: the link works in one direction only")]
    HalfOpen(NodeId),
    /// Another node is at the other end.
    #[error(
        "wrong wiring: node {heard} is heard here in place of node {wanted}, and has its link to node {meant} here"
    )]
    WrongNode {
        /// Who should be there.
        wanted: NodeId,
        /// Who is.
        heard: NodeId,
        /// For whom that one takes this node.
        meant: NodeId,
    },
    /// The right node is at the other end, with another of its links.
    #[error("wrong wiring: node {heard} is heard here, but over its link to node {meant}")]
    WrongLink {
        /// Who is there.
        heard: NodeId,
        /// Where the link should lead that ends here.
        meant: NodeId,
    },
    /// This link's own frames come back.
    #[error("this node hears itself: the link leads back to where it starts")]
    Loop,
    /// Somebody else uses this node's identity.
    #[error("another node calls itself node {0}, as this one does")]
    MyTwin(NodeId),
    /// Somebody else uses the neighbour's identity.
    #[error("two nodes at the other end call themselves node {0}; the one that was heard first is believed")]
    Twins(NodeId),
    /// Somebody without the key.
    #[error("somebody without the key of this cluster (or of one with another name) calls itself node {0}")]
    Foreign(NodeId),
    /// Another version of the protocol.
    #[error("node {0} speaks version {1} of the protocol")]
    Version(NodeId, u8),
    /// Another configuration.
    #[error("node {node} has another configuration: digest {theirs:016x}, here {ours:016x}")]
    Differs {
        /// The neighbour.
        node: NodeId,
        /// Its digest.
        theirs: u64,
        /// This node's.
        ours: u64,
    },
    /// Long frames do not arrive.
    #[error(
        "frames of {wanted} bytes do not arrive at node {node}{}: the link's MTU is too small",
        .largest.map_or_else(String::new, |n| format!(", only up to {n}"))
    )]
    Mtu {
        /// The neighbour.
        node: NodeId,
        /// What the link is to carry.
        wanted: u16,
        /// The longest that arrives; none while that is being found out.
        largest: Option<u16>,
    },
    /// Not enough hellos yet.
    #[error("node {0} has just been heard")]
    Settling(NodeId),
    /// The other end is not ready.
    #[error("node {0} is not ready; its link to this node says why")]
    Waits(NodeId),
}

/// What a link has seen, in frames unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sent.
    pub sent: u64,
    /// Heard and counted.
    pub heard: u64,
    /// Without the key.
    pub foreign: u64,
    /// Malformed, or of another version.
    pub malformed: u64,
    /// With the key, but repeated, held back, or of another session.
    pub stale: u64,
    /// Of which more came than this node looks at.
    pub ignored: u64,
    /// Whose tag was looked at.
    pub opened: u64,
    /// With the key, from another node than the neighbour or for another one than this.
    pub misdirected: u64,
    /// Times that the neighbour was heard anew, after its start or after silence.
    pub sessions: u64,
    /// Times that the link went down.
    pub downs: u64,
}

/// Which sequence numbers were there: the latest, and a bit for each of the 64 up to it.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    latest: u64,
    seen: u64,
}

impl Window {
    /// Whether a number would not be new.
    fn has(&self, number: u64) -> bool {
        if number > self.latest || self.seen == 0 {
            return false;
        }
        let behind = self.latest - number;
        behind >= 64 || self.seen >> behind & 1 == 1
    }
    /// Takes a number; whether it was new.
    fn take(&mut self, number: u64) -> bool {
        if self.has(number) {
            return false;
        }
        if number > self.latest || self.seen == 0 {
            let ahead = number.saturating_sub(self.latest);
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
            self.latest = number;
        } else {
            self.seen |= 1 << (self.latest - number);
        }
        true
    }
}

/// How many bytes of frames are looked at in a time.
#[derive(Clone, Copy, Debug)]
struct Budget {
    bytes: u64,
    at_ns: u64,
}

impl Budget {
    /// A full one.
    const fn new(now_ns: u64) -> Self {
        Self { bytes: u64::MAX, at_ns: now_ns }
    }
    /// Takes so many bytes, of those of `often` of the longest frames in the time of a hello, and of `most` at once; whether they were
    /// there.
    fn take(&mut self, now_ns: u64, bytes: u16, (often, most): (u64, u64), settings: &Settings) -> bool {
        let longest = u64::from(settings.frame_bytes);
        let passed = now_ns.saturating_sub(self.at_ns);
        let more = passed.saturating_mul(often * longest) / settings.hello_ns.max(1);
        if more > 0 {
            self.at_ns = now_ns;
        }
        self.bytes = self.bytes.saturating_add(more).min(most * longest);
        let left = self.bytes.checked_sub(bytes.into());
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

/// The lengths of the longest frames that have arrived, in the present time and those before it.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    longest: [u16; TIMES],
    /// When the present one began, in time of this node's running.
    since: u64,
}

impl Lengths {
    const fn new(ran: u64) -> Self {
        Self { longest: [0; TIMES], since: ran }
    }
    fn add(&mut self, ran: u64, bytes: u16, time_ns: u64) {
        let times = ran.saturating_sub(self.since) / time_ns.max(1);
        if times > 0 {
            self.longest.rotate_right((times as usize).min(TIMES));
            self.longest.iter_mut().take(times.min(TIMES as u64) as usize).for_each(|n| *n = 0);
            self.since = ran;
        }
        self.longest[0] = self.longest[0].max(bytes);
    }
    fn longest(&self) -> u16 {
        self.longest.into_iter().max().unwrap_or(0)
    }
}

/// Which length is the longest that arrives, while that of the link does not.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// The shortest that seems not to.
    high: u16,
    /// What is being tried, how often it was sent, and when last.
    tried: u16,
    tries: u8,
    at: u64,
    turn: u8,
}

impl Search {
    const fn new(longest: u16) -> Self {
        Self { high: longest, tried: 0, tries: 0, at: 0, turn: 0 }
    }
    /// What has been found: the longest that arrives, if it is known.
    fn found(&self, low: u16) -> Option<u16> {
        (self.high <= low.saturating_add(1)).then_some(low)
    }
    /// The length of the next long frame, if `low` arrives and `longest` is wanted. An answer takes `answer_ns`.
    fn next(&mut self, ran: u64, low: u16, longest: u16, answer_ns: u64) -> u16 {
        if self.high <= low {
            self.high = longest;
        }
        if self.tried <= low {
            self.tries = 0;
        } else if self.tries >= TRIES && ran.saturating_sub(self.at) > answer_ns {
            (self.high, self.tries) = (self.tried.min(self.high), 0);
        }
        self.turn = (self.turn + 1) % 4;
        match self.turn {
            // What arrives is known for a while only.
            2 => low,
            // The answer is on its way.
            0 if self.tries >= TRIES => low,
            0 => {
                if self.tries == 0 {
                    self.tried = if self.found(low).is_some() { self.high } else { low.midpoint(self.high) };
                }
                (self.tries, self.at) = (self.tries + 1, ran);
                self.tried
            }
            _ => longest,
        }
    }
}

/// What the neighbour says in a hello, beside reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// It has heard this end in its present session, lately.
    pub(crate) hears: bool,
    /// It is ready.
    pub(crate) ready: bool,
    /// How many nodes its cluster has.
    pub(crate) nodes: u16,
    /// The longest frame that it has received from here lately.
    pub(crate) largest: u16,
    /// How often it sends the longest frame, in microseconds.
    pub(crate) probe_us: u32,
    pub(crate) digest: u64,
    /// Of its routes.
    pub(crate) routes: Summary,
    /// Its time, for it to see again.
    pub(crate) stamp: u64,
    /// The last time of this end that it has seen, and how long ago that was; 0: none.
    pub(crate) echo_stamp: u64,
    pub(crate) held_ns: u64,
}

const HEARS: u8 = 1;
const READY: u8 = 2;

impl Said {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend([if self.hears { HEARS } else { 0 } | if self.ready { READY } else { 0 }, 0]);
        out.extend(self.nodes.to_be_bytes());
        out.extend(self.largest.to_be_bytes());
        out.extend(self.probe_us.to_be_bytes());
        out.extend([0; 2]);
        let routes = self.routes;
        for n in [self.digest, routes.digest, routes.clock, self.stamp, self.echo_stamp, self.held_ns] {
            out.extend(n.to_be_bytes());
        }
    }
    pub(crate) fn read(b: &mut Bytes<'_>) -> Option<Self> {
        let [flags, _] = b.array()?;
        let (nodes, largest) = (b.short()?, b.short()?);
        let probe_us = b.word()?;
        b.take(2)?;
        Some(Self {
            hears: flags & HEARS != 0,
            ready: flags & READY != 0,
            nodes,
            largest,
            probe_us,
            digest: b.long()?,
            routes: Summary { digest: b.long()?, clock: b.long()? },
            stamp: b.long()?,
            echo_stamp: b.long()?,
            held_ns: b.long()?,
        })
    }
}

/// The session of the other end.
#[derive(Clone, Debug)]
struct Session {
    nonce: u64,
    /// When it was heard last, in time of this node's running.
    heard: u64,
    /// Since when it has been, in the same time.
    since: u64,
    /// Whether it has answered this end. Until it has, another one may take its place.
    proven: bool,
    good: u32,
    /// The highest sequence number whose hello was read.
    highest: u64,
    said: Said,
    /// When its stamp came.
    stamp_at_ns: u64,
    /// Once both configurations were the same.
    agreed: bool,
    /// Since when they differ.
    differs_ns: Option<u64>,
    lengths: Lengths,
    /// Another session that is heard at the same time: since when, and how many frames of this one had been heard by then.
    rival: Option<(u64, u64)>,
}

/// A time of this node's running as it is said: 0 is none.
const fn stamp(ran: u64) -> u64 {
    ran.saturating_add(1)
}

/// One end of a link.
#[derive(Clone, Debug)]
pub struct Neighbour {
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
    /// A session of the neighbour that has yet to repeat this end's.
    candidate: u64,
    /// When something came from it last that did not repeat this end's session, and since when that has gone on.
    unanswered: Option<(u64, u64)>,
    /// The neighbour's sessions that repeated this end's present one, and the numbers that were used in them.
    seen: Vec<(u64, Window)>,
    /// Its sessions before these, with the highest number of each.
    past: Vec<(u64, u64)>,
    budget: Budget,
    other_budget: Budget,
    /// Time of this node's running, and the clock's at its last look.
    ran: u64,
    looked_ns: u64,
    /// The last look came late: what the neighbour has sent meanwhile may not have been read yet.
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

/// What a frame that counts was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// It counts.
    Yes {
        /// No later one has come before it.
        latest: bool,
    },
    No,
}

impl Neighbour {
    /// An end whose sessions follow from a random seed.
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
            budget: Budget::new(now_ns),
            other_budget: Budget::new(now_ns),
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

    /// Lets the time pass in which this node ran.
    fn pass(&mut self, now_ns: u64) {
        // A longer time is one in which it did not run, or looked at nothing.
        let step = now_ns.saturating_sub(self.looked_ns).min(self.settings.pause_ns());
        self.ran += step;
        self.looked_ns = self.looked_ns.max(now_ns);
    }

    fn sign(&mut self, reason: Reason) {
        self.sign = Some((self.ran, reason));
    }

    /// A frame that was not sealed with the key. There may be millions of them: what follows is for the next look at the time.
    pub(crate) fn refused(&mut self, now_ns: u64, why: crate::frame::Refused) {
        use crate::frame::Refused;
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

    /// Whether the number in a header was used, as far as is remembered.
    fn is_used(&self, header: &Header) -> bool {
        if let Some((_, window)) = self.seen.iter().find(|(nonce, _)| *nonce == header.nonce) {
            // What repeats another session of this end is older than what has repeated the present one.
            return window.has(header.sequence)
                || (header.echo != self.nonce && header.sequence <= window.latest);
        }
        self.past.iter().any(|(nonce, highest)| *nonce == header.nonce && header.sequence <= *highest)
    }

    fn is_mine(&self, header: &Header) -> bool {
        (header.from, header.to) == (self.peer, self.me)
    }

    /// Whether a frame with this header, whose mark is good, has come before.
    pub(crate) fn is_repeated(&mut self, now_ns: u64, header: &Header) -> bool {
        self.pass(now_ns);
        let repeated = self.is_mine(header) && self.is_used(header);
        self.counts.stale += u64::from(repeated);
        repeated
    }

    /// Whether the tag of a frame, whose marks are good, is to be looked at.
    pub(crate) fn may_open(&mut self, now_ns: u64, frame: &crate::frame::Marked<'_>) -> bool {
        let header = &frame.header;
        let present = self.session.as_ref().is_none_or(|s| s.nonce == header.nonce || !s.proven);
        let taken = if self.is_mine(header) && header.echo == self.nonce && present {
            // That somebody with the key has made it is known already, unless it is long.
            frame.is_covered() || self.budget.take(now_ns, frame.bytes(), TAGS, &self.settings)
        } else {
            self.other_budget.take(now_ns, frame.bytes(), OTHER_TAGS, &self.settings)
        };
        *(if taken { &mut self.counts.opened } else { &mut self.counts.ignored }) += 1;
        taken
    }

    /// A frame that was sealed with the key: whether it counts.
    pub(crate) fn admit(&mut self, now_ns: u64, header: &Header, bytes: u16) -> Admitted {
        let admitted = self.admit_now(now_ns, header, bytes);
        if admitted == Admitted::No {
            self.judge(now_ns);
        }
        admitted
    }

    fn admit_now(&mut self, now_ns: u64, header: &Header, bytes: u16) -> Admitted {
        if header.from == self.me {
            self.counts.misdirected += 1;
            let own = header.nonce == self.nonce;
            self.sign(if own { Reason::Loop } else { Reason::MyTwin(self.me) });
            return Admitted::No;
        }
        if header.from != self.peer || header.to != self.me {
            self.counts.misdirected += 1;
            let (wanted, heard, meant) = (self.peer, header.from, header.to);
            self.sign(if heard == wanted {
                Reason::WrongLink { heard, meant }
            } else {
                Reason::WrongNode { wanted, heard, meant }
            });
            return Admitted::No;
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
            return Admitted::No;
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
            return Admitted::No;
        }
        let ran = self.ran;
        match self.session.as_mut() {
            Some(session) if session.nonce == header.nonce => {}
            Some(session) if session.proven => {
                // It has started again, and will be believed when its former self is dead; or there are two.
                let (since, heard) = *session.rival.get_or_insert((ran, self.counts.heard));
                let together =
                    ran.saturating_sub(since) > 3 * self.settings.dead_ns && self.counts.heard > heard + 2;
                self.counts.stale += 1;
                if together {
                    self.sign(Reason::Twins(self.peer));
                }
                return Admitted::No;
            }
            _ if header.kind != crate::frame::Kind::Hello => {
                self.counts.stale += 1;
                return Admitted::No;
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
                    said: Said::default(),
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
        let Some(session) = self.session.as_mut() else { return Admitted::No };
        self.counts.heard += 1;
        self.unanswered = None;
        let probe_ns = match session.said.probe_us {
            0 => self.settings.probe_ns(),
            us => (u64::from(us) * 1000).min(PROBE_MAX_NS),
        };
        session.lengths.add(ran, bytes, 2 * probe_ns);
        let latest = header.sequence > session.highest || session.highest == 0;
        session.highest = session.highest.max(header.sequence);
        Admitted::Yes { latest }
    }

    /// A hello that counts, unless it is too late.
    pub(crate) fn said(&mut self, now_ns: u64, said: Said, latest: bool) {
        let (ran, fresh_ns) = (self.ran, self.settings.fresh_ns());
        let Some(session) = self.session.as_mut() else { return };
        if said.echo_stamp != 0 {
            // Its own time, which has travelled: nobody can have made the frame before it, nor long after it.
            if stamp(ran).checked_sub(said.echo_stamp).is_none_or(|age| age > fresh_ns) {
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
            (session.said, session.stamp_at_ns) = (said, now_ns);
            if said.echo_stamp != 0
                && let Some(rtt) =
                    stamp(ran).checked_sub(said.echo_stamp).and_then(|t| t.checked_sub(said.held_ns))
            {
                self.rtt_ns =
                    Some(self.rtt_ns.map_or(rtt, |old| (old.saturating_mul(7).saturating_add(rtt)) / 8));
            }
        }
        self.judge(now_ns);
    }

    /// Lets time pass. Whether the state of the link is another one afterwards is for [`Neighbour::is_up`] to say.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        // Not two in a row, or a node that always comes late would never notice a death.
        self.late = !self.late && now_ns.saturating_sub(self.looked_ns) > self.settings.hello_ns;
        self.pass(now_ns);
        self.judge(now_ns);
    }

    fn judge(&mut self, now_ns: u64) {
        let dead_ns = self.settings.dead_ns;
        let (ran, late) = (self.ran, self.late);
        if let Some(session) = self.session.take_if(|s| !late && ran.saturating_sub(s.heard) > dead_ns) {
            // Its session is repeated still: if it hears this end, it shall know that this end does not hear it.
            self.candidate = session.nonce;
            self.urgent = true;
        }
        if self.session.is_none() && self.seen.len() >= SESSIONS / 2 {
            // A new session of this end makes void what was sent to the old one, so that little needs to be remembered.
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
        let said = self.session.as_ref().map(|s| s.said).unwrap_or_default();
        let up = ready && said.ready;
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
        if !session.said.hears {
            let long = ran.saturating_sub(session.since) > 2 * settings.dead_ns;
            return Some(if long { Reason::HalfOpen(peer) } else { Reason::Settling(peer) });
        }
        let short = session.said.largest < settings.frame_bytes && session.said.largest > 0;
        if short && ran.saturating_sub(session.since) > 4 * settings.dead_ns {
            let largest = self.search.and_then(|search| search.found(session.said.largest));
            return Some(Reason::Mtu { node: peer, wanted: settings.frame_bytes, largest });
        }
        if session.good == 0 || (!self.ready && session.good < needed) {
            return Some(Reason::Settling(peer));
        }
        if (session.said.digest, session.said.nodes) == (settings.digest, nodes) {
            (session.agreed, session.differs_ns) = (true, None);
        } else {
            let since = *session.differs_ns.get_or_insert(now_ns);
            if !session.agreed || now_ns.saturating_sub(since) > settings.differ_ns {
                session.agreed = false;
                return Some(Reason::Differs {
                    node: peer,
                    theirs: session.said.digest,
                    ours: settings.digest,
                });
            }
        }
        if session.said.largest < settings.frame_bytes {
            return Some(Reason::Settling(peer));
        }
        None
    }

    /// When the next hello is to be sent.
    #[must_use]
    pub const fn due_ns(&self) -> u64 {
        // Something new to say is said at once, but not more often than eight times as often as usual.
        let early = if self.urgent { self.settings.hello_ns / 8 * 7 } else { 0 };
        self.due_ns.saturating_sub(early)
    }
    /// Whether there is something new to say, for which the next hello comes early.
    #[must_use]
    pub const fn is_urgent(&self) -> bool {
        self.urgent
    }
    /// There is something new to say.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// The header of the next frame.
    pub(crate) fn header(&mut self, kind: crate::frame::Kind) -> Header {
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

    /// What to say in the hello that is due, and how long it is to be at least.
    pub(crate) fn say(&mut self, now_ns: u64, routes: Summary) -> (Said, u16) {
        self.due_ns = now_ns.saturating_add(self.settings.hello_ns);
        self.urgent = false;
        let (session, longest) = (self.session.as_ref(), self.settings.frame_bytes);
        let length = match session.map(|s| s.said.largest) {
            None => 0,
            Some(largest) if largest >= longest => {
                self.search = None;
                if now_ns.saturating_sub(self.probed_ns) >= self.settings.probe_ns() { longest } else { 0 }
            }
            // While long frames are not known to pass, every other hello is short, to be heard all the same.
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
        let said = Said {
            hears: session.is_some(),
            ready: self.ready,
            nodes: self.nodes,
            largest: session.map_or(0, |s| s.lengths.longest()),
            probe_us: (self.settings.probe_ns() / 1000) as u32,
            digest: self.settings.digest,
            routes,
            stamp: stamp(self.ran),
            echo_stamp: session.map_or(0, |s| s.said.stamp),
            held_ns: session.map_or(0, |s| now_ns.saturating_sub(s.stamp_at_ns)),
        };
        (said, length)
    }

    /// The neighbour.
    #[must_use]
    pub const fn peer(&self) -> NodeId {
        self.peer
    }
    /// How it is watched.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
    /// Whether packets can be sent to it.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.up
    }
    /// Whether packets from it are taken.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready
    }
    /// Why it is not up, or what is strange although it is.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        if let Some(reason) = self.reason {
            return Some(reason);
        }
        let session = self.session.as_ref()?;
        if session.differs_ns.is_some() {
            let (theirs, ours) = (session.said.digest, self.settings.digest);
            return Some(Reason::Differs { node: self.peer, theirs, ours });
        }
        self.sign.filter(|(at, _)| self.ran.saturating_sub(*at) < SIGN_NS).map(|(_, reason)| reason)
    }
    /// The time of a hello there and back, smoothed, without what the neighbour kept it for.
    #[must_use]
    pub const fn rtt_ns(&self) -> Option<u64> {
        self.rtt_ns
    }
    /// What it has seen.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }
    /// How long ago the neighbour was heard, in time of this node's running.
    #[must_use]
    pub fn quiet_ns(&self) -> Option<u64> {
        self.session.as_ref().map(|s| self.ran.saturating_sub(s.heard))
    }
    /// What the neighbour says of its routes.
    pub(crate) fn routes(&self) -> Option<Summary> {
        self.session.as_ref().filter(|s| s.good > 0).map(|s| s.said.routes)
    }
    /// The neighbour's present session, if it is heard.
    pub(crate) fn session(&self) -> Option<u64> {
        self.session.as_ref().map(|s| s.nonce)
    }
}
