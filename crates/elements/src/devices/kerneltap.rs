//! # KernelTap
//! Exchanges Ethernet frames with this machine's network stack through a new interface.
//!
//! ## Synopsis
//! `KernelTap(ADDR/MASK [, GATEWAY, DEVNAME, TAP, HEADROOM, ETHER, MTU, NETNS, BURST])`
//!
//! ## Arguments
//! - `ADDR` (*IP prefix*): the address that the interface gets in the kernel.
//! - `GATEWAY` (*IP address*): the kernel's default route goes to this address over the interface. It must
//!   be in the interface's network. Traffic that took a default route with a metric, as a DHCP client sets
//!   one, takes this one from then on; without a metric, there must be none yet.
//! - `DEVNAME` (*string*): the interface's name; by default the kernel chooses one.
//! - `TAP` (*bool*, default true): whether packets are Ethernet frames.
//! - `HEADROOM` (*int*, default 128): bytes left free before each packet.
//! - `ETHER` (*Ethernet address*): the interface's link address, of frames.
//! - `MTU` (*int*, default 1500): the interface's largest packet, in bytes.
//! - `NETNS` (*string*): the network namespace of the interface, as `ip netns` names it; by default the
//!   router's own. To enter another one takes the capability CAP_SYS_ADMIN.
//! - `BURST` (*int*, default the batch length): the most packets taken at a time.
//! - `IGNORE_QUEUE_OVERFLOWS`, `ADJUST_HEADROOM`: accepted for compatibility with Click, without effect.
//!
//! ## Ports
//! One input, agnostic; one push output, which may be left out. Input: packets that the kernel receives by
//! the interface. Output: packets that it sends by the interface. In a router that has given up its rights
//! (`valiant run --user`), a helper opens the interface.
//!
//! ## Handlers
//! - `dev_name` (read): the interface's name.
//! - `count`, `packets` (read): packets from the kernel.
//! - `selected_calls` (read): how often some were read.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! Idle -> tun :: KernelTap(10.99.0.1/24) -> Discard;
//! ```
//!
//! ## See also
//! FromHost, ToHost, FromDevice

use super::engine::kernel::{Kernel, KernelDevice};
use dpdk::TunMode;

/// The `KernelTap` element.
pub type KernelTap = Kernel<OfKernelTap>;

/// The properties of this class.
pub struct OfKernelTap;

impl KernelDevice for OfKernelTap {
    const CLASS: &'static str = "KernelTap";
    const MODE: TunMode = TunMode::Ethernet;
    const PORTS: &'static str = "0-1/0-1";
    const MANUAL: &'static str = manual!("devices/kerneltap");
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn an_address_is_wanted() {
        assert!(Bench::error("KernelTap()").contains("ADDR"));
    }
}
