//! The networks of external ports, and the numbers of their next hops.

use lang::args::StrictIpPrefix;

/// The network of an external port: next hops are numbered within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Network {
    address: u32,
    mask: u32,
}

impl Network {
    /// Reads the network from an argument.
    pub(in crate::cluster) fn from_prefix(prefix: StrictIpPrefix) -> Result<Self, String> {
        let prefix = prefix.0;
        match prefix.prefix_len() {
            Some(16..=32) => Ok(Self { address: prefix.network().into(), mask: prefix.mask.into() }),
            Some(length) => Err(format!(
                "{prefix} is too large: the next hop has 16 bits in an internal address, so a network is /16 or longer, not /{length}"
            )),
            None => Err(format!("{prefix} is no network: its mask has gaps")),
        }
    }
    /// The number of a next hop; `None` outside the network.
    #[inline]
    pub(in crate::cluster) fn number(self, next_hop: [u8; 4]) -> Option<u16> {
        let next_hop = u32::from_be_bytes(next_hop);
        (next_hop & self.mask == self.address).then_some((next_hop & !self.mask) as u16)
    }
    /// The next hop that has a number; `None` outside the network.
    #[inline]
    pub(in crate::cluster) fn next_hop(self, number: u16) -> Option<[u8; 4]> {
        (u32::from(number) & self.mask == 0).then(|| (self.address | u32::from(number)).to_be_bytes())
    }
}
