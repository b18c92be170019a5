//! The requirements of a port's users.

/// As many as an AF_XDP ring of the driver has: with fewer, a burst of TCP overflows the receive ring of a
/// busy core.
const DEFAULT_DESCRIPTORS: u16 = 2048;

/// The method by which a Linux interface is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// AF_XDP where it works, else AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP or an error.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// The requirements of a port's users.
#[derive(Clone, Debug, Default)]
pub struct PortConfig {
    /// The number of receive queues without specific numbers.
    pub rx_queues: u16,
    /// The number of transmit queues without specific numbers; the device may have fewer.
    pub tx_queues: u16,
    /// Groups of receive queues besides the first, for packets that are given to them by their tags
    /// ([`crate::Port::steer`]); the receive queues are distributed over all groups. 0: by the hash of flows.
    pub steered: u16,
    /// Receive queues with specific numbers, in addition.
    pub rx_numbers: Vec<u16>,
    /// Transmit queues with specific numbers, in addition.
    pub tx_numbers: Vec<u16>,
    /// Descriptors in a receive queue; 0 is 2048.
    pub rx_desc: u16,
    /// Descriptors in a transmit queue; 0 is 2048.
    pub tx_desc: u16,
    /// Largest network packet in bytes; `None` leaves it as it is.
    pub mtu: Option<u32>,
    /// Whether to receive frames to other addresses (promiscuous mode).
    pub promisc: bool,
    /// The method by which a Linux interface is opened.
    pub method: Method,
    /// Whether the kernel processes the packets of a Linux interface too, which only AF_PACKET can do;
    /// `None`: if AF_PACKET is requested.
    pub sniffer: Option<bool>,
    /// Packets that may wait in queues behind this port, for which buffers are set aside.
    pub extra_buffers: usize,
    /// The most packets that are received or sent at once, as far as that is known: buffers are kept at hand
    /// for it.
    pub burst: usize,
    /// The key of the hash that spreads packets over receive queues; `None` is the driver's.
    pub rss_key: Option<Vec<u8>>,
}

impl PortConfig {
    /// The requirements of both users together.
    pub fn merge(&mut self, other: &PortConfig) {
        self.rx_queues = self.rx_queues.saturating_add(other.rx_queues);
        self.tx_queues = self.tx_queues.saturating_add(other.tx_queues);
        for (numbers, more) in
            [(&mut self.rx_numbers, &other.rx_numbers), (&mut self.tx_numbers, &other.tx_numbers)]
        {
            numbers.extend(more);
            numbers.sort_unstable();
            numbers.dedup();
        }
        self.steered = self.steered.max(other.steered);
        self.rx_desc = self.rx_desc.max(other.rx_desc);
        self.tx_desc = self.tx_desc.max(other.tx_desc);
        self.mtu = self.mtu.max(other.mtu);
        self.promisc |= other.promisc;
        self.sniffer = self.sniffer.or(other.sniffer);
        self.extra_buffers += other.extra_buffers;
        self.burst = self.burst.max(other.burst);
        if self.method == Method::Auto {
            self.method = other.method;
        }
        if self.rss_key.is_none() {
            self.rss_key.clone_from(&other.rss_key);
        }
    }

    /// How many receive and transmit queues are necessary for this.
    #[must_use]
    pub fn queues(&self) -> (u16, u16) {
        let counted = self.counted();
        (counted.rx_queues, counted.tx_queues)
    }

    /// The same requirements without specific numbers: enough queues to include those.
    pub(crate) fn counted(&self) -> PortConfig {
        let count = |any: u16, numbers: &[u16]| {
            let highest = numbers.iter().max().map_or(0, |highest| highest.saturating_add(1));
            any.saturating_add(numbers.len() as u16).max(highest)
        };
        PortConfig {
            rx_queues: count(self.rx_queues, &self.rx_numbers),
            tx_queues: count(self.tx_queues, &self.tx_numbers),
            rx_numbers: Vec::new(),
            tx_numbers: Vec::new(),
            ..self.clone()
        }
    }

    pub(crate) fn rx_descriptors(&self) -> u16 {
        if self.rx_desc == 0 { DEFAULT_DESCRIPTORS } else { self.rx_desc }
    }

    pub(crate) fn tx_descriptors(&self) -> u16 {
        if self.tx_desc == 0 { DEFAULT_DESCRIPTORS } else { self.tx_desc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_among_the_queues() {
        let counted = |any, numbers: &[u16]| {
            let needs = PortConfig { rx_queues: any, rx_numbers: numbers.to_vec(), ..PortConfig::default() };
            needs.counted().rx_queues
        };
        assert_eq!((counted(2, &[]), counted(0, &[0, 1]), counted(0, &[5]), counted(2, &[1])), (2, 2, 6, 3));
    }

    #[test]
    fn needs_add_up() {
        let mut needs = PortConfig { rx_queues: 2, rx_desc: 256, mtu: Some(1400), ..PortConfig::default() };
        needs.merge(&PortConfig {
            tx_queues: 3,
            promisc: true,
            method: Method::AfPacket,
            ..PortConfig::default()
        });
        assert_eq!((needs.rx_queues, needs.tx_queues, needs.rx_desc, needs.mtu), (2, 3, 256, Some(1400)));
        assert!(needs.promisc);
        assert_eq!(needs.method, Method::AfPacket);
    }
}
