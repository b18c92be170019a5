//! IPv6 longest prefix match.
//!
//! A tree with steps of 16 bits and then 8, two of which are one where there are few routes: a /48 is found
//! with four or five loads, and all lookups of a batch make one step before any makes the next, so that their
//! loads overlap. Of the usual alternatives, a search among
//! the lengths of prefixes by hashing (Waldvogel et al., "Scalable high speed IP routing lookups", SIGCOMM
//! 1997) takes about as many loads, but one route may have to change marks of many others; here a route is
//! inserted or removed by writing the one node in which it ends. What makes the tree small is that most nodes
//! are one or two cache lines of runs of equal entries (as the bitmaps of Degermark et al., "Small forwarding
//! tables for fast routing lookups", SIGCOMM 1997): see `memory`.
//!
//! Lookups take no lock. An answer was right at some moment between the beginning of its lookup and its end,
//! also while another thread changes routes: for each address it is one store that makes a change visible,
//! and a node is used again only when no lookup can be in it (`epoch`). A change of a route costs in
//! proportion to the nodes that it covers.
//!
//! ```
//! use tables::{Lpm6, NO_ROUTE};
//! let table = Lpm6::new()?;
//! table.insert("2001:db8::/32".parse()?, 1)?;
//! table.insert("2001:db8:1::/48".parse()?, 2)?;
//! let reader = table.reader(); // one per thread
//! let mut hops = [0; 3];
//! reader.lookup_many(&[0x20010db8 << 96, 0x20010db80001 << 80, 1], &mut hops);
//! assert_eq!(hops, [1, 2, NO_ROUTE]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod control;
mod memory;
#[allow(unsafe_code, reason = "wide instructions, and loads of what is there")]
mod runs;
#[cfg(test)]
mod tests;

use locks::IgnorePoison;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::epoch::EpochReader;
use crate::lpm::{LpmError, MAX_HOP};
use crate::prefix6::Prefix6;
use control::Control;
use memory::{FAR, NODE, Shared};

/// Lookups that go on together.
const TOGETHER: usize = 64;
/// How far the 16 bits behind those of the root are shifted.
const FIRST_SHIFT: u32 = 96;
/// Bits of a step.
const STEP: u32 = 8;

/// A table of IPv6 routes that many threads look up while one changes it.
///
/// Every method may be called from any thread; those that change the table, or walk its routes, take a lock.
pub struct Lpm6 {
    shared: Arc<Shared>,
    control: Mutex<Control>,
}

/// One thread's view of an [`Lpm6`]: lookups take no lock and never wait. It keeps the table alive.
pub struct Lpm6Reader {
    shared: Arc<Shared>,
    epoch: EpochReader,
    /// The slot of the epoch belongs to one thread at a time: not `Sync`.
    _one_thread: PhantomData<Cell<()>>,
}

impl Lpm6 {
    /// An empty table. It reserves 1 GB of address space, or less where that is limited, and uses almost no
    /// memory.
    ///
    /// # Errors
    /// [`LpmError::OutOfMemory`] when the system refuses the reservation.
    pub fn new() -> Result<Self, LpmError> {
        Ok(Self { shared: Arc::new(Shared::new()?), control: Mutex::new(Control::new()) })
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().ignore_poison()
    }

    /// A view for one more thread.
    pub fn reader(&self) -> Lpm6Reader {
        let epoch = self.shared.epochs.register();
        Lpm6Reader { shared: Arc::clone(&self.shared), epoch, _one_thread: PhantomData }
    }

    /// Adds a route or replaces its next hop. Returns the next hop it had.
    ///
    /// # Errors
    /// Any [`LpmError`]; the table is then as it was.
    pub fn insert(&self, prefix: Prefix6, hop: u32) -> Result<Option<u32>, LpmError> {
        if hop > MAX_HOP {
            return Err(LpmError::HopTooLarge(hop));
        }
        let control = &mut *self.control();
        control.ensure_one(&self.shared)?;
        let old = control.insert(prefix, hop);
        control.publish(&self.shared);
        Ok(old)
    }

    /// Removes a route. Returns the next hop it had, `None` when there is no such route.
    pub fn remove(&self, prefix: Prefix6) -> Option<u32> {
        let control = &mut *self.control();
        // Without room, nodes stay as they are as far as possible.
        let _ = control.ensure_one(&self.shared);
        let old = control.remove(prefix)?;
        control.publish(&self.shared);
        Some(old)
    }

    /// Adds many routes at once, all or none; of two for the same prefix the later one counts. Routes already
    /// in the table stay. Faster than one at a time: each node is written once.
    ///
    /// # Errors
    /// Any [`LpmError`]; the table is then as it was.
    pub fn load(&self, routes: impl IntoIterator<Item = (Prefix6, u32)>) -> Result<(), LpmError> {
        let routes: Vec<(Prefix6, u32)> = routes.into_iter().collect();
        if let Some((_, hop)) = routes.iter().find(|(_, hop)| *hop > MAX_HOP) {
            return Err(LpmError::HopTooLarge(*hop));
        }
        let control = &mut *self.control();
        let before: Vec<(Prefix6, Option<u32>)> =
            routes.into_iter().map(|(prefix, hop)| (prefix, control.insert(prefix, hop))).collect();
        let done = control.ensure_changes(&self.shared);
        if done.is_err() {
            for (prefix, old) in before.into_iter().rev() {
                match old {
                    Some(hop) => drop(control.insert(prefix, hop)),
                    None => drop(control.remove(prefix)),
                }
            }
        }
        control.publish(&self.shared);
        done
    }

    /// Removes every route.
    pub fn clear(&self) {
        self.control().clear(&self.shared);
    }

