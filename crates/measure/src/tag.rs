//! The tag in the payload of a measured frame: its sender and flow, its place in the flow, and when it was
//! sent.
//!
//! ```text
//! byte  0        4     5               8                12                     18
//!       | magic  | run | stream, flow  | sequence       | time, ns, low 48 bits |
//! ```
//!
//! All numbers are big-endian. A *stream* is one sender (0 to 15), a *flow* one of its flows (20 bits), and a
//! *run* distinguishes the frames of a sender that was restarted from its earlier frames. Sequence numbers
//! count the frames of a flow from 0 and wrap at 2^32; 48 bits of nanoseconds wrap after 78 hours. The 18
//! bytes just fit an Ethernet frame of 60 bytes with IPv4 and UDP. The checksum of UDP shows whether the
//! frame was changed.

/// Bytes of a tag.
pub const LEN: usize = 18;
/// The first bytes of a tag.
pub const MAGIC: [u8; 4] = *b"VaM1";
/// Streams that can be distinguished.
pub const MAX_STREAMS: u8 = 16;
/// Flows of a stream that can be distinguished.
pub const MAX_FLOWS: u32 = 1 << 20;

/// Outputs of a device that can be distinguished.
pub const MAX_OUTPUTS: usize = 16;

/// Flows go to so many outputs of a device, and their numbers show to which: the upper bits are the output,
/// the lower ones the flow of that output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outputs {
    shift: u32,
}

impl Outputs {
    /// For so many outputs; at most [`MAX_OUTPUTS`] are distinguished.
    #[must_use]
    pub fn new(outputs: usize) -> Self {
        let bits = outputs.clamp(1, MAX_OUTPUTS).next_power_of_two().trailing_zeros();
        Self { shift: MAX_FLOWS.trailing_zeros() - bits }
    }
    /// The output that a flow is for.
    #[inline]
    #[must_use]
    pub fn of(self, flow: u32) -> usize {
        (flow >> self.shift) as usize
    }
    /// The first flow of an output.
    #[must_use]
    pub fn first(self, output: usize) -> u32 {
        (output as u32) << self.shift
    }
    /// How many flows an output can have.
    #[must_use]
    pub fn most(self) -> u32 {
        1 << self.shift
    }
}

const TIME_MASK: u64 = (1 << 48) - 1;

/// A tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// See the module.
    pub run: u8,
    /// Below [`MAX_STREAMS`].
    pub stream: u8,
    /// Below [`MAX_FLOWS`].
    pub flow: u32,
    /// Place in the flow.
    pub seq: u32,
    /// The low 48 bits of the time at which it was sent, in nanoseconds.
    pub time: u64,
}

/// Run, stream and flow as they are written.
#[inline]
#[must_use]
pub const fn identity(run: u8, stream: u8, flow: u32) -> u32 {
    (run as u32) << 24 | (stream as u32 & 0xf) << 20 | flow & (MAX_FLOWS - 1)
}

impl Tag {
    /// The tag at the start of a payload; `None` if there is none.
    #[inline]
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let [m0, m1, m2, m3, i0, i1, i2, i3, s0, s1, s2, s3, t0, t1, t2, t3, t4, t5] =
            *payload.first_chunk::<LEN>()?;
        if [m0, m1, m2, m3] != MAGIC {
            return None;
        }
        let identity = u32::from_be_bytes([i0, i1, i2, i3]);
        Some(Self {
            run: (identity >> 24) as u8,
            stream: (identity >> 20) as u8 & 0xf,
            flow: identity & (MAX_FLOWS - 1),
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            time: u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]),
        })
    }
    /// Nanoseconds from its time to `now_ns`; `None` if that lies before it (the clocks of two machines
    /// differ).
    #[inline]
    #[must_use]
    pub fn age_ns(&self, now_ns: u64) -> Option<u64> {
        let age = now_ns.wrapping_sub(self.time) & TIME_MASK;
        (age <= TIME_MASK >> 1).then_some(age)
    }
}

/// The bytes of a tag.
#[inline]
#[must_use]
pub const fn bytes(identity: u32, seq: u32, time_ns: u64) -> [u8; LEN] {
    let [m0, m1, m2, m3] = MAGIC;
    let [i0, i1, i2, i3] = identity.to_be_bytes();
    let [s0, s1, s2, s3] = seq.to_be_bytes();
    let [_, _, t0, t1, t2, t3, t4, t5] = time_ns.to_be_bytes();
    [m0, m1, m2, m3, i0, i1, i2, i3, s0, s1, s2, s3, t0, t1, t2, t3, t4, t5]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(run: u8, stream in 0..MAX_STREAMS, flow in 0..MAX_FLOWS, seq: u32, at: u64, later in 0u64..1 << 47) {
            let written = bytes(identity(run, stream, flow), seq, at);
            let tag = Tag::read(&written).unwrap();
            prop_assert_eq!(tag, Tag { run, stream, flow, seq, time: at & TIME_MASK });
            prop_assert_eq!(tag.age_ns(at.wrapping_add(later)), Some(later));
            prop_assert_eq!(tag.age_ns(at.wrapping_sub(later + 1)), None);
        }

        #[test]
        fn other_bytes_are_no_tag(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert_eq!(Tag::read(&bytes), None);
        }
    }

    #[test]
    fn flows_show_their_output() {
        for n in 1..=MAX_OUTPUTS {
            let outputs = Outputs::new(n);
            for output in 0..n {
                let (first, last) = (outputs.first(output), outputs.first(output) + (outputs.most() - 1));
                assert!(last < MAX_FLOWS && (outputs.of(first), outputs.of(last)) == (output, output));
            }
        }
        assert_eq!((Outputs::new(1).most(), Outputs::new(3).most()), (MAX_FLOWS, MAX_FLOWS / 4));
    }

    #[test]
    fn a_cut_tag_is_none() {
        assert_eq!(Tag::read(&bytes(1, 2, 3)[..LEN - 1]), None);
    }
}
