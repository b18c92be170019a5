//! Who has claimed what: the list that the writer changes, and what is made of it for looking up.

use crate::lookup::Lookup;
use crate::tag::{Claim, Error, Tag};
use crate::tunnel::Tunnel;
use std::collections::BTreeMap;
use wire::EtherAddr;

/// What is found for a frame: the place of an owner, or one of the following.
///
/// From here on, up to [`SEVERAL`]: the place of the default owner above this; the tag stays on.
pub(crate) const AS_IT_IS: u32 = 1 << 30;
/// From here on: the number of a shared tag above this. In a result: a copy for each of its owners.
pub(crate) const SEVERAL: u32 = 1 << 31;
/// Nobody has the tag.
pub(crate) const NOBODY_TAG: u32 = u32::MAX;
/// Nobody has the address.
pub(crate) const NOBODY_ADDRESS: u32 = u32::MAX - 1;
/// The frame is malformed.
pub(crate) const MALFORMED: u32 = u32::MAX - 2;

/// Most owners on a port, and most tags that are shared.
const MOST: usize = 1 << 16;
/// Numbers of VLANs.
const VLANS: usize = 1 << 12;

/// The key of a QinQ tag.
#[inline(always)]
pub(crate) fn qinq_key(outer: u16, inner: u16) -> u64 {
    1 << 32 | u64::from(outer) << 12 | u64::from(inner)
}

/// The key of an MPLS label.
#[inline(always)]
pub(crate) fn mpls_key(label: u32) -> u64 {
    2 << 32 | u64::from(label)
}

/// The key of a VXLAN network.
#[inline(always)]
pub(crate) fn vni_key(vni: u32) -> u64 {
    3 << 32 | u64::from(vni)
}

/// In the table of tags: the tag is shared; the other bits are its number.
const SHARED: u32 = MOST as u32;

/// A tag of several owners.
#[derive(Debug)]
struct Shared {
    /// The places of the owners.
    members: Box<[u32]>,
    /// The same by their addresses.
    addresses: Lookup<16>,
}

/// The claims of a port as they are looked up; never changed.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Which change made it.
    pub(crate) generation: u64,
    /// What is found for each VLAN; at 0: for frames without a tag.
    vlans: Box<[u32; VLANS]>,
    /// What is found for the other tags.
    others: Lookup<17>,
    shared: Vec<Shared>,
    /// The owners by their places.
    pub(crate) owners: Vec<u32>,
    /// What is found for a tag that nobody has: the default owner, or [`NOBODY_TAG`].
    unclaimed: u32,
    /// The place of the one owner that gets everything as it is.
    pub(crate) whole: Option<u32>,
    /// Any QinQ tag is claimed.
    pub(crate) has_qinq: bool,
    /// Any label is claimed.
    pub(crate) has_mpls: bool,
    /// The tunnel, if any VNI is claimed.
    pub(crate) tunnel: Option<Tunnel>,
}

impl Snapshot {
    /// What is found for this VLAN, of which the low 12 bits count; for 0: for frames without a tag.
    #[inline(always)]
    pub(crate) fn vlan(&self, id: u16) -> u32 {
        self.vlans[usize::from(id) % VLANS]
    }

    /// What is found for a tag with this key.
    #[inline]
    pub(crate) fn other(&self, key: u64) -> u32 {
        match self.others.get(key) {
            Some(found) if found >= SHARED => SEVERAL | (found - SHARED),
            Some(place) => place,
            None => self.unclaimed,
        }
    }

    /// The owner of a destination address (48 bits, first byte highest) within a shared tag.
    #[inline]
    pub(crate) fn by_address(&self, shared: u32, mac: u64) -> u32 {
        match self.shared.get(shared as usize).and_then(|tag| tag.addresses.get(mac)) {
            Some(place) => place,
            None if self.unclaimed == NOBODY_TAG => NOBODY_ADDRESS,
            None => self.unclaimed,
        }
    }

    /// The places of the owners of a shared tag.
    pub(crate) fn members(&self, shared: u32) -> &[u32] {
        self.shared.get(shared as usize).map_or(&[], |tag| &tag.members)
    }
}

/// The claims on a port, to be changed: several changes take effect together, or none of them.
#[derive(Clone, Debug, Default)]
pub struct Change {
    claims: BTreeMap<Claim, u32>,
    default: Option<u32>,
    tunnel: Option<Tunnel>,
}

