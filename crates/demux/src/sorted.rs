//! Packets by owner.

use dpdk::Batch;

/// No group.
const NONE: u32 = u32::MAX;

/// The packets of one owner.
#[derive(Debug, Default)]
struct Group {
    owner: u32,
    place: u32,
    batch: Batch,
}

/// Packets by owner: what [`Reader::split`](crate::Reader::split) makes of a batch.
///
/// Whoever makes one uses it again and again: it keeps the memory of its batches. Those who visit it take the
/// packets out and leave the batches ([`Batch::append`], [`Batch::drain`]); one that is taken out as a whole
/// takes its memory along.
#[derive(Debug)]
pub struct Sorted {
    /// The first `used` are in use, in the order in which their owners got their first packet.
    groups: Vec<Group>,
    used: usize,
    /// The group of each place.
    group_of: Vec<u32>,
    /// What was found for each frame of the batch.
    pub(crate) found: Vec<u32>,
    /// Packets that reach nobody, to be freed together.
    pub(crate) dropped: Batch,
    /// Most copies for one batch.
    pub(crate) most_copies: usize,
    /// At which owner of a shared tag to begin.
    pub(crate) turn: usize,
}

impl Default for Sorted {
    fn default() -> Sorted {
        Sorted::new()
    }
}

impl Sorted {
    /// Most copies of broadcast and multicast frames that are made for one batch, unless
    /// [`set_most_copies`](Sorted::set_most_copies) says otherwise.
    pub const MOST_COPIES: usize = 2048;

    /// Without packets; allocates little.
    pub fn new() -> Sorted {
        Sorted {
            groups: Vec::new(),
            used: 0,
            group_of: Vec::new(),
            found: Vec::new(),
            dropped: Batch::new(),
            most_copies: Sorted::MOST_COPIES,
            turn: 0,
        }
    }

    /// Sets the most copies that are made for one batch: a bound on what a flood of broadcasts costs.
    pub fn set_most_copies(&mut self, copies: usize) {
        self.most_copies = copies;
    }

    /// The owners with packets, in the order in which each got its first one, and their packets in the order
    /// of arrival.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Batch)> {
        self.groups.iter_mut().take(self.used).map(|group| (group.owner, &mut group.batch))
    }

    /// How many owners have packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no owner has packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Frees all packets that are still there.
    pub fn clear(&mut self) {
        let used = std::mem::take(&mut self.used);
        for group in self.groups.iter_mut().take(used) {
            if let Some(at) = self.group_of.get_mut(group.place as usize) {
                *at = NONE;
            }
            group.batch.clear();
        }
    }

    /// Makes room for this many owners.
    #[inline]
    pub(crate) fn reserve(&mut self, places: usize) {
        if self.group_of.len() < places {
            self.group_of.resize(places, NONE);
        }
    }

    /// The batch of the owner at a place.
    #[inline(always)]
    pub(crate) fn batch(&mut self, place: u32, owners: &[u32]) -> &mut Batch {
        let at = self.group_of.get(place as usize).copied().unwrap_or(NONE) as usize;
        let at = if at < self.used { at } else { self.open(place, owners) };
        &mut self.groups[at].batch
    }

    /// A group for an owner that has none.
    #[inline]
    fn open(&mut self, place: u32, owners: &[u32]) -> usize {
        let at = self.used;
        if at == self.groups.len() {
            self.groups.push(Group::default());
        }
        self.used += 1;
        let group = &mut self.groups[at];
        group.place = place;
        group.owner = owners.get(place as usize).copied().unwrap_or(u32::MAX);
        if let Some(group_of) = self.group_of.get_mut(place as usize) {
            *group_of = at as u32;
        }
        at
    }
}
