//! # FromHost
//! Receives packets that this machine's network stack sends through a new interface.
//!
//! ## Synopsis
//! `FromHost(DEVNAME [, DST, ETHER, TYPE, NETNS, HEADROOM, MTU, BURST])`
//!
//! ## Arguments
//! - `DEVNAME` (*string*): the interface's name.
//! - `DST` (*IP prefix*): the address that the interface gets in the kernel.
//! - `ETHER` (*Ethernet address*): the interface's link address.
//! - `TYPE` (*`ETHER` or `IP`*, default `ETHER`): what packets begin with.
//! - `NETNS` (*string*, keyword): the network namespace of the interface, as `ip netns` names it; by default
//!   the router's own. To enter another one takes the capability CAP_SYS_ADMIN.
//! - `HEADROOM` (*int*, default 128): bytes left free before each packet.
//! - `MTU` (*int*, default 1500): the interface's largest packet, in bytes.
//! - `BURST` (*int*, default the batch length): the most packets taken at a time.
//! - `CAPACITY`, `CLEAR_ANNO`: accepted for compatibility with Click, without effect.
//!
//! ## Ports
//! No input, one push output.
//!
//! ## Handlers
//! - `dev_name` (read): the interface's name.
//! - `ether` (read): its link address.
//! - `count` (read): packets taken.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! FromHost(fake0, 10.99.1.1/24) -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) -> ToHost(fake0);
//! ```
//!
//! ## See also
//! ToHost, KernelTap, KernelTun

use super::engine::arguments;
use super::engine::host::HostSlot;
use crate::files::engine::link::{Link, force_ip};
use crate::prelude::*;
use dpdk::{TunConfig, TunMode};
use lang::args::IpPrefix;

/// The `FromHost` element.
pub struct FromHost {
    device: HostSlot,
    burst: usize,
    count: Counter,
}

impl Element for FromHost {
    const CLASS: &'static str = "FromHost";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const OPENS: Option<Opens> = Some(Opens::Interface);
    const MANUAL: &'static str = manual!("devices/fromhost");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let name: String = args.mp("DEVNAME")?;
        let address = args.p::<IpPrefix>("DST")?;
        let mac = args.k::<lang::args::EtherAddr>("ETHER")?;
        let mode = match args.k::<String>("TYPE")?.unwrap_or_default().to_ascii_uppercase().as_str() {
            "" | "ETHER" => TunMode::Ethernet,
            "IP" => TunMode::Ip,
            _ => return Err(ArgError::new("bad TYPE, expected ETHER or IP")),
        };
        let mut config = TunConfig::new(&name, mode);
        config.address = address.map(|a| (a.addr, u32::from(a.mask).count_ones() as u8));
        config.mac = mac.map(|a| a.0);
        config.namespace = arguments::namespace(args)?;
        cx.permits(Outside::Interface(&name, config.namespace.as_deref()), args)?;
        config.headroom = args.k::<u16>("HEADROOM")?.map_or(dpdk::DEFAULT_HEADROOM, usize::from);
        config.mtu = args.k("MTU")?;
        let burst = arguments::burst(args, cx)?;
        args.k::<u32>("CAPACITY")?;
        args.k::<bool>("CLEAR_ANNO")?;
        let device = HostSlot::open(cx, config);
        Ok(Self { device, burst, count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("dev_name", |e| e.device.get().map_or_else(String::new, |d| d.name.clone()));
        h.read("ether", |e| {
            e.device.get().map_or_else(String::new, |d| lang::args::EtherAddr(d.mac()).to_string())
        });
        h.counter("count", |e| &e.count);
        h.listed(&["dev_name"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(device) = self.device.get() else { return false };
        let mut batch = cx.spare_batch();
        let n = device.read(self.burst.min(cx.batch_size()), &mut batch, cx.now_ns());
        if device.mode == TunMode::Ethernet {
            for packet in &mut *batch {
                force_ip(packet, Link::ETHER);
            }
        }
        self.count.add(n as u64);
        cx.output_batch(0, batch);
        cx.reschedule();
        if n == 0 {
            cx.idle_until_readable(&[device.socket]);
        }
        n > 0
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl Vector for FromHost {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_name_is_wanted() {
        assert!(Bench::error("FromHost()").contains("DEVNAME"));
        assert!(Bench::error("FromHost(fake0, TYPE X)").contains("bad TYPE"));
    }
}
