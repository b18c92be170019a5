//! # KernelTap
//! Exchanges Ethernet frames with this machine's network stack through a new interface.
//!
//! ## Synopsis
//! `KernelTap(ADDR/MASK [, GATEWAY, DEVNAME, HEADROOM, ETHER, MTU, BURST])`
//!
//! ## Arguments
//! - `ADDR/MASK` (*IP prefix*): the address that the interface gets in the kernel.
//! - `GATEWAY` (*IP address*): accepted for Click's sake; set routes with `ip route`.
//! - `DEVNAME` (*string*): the interface's name; by default the kernel chooses one.
//! - `HEADROOM` (*int*, default 128): bytes left free before each packet.
//! - `ETHER` (*Ethernet address*): the interface's link address (KernelTap).
//! - `MTU` (*int*, default 1500): the interface's largest packet, in bytes.
//! - `BURST` (*int*, default the vector length): the most packets taken at a time.
//! - `IGNORE_QUEUE_OVERFLOWS`, `ADJUST_HEADROOM`: accepted for Click's sake, without effect.
//!
//! ## Ports
//! One input, agnostic; one push output, which may be left out. Input: packets that the kernel receives by the interface.
//! Output: packets that it sends by the interface.
//!
//! ## Handlers
//! - `dev_name` (read): the interface's name.
//! - `count` (read): packets from the kernel.
//!
//! ## Drop reasons
//! - `host queue full`
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

use super::host::{HostDevice, ToKernel};
use crate::prelude::*;
use dpdk::{TunConfig, TunMode};
use lang::args::IpPrefix;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The `KernelTap` element.
pub struct KernelTap {
    device: Option<Arc<HostDevice>>,
    out: ToKernel,
    burst: usize,
    count: Counter,
}

impl Element for KernelTap {
    const CLASS: &'static str = "KernelTap";
    const PORTS: &'static str = "0-1/0-1";
    const PROCESSING: &'static str = "a/h";
    const FLOW: &'static str = "x/y";
    const MANUAL: &'static str = manual!("devices/kerneltap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address: IpPrefix = args.mp("ADDR/MASK")?;
        let _gateway = args.p::<Ipv4Addr>("GATEWAY")?;
        let name = args.k::<String>("DEVNAME")?.or(args.k("DEV_NAME")?).unwrap_or_default();
        let mut config = TunConfig::new(&name, TunMode::Ethernet);
        config.address = Some((address.addr, u32::from(address.mask).count_ones() as u8));
        config.mac = args.k::<lang::args::EtherAddr>("ETHER")?.map(|a| a.0);
        config.mtu = args.k("MTU")?;
        config.headroom = args.k::<u16>("HEADROOM")?.map_or(dpdk::DEFAULT_HEADROOM, usize::from);
        let burst = args.k::<u16>("BURST")?.map_or(cx.vector(), usize::from).max(1);
        args.k::<bool>("IGNORE_QUEUE_OVERFLOWS")?;
        args.k::<bool>("ADJUST_HEADROOM")?;
        let device = match cx.check_only() {
            true => None,
            false => Some(HostDevice::open(cx, &config).map_err(ArgError::new)?),
        };
        Ok(Self { device, out: ToKernel::new(), burst, count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("dev_name", |e| e.device.as_ref().map_or_else(String::new, |d| d.name.clone()));
        h.counter("count", |e| &e.count);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(device) = self.device.clone() else { return false };
        cx.reschedule();
        let mut moved = self.out.flush(&device, cx);
        if cx.n_inputs() > 0 && cx.input_is_pull(0) {
            let mut batch = cx.spare_batch();
            moved |= cx.pull(0, self.burst, &mut batch) > 0;
            self.out.push(&device, batch, cx);
        }
        if cx.n_outputs() > 0 {
            let mut batch = cx.spare_batch();
            let n = device.read(self.burst.min(cx.vector()), &mut batch);
            self.count.add(n as u64);
            moved |= n > 0;
            cx.output_batch(0, batch);
        }
        moved
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.out.take_over(&mut old.out);
    }
}

impl Vector for KernelTap {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        match self.device.clone() {
            Some(device) => self.out.push(&device, batch, cx),
            None => cx.drop_batch(batch, "no device"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn an_address_is_wanted() {
        assert!(Bench::error("KernelTap()").contains("ADDR/MASK"));
    }
}
