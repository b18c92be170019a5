//! Where everything is in the memory: first the rings, each with its descriptors, then the buffers, one for
//! each descriptor.

/// What a ring begins with.
pub(crate) const COOKIE: u32 = 0x03e3_1f20;
/// Places in a ring: its flags with its head, its tail, its descriptors.
pub(crate) const FLAGS: usize = 4;
pub(crate) const HEAD: usize = 6;
pub(crate) const TAIL: usize = 64;
pub(crate) const DESCRIPTORS: usize = 128;
/// The size of a descriptor, and the places in it: flags with the region, length, offset.
pub(crate) const DESCRIPTOR: usize = 16;
pub(crate) const LENGTH: usize = 4;
pub(crate) const OFFSET: usize = 8;
/// The flag of a descriptor whose frame goes on in the next one.
pub(crate) const NEXT: u16 = 1;
/// The flag of a ring whose receiver polls, and wants no signals.
pub(crate) const POLLED: u16 = 1;

/// The longest frame, in bytes.
pub const BUFFER: usize = 2048;
/// From one buffer to the next: an odd number of cache lines, so that the first lines of all buffers, where
/// short frames are, do not fall into a few sets of the cache.
pub(crate) const STRIDE: usize = BUFFER + 64;

const PAGE: usize = 4096;

/// The direction of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From here to the peer ("C2S").
    Out,
    /// From the peer ("S2C").
    In,
}

/// How many rings there are, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    rings: usize,
    log2_slots: u8,
}

impl Layout {
    /// A layout with so many rings (1 to 256) in each direction, each for `1 << log2_slots` frames (16 to
    /// 16384); other numbers become the nearest ones of these.
    #[must_use]
    pub fn new(rings: usize, log2_slots: u8) -> Self {
        Self { rings: rings.clamp(1, 256), log2_slots: log2_slots.clamp(4, 14) }
    }

    /// The rings in each direction.
    #[must_use]
    pub fn rings(self) -> usize {
        self.rings
    }

    /// The frames of a ring, as a power of two.
    #[must_use]
    pub fn log2_slots(self) -> u8 {
        self.log2_slots
    }

    /// The frames of a ring.
    #[must_use]
    pub fn slots(self) -> usize {
        1 << self.log2_slots
    }

    fn number(self, direction: Direction, ring: usize) -> usize {
        ring + if direction == Direction::In { self.rings } else { 0 }
    }

    /// Where a ring is.
    pub(crate) fn ring(self, direction: Direction, ring: usize) -> usize {
        self.number(direction, ring) * (DESCRIPTORS + DESCRIPTOR * self.slots())
    }

    /// Where a ring's first buffer is.
    pub(crate) fn buffers(self, direction: Direction, ring: usize) -> usize {
        let rings = self.ring(Direction::In, self.rings);
        rings.next_multiple_of(PAGE) + self.number(direction, ring) * self.slots() * STRIDE
    }

    /// The size of the memory, in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.buffers(Direction::In, self.rings).next_multiple_of(PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for layout in [Layout::new(1, 4), Layout::new(3, 9), Layout::new(256, 14), Layout::new(0, 0)] {
            let mut places = Vec::new();
            for direction in [Direction::Out, Direction::In] {
                for ring in 0..layout.rings() {
                    let at = layout.ring(direction, ring);
                    assert_eq!(at % 64, 0);
                    places.push((at, at + DESCRIPTORS + DESCRIPTOR * layout.slots()));
                    let at = layout.buffers(direction, ring);
                    places.push((at, at + (layout.slots() - 1) * STRIDE + BUFFER));
                }
            }
            places.sort_unstable();
            assert!(places.windows(2).all(|two| two[0].1 <= two[1].0), "{layout:?}");
            assert!(places.last().is_some_and(|last| last.1 <= layout.bytes()));
            // The offsets of descriptors have 32 bits.
            assert!(u32::try_from(layout.bytes()).is_ok() || layout.rings() > 60);
        }
    }
}
