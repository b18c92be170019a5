//! # KernelTun
//! Exchanges IP packets with this machine's network stack through a new interface.
//!
//! ## Synopsis
//! `KernelTun(ADDR/MASK [, GATEWAY, DEVNAME, TAP, HEADROOM, ETHER, MTU, NETNS, BURST])`
//!
//! ## Arguments
//! - `ADDR` (*IP prefix*): the address that the interface gets in the kernel.
//! - `GATEWAY` (*IP address*): the kernel's default route goes to this address over the interface. It must
//!   be in the interface's network. Traffic that took a default route with a metric, as a DHCP client sets
//!   one, takes this one from then on; without a metric, there must be none yet.
//! - `DEVNAME` (*string*): the interface's name; by default the kernel chooses one.
//! - `TAP` (*bool*, default false): whether packets are Ethernet frames.
//! - `HEADROOM` (*int*, default 128): bytes left free before each packet.
//! - `ETHER` (*Ethernet address*): the interface's link address, of frames.
//! - `MTU` (*int*, default 1500): the interface's largest packet, in bytes.
//! - `NETNS` (*string*): the network namespace of the interface, as `ip netns` names it; by default the
//!   router's own. To enter another one takes the capability CAP_SYS_ADMIN.
//! - `BURST` (*int*, default the batch length): the most packets taken at a time.
//! - `IGNORE_QUEUE_OVERFLOWS`, `ADJUST_HEADROOM`: accepted for compatibility with Click, without effect.
//!
//! ## Ports
//! One input, agnostic; up to two push outputs. Input: packets that the kernel receives by the interface. If
//! their IP header is marked, what comes before it is left out; otherwise they must begin with it.
//! Output 0: IP packets that it sends by the interface. Output 1: what it sends and is not IP; without this
//! output, it is dropped.
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
//! Idle -> tun :: KernelTun(10.99.0.1/24) -> Discard;
//! ```
//!
//! ## See also
//! FromHost, ToHost, FromDevice

use super::engine::kernel::{Kernel, KernelDevice};
use dpdk::TunMode;

/// The `KernelTun` element.
pub type KernelTun = Kernel<OfKernelTun>;

/// The properties of this class.
pub struct OfKernelTun;

impl KernelDevice for OfKernelTun {
    const CLASS: &'static str = "KernelTun";
    const MODE: TunMode = TunMode::Ip;
    const PORTS: &'static str = "0-1/0-2";
    const MANUAL: &'static str = manual!("devices/kerneltun");
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn an_address_is_wanted() {
        assert!(Bench::error("KernelTun()").contains("ADDR"));
        assert!(Bench::error("KernelTun(10.99.0.1/24, 10.98.0.2)").contains("bad GATEWAY"));
    }
}
