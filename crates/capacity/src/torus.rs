//! The same cluster as a torus, which RouteBricks (section 3.3) compares with the fly: how many servers it
//! takes.

use crate::slots::Slots;
use crate::wanted::{Matrix, Wanted};

/// The most dimensions: a server has two links for each.
const MOST_DIMENSIONS: u32 = 16;
/// The most servers of a ring.
const LONGEST_RING: u64 = 4096;
/// The most servers for an external port.
const MOST_SERVERS: u64 = 64;

/// A k-ary n-torus: in each of n dimensions, rings of k servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Torus {
    /// Servers of a ring.
    pub k: u64,
    /// Dimensions.
    pub n: u32,
    /// All servers; they share the external ports as evenly as possible.
    pub servers: u64,
    /// Links that a packet crosses on the way to a random server, on average.
    pub hops: f64,
}

impl Torus {
    fn new(k: u64, n: u32, servers: u64) -> Self {
        // Of k places around a ring, the farthest is k/2 away: (k² - 1) / 4k on average, or k/4 if k is even.
        let ring = if k.is_multiple_of(2) { k as f64 / 4.0 } else { (k * k - 1) as f64 / (4 * k) as f64 };
        Self { k, n, servers, hops: f64::from(n) * ring }
    }

    /// Links of a server: one between the two servers of a ring of two.
    fn degree(&self) -> u64 {
        u64::from(self.n) * if self.k == 2 { 1 } else { 2 }
    }

    /// Whether it carries what is wanted. A packet is processed where it comes in, and once for each link
    /// that it crosses: to a random server, and from there to its output unless the traffic is uniform.
    fn carries(&self, wanted: &Wanted) -> bool {
        let server = &wanted.server;
        let phases = if wanted.matrix == Matrix::Worst { 2.0 } else { 1.0 };
        let offered = (wanted.ports * wanted.rate_bps) as f64 / self.servers as f64;
        let crossings = offered * phases * self.hops;
        let forwarded = server.forward_bps.unwrap_or(server.rate_bps);
        let used = offered / server.rate_bps as f64 + crossings / forwarded as f64;
        // The same slots as in a fly: what holds the external ports has none for links.
        let slots = Slots::new(server, wanted.rate_bps, wanted.ports.div_ceil(self.servers));
        let links = |slots: &Slots<'_>| slots.links(crossings.ceil() as u64, self.degree()).0;
        used <= 1.0 && slots.is_some_and(|slots| links(&slots) >= self.degree())
    }
}

/// The smallest torus that carries what is wanted; none, if there is none of a reasonable size.
pub(crate) fn smallest(wanted: &Wanted) -> Option<Torus> {
    let most = wanted.ports.saturating_mul(MOST_SERVERS);
    let of = |n: u32| {
        (2..=LONGEST_RING).map_while(move |k: u64| {
            let servers = k.checked_pow(n).filter(|servers| *servers <= most)?;
            Some(Torus::new(k, n, servers))
        })
    };
    let fit = (1..=MOST_DIMENSIONS).filter_map(|n| of(n).find(|torus| torus.carries(wanted)));
    fit.min_by_key(|torus| (torus.servers, torus.n))
}
