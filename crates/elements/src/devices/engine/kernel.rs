//! The engine of `KernelTun` and `KernelTap`.

use super::arguments;
use super::host::{HostDevice, HostSlot, ToKernel};
use crate::ip::engine::header::strip_to;
use crate::prelude::*;
use dpdk::{TunConfig, TunMode};
use lang::args::IpPrefix;
use std::marker::PhantomData;
use std::net::Ipv4Addr;

/// What distinguishes the two elements.
pub trait KernelDevice: Send + 'static {
    /// The class.
    const CLASS: &'static str;
    /// What packets begin with.
    const MODE: TunMode;
    /// The ports.
    const PORTS: &'static str;
    /// The manual.
    const MANUAL: &'static str;
}

const NOT_IP: DropReason = DropReason::new("not IP");

/// The longest Ethernet header, with a VLAN tag.
const MOST_ETHERNET: usize = 18;

const DROPS: &[DropCase] = &[
    super::host::DROPS[0],
    super::host::DROPS[1],
    super::host::DROPS[2],
    super::host::DROPS[3],
    NOT_IP.when("what the kernel sends by the interface has no IP header, and there is no second output"),
    drops::NO_IP_HEADER.when("its IP header was marked and is not there any more"),
    drops::LONGER_THAN_THE_MTU.when("the IP packet is longer than the interface's MTU"),
];

/// A kernel interface, seen from the router's side.
pub struct Kernel<K> {
    kind: PhantomData<K>,
    device: HostSlot,
    out: ToKernel,
    burst: usize,
    count: Counter,
    /// How often there were some to read.
    selected_calls: Counter,
}

impl<K: KernelDevice> Element for Kernel<K> {
    const CLASS: &'static str = K::CLASS;
    const PORTS: &'static str = K::PORTS;
    const PROCESSING: &'static str = "a/h";
    const FLOW: &'static str = "x/y";
    const READS: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = DROPS;
    const OPENS: Option<Opens> = Some(Opens::Interface);
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address: IpPrefix = args.mp("ADDR")?;
        let gateway = args.p::<Ipv4Addr>("GATEWAY")?.filter(|gateway| !gateway.is_unspecified());
        if gateway.is_some_and(|gateway| gateway & address.mask != address.addr & address.mask) {
            return Err(args.error("bad GATEWAY"));
        }
        let name = args.k::<String>("DEVNAME")?.or(args.k("DEV_NAME")?).unwrap_or_default();
        let tap = args.k_or("TAP", K::MODE == TunMode::Ethernet)?;
        let mut config = TunConfig::new(&name, if tap { TunMode::Ethernet } else { TunMode::Ip });
        config.address = Some((address.addr, u32::from(address.mask).count_ones() as u8));
        config.gateway = gateway;
        config.mac = args.k::<lang::args::EtherAddr>("ETHER")?.map(|a| a.0);
        config.mtu = args.k("MTU")?;
        config.namespace = arguments::namespace(args)?;
        cx.permits(Outside::Interface(&name, config.namespace.as_deref()), args)?;
        config.headroom = args.k::<u16>("HEADROOM")?.map_or(dpdk::DEFAULT_HEADROOM, usize::from);
        let burst = arguments::burst(args, cx)?;
        args.k::<bool>("IGNORE_QUEUE_OVERFLOWS")?;
        args.k::<bool>("ADJUST_HEADROOM")?;
        let device = HostSlot::open(cx, config);
        Ok(Self {
            kind: PhantomData,
            device,
            out: ToKernel::new(),
            burst,
            count: Counter::new(),
            selected_calls: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("dev_name", |e| e.device.get().map_or_else(String::new, |d| d.name.clone()));
        h.counter("count", |e| &e.count);
        h.counter("selected_calls", |e| &e.selected_calls);
        h.counter("packets", |e| &e.count);
        h.listed(&["dev_name", "selected_calls", "packets"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(device) = self.device.get().cloned() else { return false };
        cx.reschedule();
        let mut moved = self.out.flush(&device, cx);
        if cx.n_inputs() > 0 && cx.input_is_pull(0) {
            let mut batch = cx.spare_batch();
            let burst = self.burst;
            moved |= cx.pull_lending(self, 0, burst, &mut batch) > 0;
            self.send(&device, batch, cx);
        }
        if cx.n_outputs() > 0 {
            let mut batch = cx.spare_batch();
            let n = device.read(self.burst.min(cx.batch_size()), &mut batch, cx.now_ns());
            self.count.add(n as u64);
            self.selected_calls.add((n > 0).into());
            moved |= n > 0;
            if device.mode == TunMode::Ip {
                batch.filter_map_in_place(|packet| {
                    if packet.network_header_offset().is_some() {
                        return Some(packet);
                    }
                    cx.fail(packet, NOT_IP);
                    None
                });
            }
            cx.output_batch(0, batch);
        }
        let pulls = cx.n_inputs() > 0 && cx.input_is_pull(0);
        if !moved && self.out.is_empty() && cx.n_outputs() > 0 && !(pulls && cx.upstream_active(0)) {
            cx.idle_until_readable(&[device.socket]);
        }
        moved
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.selected_calls.set(old.selected_calls.get());
        self.out.take_over(&mut old.out);
    }
}

impl<K> Kernel<K> {
    /// Gives packets to the kernel: those with a marked IP header, where it takes IP packets, from there on.
    fn send(&mut self, device: &HostDevice, mut batch: Batch, cx: &mut Cx<'_>) {
        let ip = device.mode == TunMode::Ip;
        let most = device.mtu() + if ip { 0 } else { MOST_ETHERNET };
        batch.filter_map_in_place(|mut packet| {
            let header = packet.network_header_offset().filter(|_| ip);
            if header.is_some() {
                packet = strip_to(packet, header, cx)?;
            }
            if packet.len() > most {
                cx.drop(packet, drops::LONGER_THAN_THE_MTU);
                return None;
            }
            Some(packet)
        });
        self.out.push(device, batch, cx);
    }
}

impl<K: KernelDevice> Vector for Kernel<K> {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        match self.device.get().cloned() {
            Some(device) => self.send(&device, batch, cx),
            None => cx.drop_batch(batch, drops::NO_DEVICE),
        }
    }
}
