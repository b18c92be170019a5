//! How many buffers a port needs, and how large they must be.

use std::fs;

use crate::buffer::{DEFAULT_HEADROOM, MAX_BUFFER, PAGE_BUFFER, STANDARD_BUFFER};
use crate::mempool;
use crate::needs::{Method, PortConfig};
use crate::netdev::{self, Interface};
use crate::spec::PortSpec;

/// Bytes that a frame has beyond its network packet: Ethernet header and two VLAN tags.
pub(crate) const FRAME_EXTRA: usize = 14 + 8;
/// Bytes that drivers want in a buffer beyond that: a checksum, and virtio's header of 12 bytes.
const DRIVER_EXTRA: usize = 16;
/// Bytes that the kernel keeps before the data of an AF_XDP frame, beyond our headroom.
pub(crate) const XDP_HEADROOM: usize = 256;
/// Buffers that DPDK's AF_XDP driver puts into the rings of one queue.
const XDP_RING: usize = 4096 + 2048;
/// The most queues of one interface that AF_XDP takes; each is a DPDK device, of which there are 32 in
/// Debian's DPDK.
pub(super) const XDP_QUEUES_MAX: u16 = 16;

/// The buffers and their size that a port needs at most, to make one pool for all ports before the first is
/// opened.
pub(crate) fn buffers_wanted(spec: &PortSpec, config: &PortConfig) -> (usize, usize) {
    if matches!(spec, PortSpec::Virtual(_)) {
        // Its packets lie in the buffers of the ports that they come from.
        return (config.extra_buffers, STANDARD_BUFFER);
    }
    let interface = match spec {
        PortSpec::Interface(name) => netdev::interface(name).ok(),
        _ => None,
    };
    let mtu = config.mtu.or(interface.as_ref().map(|interface| interface.mtu)).unwrap_or(1500) as usize;
    // What the caches of more than a few workers hold is beyond the spare buffers.
    // What the kernel has put into rings is not in buffers of the pool.
    let receiving = config.rx_queues / (config.steered + 1);
    let caches = usize::from(receiving).saturating_sub(1) * mempool::cache();
    let queues = caches
        + usize::from(receiving.max(1)) * usize::from(config.rx_descriptors())
        + usize::from(config.tx_queues.max(1)) * usize::from(config.tx_descriptors());
    match interface {
        Some(interface)
            if config.method != Method::AfPacket && config.rx_queues > 0 && config.steered == 0 =>
        {
            let rings = usize::from(interface.rx_queues.min(XDP_QUEUES_MAX)) * XDP_RING;
            (rings.max(queues) + config.extra_buffers, xdp_buffer(&interface, mtu))
        }
        _ => (queues + config.extra_buffers + preloaded(spec), frame_buffer(mtu)),
    }
}

/// The packets that `net_pcap` keeps in buffers when it repeats its files for ever.
fn preloaded(spec: &PortSpec) -> usize {
    let PortSpec::Vdev(devargs) = spec else { return 0 };
    let arguments = || devargs.split(',').skip(1).filter_map(|argument| argument.split_once('='));
    if !devargs.starts_with("net_pcap")
        || !arguments().any(|(key, value)| key == "infinite_rx" && value != "0")
    {
        return 0;
    }
    // A file that cannot be read is the driver's to complain about.
    let files = arguments().filter(|(key, _)| *key == "rx_pcap").filter_map(|(_, path)| fs::read(path).ok());
    files.map(|file| packets_in(&file)).sum()
}

/// How many packets a pcap file has (draft-ietf-opsawg-pcap: a header of 24 bytes, 16 before each packet).
fn packets_in(file: &[u8]) -> usize {
    let swapped = matches!(file.first_chunk(), Some(&([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d])));
    let (mut rest, mut count) = (file.get(24..).unwrap_or_default(), 0);
    while let Some(&length) = rest.get(8..).and_then(|r| r.first_chunk()) {
        let length = if swapped { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
        let Some(next) = rest.get(16 + length as usize..) else { break };
        (rest, count) = (next, count + 1);
    }
    count
}

/// Bytes in a buffer for frames with packets of up to `mtu` bytes.
pub(super) fn frame_buffer(mtu: usize) -> usize {
    (DEFAULT_HEADROOM + mtu + FRAME_EXTRA + DRIVER_EXTRA).clamp(STANDARD_BUFFER, MAX_BUFFER)
}

/// Drivers that copy between AF_XDP frames and buffers of their own, so that frames may lie anywhere.
const XDP_COPIES: [&str; 6] = ["", "veth", "tun", "bridge", "macvlan", "vxlan"];

/// Whether AF_XDP sockets copy packets because the driver cannot leave them where they are.
pub(super) fn xdp_copies(interface: &Interface) -> bool {
    XDP_COPIES.contains(&interface.driver.as_str())
}

/// Bytes in a buffer for AF_XDP frames.
fn xdp_buffer(interface: &Interface, mtu: usize) -> usize {
    let needed = (DEFAULT_HEADROOM + XDP_HEADROOM + mtu + FRAME_EXTRA).max(STANDARD_BUFFER);
    // SAFETY: any time after the environment has started, or before, when the answer does not matter.
    let virtual_addresses = unsafe { dpdk_sys::valiant_iova_is_va() } != 0;
    if xdp_copies(interface) && virtual_addresses { needed.min(PAGE_BUFFER) } else { PAGE_BUFFER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_pcap_file_are_counted() {
        let little = [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0; 20]].concat();
        let big = [&[0xa1, 0xb2, 0xc3, 0xd4][..], &[0; 20]].concat();
        let record = |length: [u8; 4]| [&[0; 8][..], &length, &length, &[7; 3]].concat();
        let both = [&little[..], &record([3, 0, 0, 0]), &record([3, 0, 0, 0])].concat();
        assert_eq!(packets_in(&both), 2);
        assert_eq!(packets_in(&both[..both.len() - 1]), 1);
        assert_eq!(packets_in(&[&big[..], &record([0, 0, 0, 3])].concat()), 1);
        assert_eq!((packets_in(&big), packets_in(&[])), (0, 0));
        for length in 0..both.len() {
            assert!(packets_in(&both[..length]) < 2);
        }
    }
}