impl Change {
    /// Gives an owner the frames of a claim. An owner may have several claims.
    pub fn claim(&mut self, claim: Claim, owner: u32) -> Result<(), Error> {
        claim.check()?;
        match self.claims.get(&claim) {
            Some(&had) if had != owner => Err(Error::Taken { claim, owner: had }),
            _ => {
                self.claims.insert(claim, owner);
                Ok(())
            }
        }
    }

    /// Takes a claim away; returns whose it was.
    pub fn release(&mut self, claim: &Claim) -> Option<u32> {
        self.claims.remove(claim)
    }

    /// Takes all claims of an owner away, and that to be the default; returns how many claims it had.
    pub fn release_owner(&mut self, owner: u32) -> usize {
        let before = self.claims.len();
        self.claims.retain(|_, o| *o != owner);
        self.default = self.default.filter(|&o| o != owner);
        before - self.claims.len()
    }

    /// Takes all claims away.
    pub fn clear(&mut self) {
        self.claims.clear();
    }

    /// Says who gets what nobody claims.
    pub fn set_default(&mut self, owner: Option<u32>) {
        self.default = owner;
    }

    /// Who gets what nobody claims.
    pub fn default_owner(&self) -> Option<u32> {
        self.default
    }

    /// Says between which ends VXLAN datagrams are the port's; without a tunnel none are.
    pub fn set_tunnel(&mut self, tunnel: Option<Tunnel>) {
        self.tunnel = tunnel;
    }

    /// The claims with their owners, in the order of tags.
    pub fn claims(&self) -> impl Iterator<Item = (&Claim, u32)> {
        self.claims.iter().map(|(claim, &owner)| (claim, owner))
    }

    /// What is looked up.
    pub(crate) fn snapshot(&self, generation: u64) -> Result<Snapshot, Error> {
        let mut places = BTreeMap::new();
        let mut owners = Vec::new();
        let mut place = |owner: u32| {
            *places.entry(owner).or_insert_with(|| {
                owners.push(owner);
                owners.len() as u32 - 1
            })
        };
        let unclaimed = self.default.map_or(NOBODY_TAG, |owner| AS_IT_IS | place(owner));
        let mut vlans: Box<[u32; VLANS]> = Box::new([unclaimed; VLANS]);
        let (mut others, mut shared) = (Vec::new(), Vec::new());
        let (mut has_qinq, mut has_mpls, mut has_vni) = (false, false, false);
        let all: Vec<(&Claim, u32)> = self.claims().collect();
        for same_tag in all.chunk_by(|a, b| a.0.tag == b.0.tag) {
            let Some(&(first, owner)) = same_tag.first() else { continue };
            let found = if same_tag.iter().all(|&(_, o)| o == owner) {
                place(owner)
            } else {
                let number = shared.len() as u32;
                let mut addresses = Vec::with_capacity(same_tag.len());
                for &(claim, owner) in same_tag {
                    let mac = claim.mac.ok_or(Error::NeedsAddress(claim.tag))?;
                    addresses.push((EtherAddr(mac).to_bits(), place(owner)));
                }
                let mut members: Vec<u32> = addresses.iter().map(|&(_, place)| place).collect();
                members.sort_unstable();
                members.dedup();
                shared.push((members, addresses));
                SEVERAL | number
            };
            // In the table of tags there is one bit for what is shared.
            let entry = if found >= SEVERAL { SHARED | (found - SEVERAL) } else { found };
            match first.tag {
                Tag::None => vlans[0] = found,
                Tag::Vlan(id) => vlans[usize::from(id) % VLANS] = found,
                Tag::Qinq(outer, inner) => {
                    has_qinq = true;
                    others.push((qinq_key(outer, inner), entry));
                }
                Tag::Mpls(label) => {
                    has_mpls = true;
                    others.push((mpls_key(label), entry));
                }
                Tag::Vni(vni) => {
                    has_vni = true;
                    others.push((vni_key(vni), entry));
                }
            }
        }
        if owners.len() > MOST || shared.len() > MOST {
            return Err(Error::TooMany(MOST));
        }
        let shared = shared.into_iter().map(|(members, addresses)| Shared {
            members: members.into_boxed_slice(),
            addresses: Lookup::new(&addresses),
        });
        let whole = self.default.filter(|_| self.claims.is_empty()).map(|_| 0);
        Ok(Snapshot {
            generation,
            vlans,
            others: Lookup::new(&others),
            shared: shared.collect(),
            owners,
            unclaimed,
            whole,
            has_qinq,
            has_mpls,
            tunnel: self.tunnel.filter(|_| has_vni),
        })
    }
}
