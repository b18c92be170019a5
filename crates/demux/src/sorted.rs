//! Packets by owner.

use crate::claims::AS_IT_IS;
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
/// packets out and leave the batches ([`Batch::append`], [`Batch::drain`]), or exchange one for an empty one
/// of their own. What they leave is freed when the next batch is split.
#[derive(Debug)]
pub struct Sorted {
    /// The first `used` are in use, in the order in which their owners got their first packet.
    groups: Vec<Group>,
    used: usize,
    /// The group of each place.
    group_of: Vec<u32>,
    /// What was found for each frame of the batch.
    pub(crate) found: Vec<u32>,
    /// Memory for packets on their way, and what was found for them; empty in between.
    pub(crate) spare: Batch,
    pub(crate) spare_found: Vec<u32>,
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

    /// Without packets; allocates nothing.
    pub fn new() -> Sorted {
        Sorted {
            groups: Vec::new(),
            used: 0,
            group_of: Vec::new(),
            found: Vec::new(),
            spare: Batch::new(),
            spare_found: Vec::new(),
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

    /// How many owners got packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no owner got packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Frees all packets that are still there.
    #[inline]
    pub fn clear(&mut self) {
        let used = std::mem::take(&mut self.used);
        for group in self.groups.iter_mut().take(used) {
            if let Some(at) = self.group_of.get_mut(group.place as usize) {
                *at = NONE;
            }
            group.batch.clear();
        }
    }

    /// Makes room for packets of this many owners, out of `places`.
    #[inline]
    fn reserve(&mut self, owners: usize, places: usize) {
        if self.group_of.len() < places {
            self.group_of.resize(places, NONE);
        }
        let owners = owners.min(places);
        if self.groups.len() < owners {
            self.groups.resize_with(owners, Group::default);
        }
    }

    /// Takes a batch that has one owner.
    #[inline]
    pub(crate) fn take_whole(&mut self, batch: &mut Batch, found: u32, owners: &[u32]) {
        self.reserve(1, owners.len());
        let place = found & !AS_IT_IS;
        if let (Some(group), Some(&owner)) = (self.groups.first_mut(), owners.get(place as usize)) {
            (group.owner, group.place) = (owner, place);
            std::mem::swap(&mut group.batch, batch);
            self.used = 1;
        }
    }

    /// Takes a batch, each packet of which has the owner that was found.
    #[inline(never)]
    pub(crate) fn take_each(&mut self, batch: &mut Batch, owners: &[u32]) {
        self.reserve(batch.len(), owners.len());
        let (groups, group_of) = (self.groups.as_mut_slice(), self.group_of.as_mut_slice());
        for (packet, &found) in batch.drain(..).zip(&self.found) {
            let place = found & !AS_IT_IS;
            let (Some(of), Some(&owner)) = (group_of.get_mut(place as usize), owners.get(place as usize))
            else {
                continue;
            };
            // Without a branch: which packet is the first of its owner is anybody's guess.
            let is_new = *of == NONE;
            let at = if is_new { self.used as u32 } else { *of };
            self.used += usize::from(is_new);
            *of = at;
            if let Some(group) = groups.get_mut(at as usize) {
                (group.owner, group.place) = (owner, place);
                group.batch.push(packet);
            }
        }
    }
}