    /// The next hop of exactly this route.
    pub fn get(&self, prefix: Prefix6) -> Option<u32> {
        self.control().get(prefix)
    }

    /// The route that a packet to `addr` (in host order) takes, with its next hop. For control: takes the
    /// lock.
    pub fn route(&self, addr: u128) -> Option<(Prefix6, u32)> {
        self.control().route(addr)
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.control().len()
    }

    /// There are no routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every route, by address and then by length.
    pub fn routes(&self) -> Vec<(Prefix6, u32)> {
        self.control().routes()
    }

    /// About how many bytes lookups of all kinds of addresses reach.
    pub fn working_set(&self) -> usize {
        self.control().space.used()
    }
}

impl std::fmt::Debug for Lpm6 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lpm6").field("routes", &self.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Lpm6Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lpm6Reader").finish_non_exhaustive()
    }
}

impl Lpm6Reader {
    /// Begins to load what a lookup of `addr` (in host order) will read first.
    #[inline]
    pub fn prefetch(&self, addr: u128) {
        self.shared.prefetch_root((addr >> 112) as u16);
    }

    /// The next hop for `addr` (in host order), or [`NO_ROUTE`](crate::NO_ROUTE).
    #[inline]
    pub fn lookup(&self, addr: u128) -> u32 {
        let mut hop = [0];
        self.lookup_many(&[addr], &mut hop);
        hop[0]
    }

    /// The next hop for each of `addrs` (in host order), or [`NO_ROUTE`](crate::NO_ROUTE); as many as the
    /// shorter slice holds.
    #[inline]
    pub fn lookup_many(&self, addrs: &[u128], hops: &mut [u32]) {
        let n = addrs.len().min(hops.len());
        let shared = &*self.shared;
        let _entered = self.epoch.enter(&shared.epochs);
        for (addrs, hops) in addrs[..n].chunks(TOGETHER).zip(hops[..n].chunks_mut(TOGETHER)) {
            look_up(shared, addrs, hops);
        }
    }
}

/// Some of the addresses, by number.
struct Some64 {
    numbers: [u8; TOGETHER],
    len: usize,
}

impl Some64 {
    const NONE: Self = Self { numbers: [0; TOGETHER], len: 0 };

    /// Adds a number if its entry is a node.
    #[inline(always)]
    fn push(&mut self, number: u8, entry: u32) {
        self.numbers[self.len % TOGETHER] = number;
        self.len += (entry >> NODE.trailing_zeros()) as usize;
    }
}

/// The bits of an address from one on, of which only those of its half are wanted: a shift of two words takes
/// twice as long.
#[inline(always)]
fn bits(addr: u128, shift: u32) -> u64 {
    let half = if shift >= 64 { (addr >> 64) as u64 } else { addr as u64 };
    half >> (shift % 64)
}

/// Looks up at most [`TOGETHER`] addresses.
#[inline]
fn look_up(shared: &Shared, addrs: &[u128], hops: &mut [u32]) {
    let nodes = shared.nodes();
    let byte = |addr: u128, shift: u32| bits(addr, shift) as u8;
    // Those that are at a node behind a multiple of 16 bits, and those that are 8 bits further.
    let (mut even, mut odd) = (Some64::NONE, Some64::NONE);
    let mut shift = FIRST_SHIFT;
    for (i, (&addr, hop)) in addrs.iter().zip(hops.iter_mut()).enumerate() {
        let node = nodes.root((addr >> 112) as u16);
        // The nodes at the root are few, and in a cache: the processor goes on with other addresses
        // meanwhile.
        if node & NODE == 0 {
            *hop = node;
        } else if node & FAR != 0 {
            *hop = nodes.far(node, bits(addr, shift) as u16);
            nodes.prefetch(*hop, || byte(addr, shift - STEP));
            even.push(i as u8, *hop);
        } else {
            *hop = nodes.step(node, byte(addr, shift + STEP));
            nodes.prefetch_step(*hop, byte(addr, shift));
            odd.push(i as u8, *hop);
        }
    }
    loop {
        let next = shift.saturating_sub(2 * STEP);
        for at in 0..odd.len.min(TOGETHER) {
            let i = usize::from(odd.numbers[at]);
            let (Some(&addr), Some(hop)) = (addrs.get(i), hops.get_mut(i)) else { continue };
            *hop = nodes.step_either(*hop, byte(addr, shift));
            nodes.prefetch(*hop, || byte(addr, next + STEP));
            even.push(i as u8, *hop);
        }
        // The last nodes have no children.
        if even.len == 0 || shift == 0 {
            break;
        }
        shift = next;
        let next = shift.saturating_sub(2 * STEP);
        let n = even.len.min(TOGETHER);
        (even.len, odd.len) = (0, 0);
        for at in 0..n {
            let i = usize::from(even.numbers[at]);
            let (Some(&addr), Some(hop)) = (addrs.get(i), hops.get_mut(i)) else { continue };
            let node = *hop;
            if node & FAR != 0 {
                *hop = nodes.far(node, bits(addr, shift) as u16);
                if *hop & NODE != 0 {
                    nodes.prefetch(*hop, || byte(addr, next + STEP));
                    even.push(i as u8, *hop);
                }
            } else {
                *hop = nodes.step(node, byte(addr, shift + STEP));
                if *hop & NODE != 0 {
                    nodes.prefetch_step(*hop, byte(addr, shift));
                    odd.push(i as u8, *hop);
                }
            }
        }
    }
    // Entries are next hops and one; without a route they become `NO_ROUTE`.
    hops.iter_mut().for_each(|hop| *hop = hop.wrapping_sub(1));
}
