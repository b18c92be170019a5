//! The settings of a link's hellos.

use crate::{Error, in_range};

/// How often the longest frame is sent while it is known to arrive: with each fifth hello, and at least this
/// often if hellos are as frequent.
const PROBE_NS: u64 = 100_000_000;

/// The settings of a link's hellos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time between hellos.
    pub hello_ns: u64,
    /// A neighbor without hellos for this long is dead.
    pub dead_ns: u64,
    /// A neighbor is alive after this many hellos in a row.
    pub good: u32,
    /// Bytes that a frame on the link may have after its Ethernet header.
    pub frame_bytes: u16,
    /// The digest of the settings that must be the same on all nodes.
    pub digest: u64,
    /// For how long a link that was up tolerates a different digest at its other end.
    pub differ_ns: u64,
}

impl Default for Settings {
    /// A hello every 10 ms, dead after 50 ms, alive after three, ordinary Ethernet frames, 30 s to
    /// reconfigure all nodes.
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
    /// The default time until a neighbor is dead: five hellos. The rest of the 100 ms is for the news of it.
    #[must_use]
    pub const fn dead_after(hello_ns: u64) -> u64 {
        hello_ns.saturating_mul(5)
    }
    /// How much of a pause in which this node did not run counts as silence of its neighbor: one hello may
    /// have been due before the pause, one is due within a hello interval of its end, and one of them may be
    /// lost.
    #[must_use]
    pub const fn pause_ns(&self) -> u64 {
        let room = self.dead_ns.saturating_sub(3 * self.hello_ns);
        if room > self.hello_ns { room } else { self.hello_ns }
    }
    /// The greatest age of the time that a hello echoes: the neighbor may have received nothing from this end
    /// for as long as its dead time, and the hello has been on its way.
    #[must_use]
    pub const fn fresh_ns(&self) -> u64 {
        self.dead_ns.saturating_mul(3).saturating_add(250_000_000)
    }
    /// How often the longest frame is tried while it is known to arrive.
    #[must_use]
    pub const fn probe_ns(&self) -> u64 {
        let five = self.hello_ns.saturating_mul(5);
        let often = if five < PROBE_NS { five } else { PROBE_NS };
        if often > self.hello_ns { often } else { self.hello_ns }
    }
    /// Whether the settings are valid.
    pub fn check(&self) -> Result<(), Error> {
        in_range("a hello", self.hello_ns, "nanoseconds", 1_000_000, 10_000_000_000)?;
        in_range("the time to death", self.dead_ns, "nanoseconds", 2 * self.hello_ns, 60_000_000_000)?;
        in_range("good hellos", self.good.into(), "hellos", 1, 1000)?;
        in_range("a frame", self.frame_bytes.into(), "bytes", 256, 9978)?;
        in_range("time to change", self.differ_ns, "nanoseconds", 0, 3_600_000_000_000)?;
        Ok(())
    }
}
