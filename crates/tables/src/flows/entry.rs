//! The entries of the table: what they are found by, what they say, and how that is laid out in words.

/// What the headers of a flow's packets have: addresses, and ports or what takes their place. Whoever fills
/// these in decides the order of the bytes; but the source port is one half of `ports`, the destination port
/// the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Tuple {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Both ports.
    pub ports: u32,
}

impl Tuple {
    /// That of packets in the other direction.
    #[inline(always)]
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, ports: self.ports.rotate_left(16) }
    }
}

/// By what an entry is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Key {
    /// What the packets have.
    pub tuple: Tuple,
    /// Which protocol it is: 1 to 3.
    pub kind: u8,
}

pub(super) const KIND: u32 = 3;
pub(super) const REPLY: u32 = 1 << 2;
pub(super) const OUTPUT: u32 = 3;
pub(super) const OWNER: u32 = 11;
pub(super) const MARK: u32 = 19;
/// Whether the caller keeps more of the flow.
pub(super) const NOTED: u32 = 1 << 27;
pub(super) const GENERATION: u32 = 28;
pub(super) const WITHOUT_GENERATION: u32 = u32::MAX >> (32 - GENERATION);
/// Bits of the state that are flags; the rest is the time.
pub(super) const FLAGS: u32 = 8;
pub(super) const TIME_MASK: u32 = u32::MAX >> FLAGS;

/// How long ago `then` was, at `now`; times wrap around. The clock of a thread may be behind that of another
/// one, by which an entry is then a little in the future.
#[inline(always)]
pub(super) fn since(now: u32, then: u32) -> u32 {
    let since = now.wrapping_sub(then) & TIME_MASK;
    if since > LONGEST { 0 } else { since }
}

/// The longest time that is told apart.
pub const LONGEST: u32 = TIME_MASK - TIME_MASK / 64;

/// An entry, as it was when it was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// What takes the place of the key's tuple.
    pub to: Tuple,
    pub(super) at: u32,
    pub(super) control: u32,
    pub(super) state: u32,
}

impl Found {
    /// Whether it is the entry of replies.
    #[inline(always)]
    #[must_use]
    pub fn is_reply(&self) -> bool {
        self.control & REPLY != 0
    }
    /// The output of its packets.
    #[inline(always)]
    #[must_use]
    pub fn output(&self) -> u8 {
        (self.control >> OUTPUT) as u8
    }
    /// The same, with another output.
    pub(super) fn with_output(self, output: u8) -> Self {
        let others = self.control & !(0xff << OUTPUT);
        Self { control: others | u32::from(output) << OUTPUT, ..self }
    }
    /// The number of whoever added the flow.
    #[must_use]
    pub fn owner(&self) -> u8 {
        (self.control >> OWNER) as u8
    }
    /// What whoever added the flow wanted to remember.
    #[inline(always)]
    #[must_use]
    pub fn mark(&self) -> u8 {
        (self.control >> MARK) as u8
    }
    /// Whether [`super::Flows::note`] has been called for the flow.
    #[inline(always)]
    #[must_use]
    pub fn is_noted(&self) -> bool {
        self.control & NOTED != 0
    }
    /// By what the entry of the other direction is found, of an entry that was found by `key`.
    #[inline(always)]
    #[must_use]
    pub fn other_key(&self, key: &Key) -> Key {
        Key { tuple: self.to.reversed(), kind: key.kind }
    }
    /// Which flags have been set.
    #[inline(always)]
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.state as u8
    }
    /// How long its packets have been absent.
    #[inline(always)]
    #[must_use]
    pub fn idle(&self, now: u32) -> u32 {
        since(now, self.state >> FLAGS)
    }
}

/// A flow that is to be added.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// The first packet's.
    pub key: Key,
    /// What its packets are to have instead.
    pub to: Tuple,
    /// The outputs of its packets and of replies.
    pub outputs: [u8; 2],
    /// Who adds it.
    pub owner: u8,
    /// A byte to be remembered.
    pub mark: u8,
}

impl New {
    /// By what the entry of replies is found.
    #[must_use]
    pub fn reply_key(&self) -> Key {
        Key { tuple: self.to.reversed(), kind: self.key.kind }
    }
}

/// Why a flow has not been added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is one with the same key.
    Exists,
    /// Packets of another flow look like its replies.
    ReplyTaken,
    /// The table has as many flows as it may have.
    Full,
    /// There is no memory for it.
    NoMemory,
}

/// Both entries of a flow that is looked over.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    /// By what the forward entry is found.
    pub key: Key,
    /// The forward entry.
    pub forward: Found,
    /// That of replies, if it is there.
    pub reply: Option<Found>,
    /// The parts of the table where they are.
    pub(super) parts: [usize; 2],
}

impl Both {
    /// How long there has been no packet in either direction.
    #[must_use]
    pub fn idle(&self, now: u32) -> u32 {
        let forward = self.forward.idle(now);
        self.reply.map_or(forward, |reply| forward.min(reply.idle(now)))
    }
}
