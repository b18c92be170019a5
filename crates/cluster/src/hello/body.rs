//! The body of a hello.

use crate::frame::Bytes;
use crate::routes::Summary;

/// Bytes of a hello's body without reports.
pub const BODY_BYTES: usize = 60;

/// The contents of a hello, except reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Body {
    /// It has received hellos of this end's present session lately.
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
    /// The digest of its routes.
    pub(crate) routes: Summary,
    /// Its time, to be echoed.
    pub(crate) stamp: u64,
    /// The echo of this end's time, and how long ago it was received; 0: none.
    pub(crate) echo_stamp: u64,
    pub(crate) held_ns: u64,
}

const HEARS: u8 = 1;
const READY: u8 = 2;

impl Body {
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
