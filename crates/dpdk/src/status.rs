//! The status and the counters of a port.

/// The state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// It works.
    Up,
    /// It has no link.
    Down,
    /// Its device has disappeared, for good: it receives nothing and sends nothing.
    Gone,
}

/// How a port reaches its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A DPDK device as it is.
    Device,
    /// A Linux interface through AF_XDP sockets.
    AfXdp,
    /// A Linux interface through AF_PACKET sockets.
    AfPacket,
    /// No device: packets come from this process and go to it.
    Virtual,
}

/// Counters of a port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets lost because they were not taken from the receive queue in time.
    pub rx_missed: u64,
    /// Packets received broken.
    pub rx_errors: u64,
    /// Packets lost because no buffer was free.
    pub rx_no_buffer: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// A port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether it is up.
    pub up: bool,
    /// Its speed in Mb/s; 0 if it is down, `None` if it is not known.
    pub speed_mbps: Option<u32>,
    /// Whether it is full duplex.
    pub full_duplex: bool,
}
