//! The NIC slots of a server: external ports, and what is left for links.

use crate::wanted::{Nic, Server};

/// The ports that a server's NIC slots have for links, after `s` external ports.
pub(crate) struct Slots<'a> {
    nics: &'a [Nic],
    free: u64,
    /// The kind that holds the external ports, and its ports that are left over.
    external: Nic,
    spare: u64,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(server: &'a Server, rate_bps: u64, s: u64) -> Option<Self> {
        let fit = server.nics.iter().filter(|nic| nic.port_bps >= rate_bps);
        let external = *fit.max_by_key(|nic| (nic.ports, std::cmp::Reverse(nic.port_bps)))?;
        let used = s.div_ceil(u64::from(external.ports));
        let free = u64::from(server.slots).checked_sub(used)?;
        Some(Self { nics: &server.nics, free, external, spare: used * u64::from(external.ports) - s })
    }

    /// How many links of the rate `total` / `parts` are possible, and the number of NIC ports that most of
    /// them use.
    pub(crate) fn links(&self, total: u64, parts: u64) -> (u64, u64) {
        let width = |nic: &Nic| {
            let needed = u128::from(total).div_ceil(u128::from(nic.port_bps) * u128::from(parts));
            u64::try_from(needed).unwrap_or(u64::MAX).max(1)
        };
        let spare = self.spare / width(&self.external);
        let of = |nic: &Nic| {
            let (ports, width) = (self.free * u64::from(nic.ports), width(nic));
            let links =
                if *nic == self.external { (ports + self.spare) / width } else { ports / width + spare };
            (links, std::cmp::Reverse(width))
        };
        self.nics.iter().map(of).max().map_or((0, 1), |(links, width)| (links, width.0))
    }

    pub(crate) fn reaches(&self, total: u64, servers: u64) -> bool {
        self.links(total, servers).0 + 1 >= servers
    }

    /// No server has more links.
    pub(crate) fn most(&self) -> u64 {
        let widest = self.nics.iter().map(|nic| u64::from(nic.ports)).max().unwrap_or(0);
        self.free * widest + self.spare
    }

    /// The largest mesh, in servers.
    pub(crate) fn mesh(&self, total: u64) -> u64 {
        (1..=self.most() + 1).rev().find(|m| self.reaches(total, *m)).unwrap_or(1)
    }
}
