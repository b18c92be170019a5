//! TUN and TAP devices: the interface to this machine's own network stack, which `KernelTun`, `KernelTap`,
//! `FromHost` and `ToHost` open.

use crate::prelude::*;
use dpdk::{Tun, TunConfig, TunMode};
use locks::IgnorePoison;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use wire::{Ipv4, ipv4, ipv6};

/// Drop reasons of elements that give packets to the kernel.
pub(in crate::devices) const DROPS: &[DropCase] = &[
    drops::HOST_QUEUE_FULL.when("so many packets wait for the kernel that there was no room for more"),
    drops::NO_DEVICE.when("the device is not open"),
    REFUSED.when("the kernel does not take it: it is too short or too long, or begins with no IP header"),
    DOWN.when("somebody has switched the interface off"),
];

const REFUSED: DropReason = DropReason::new("refused by the kernel");
const DOWN: DropReason = DropReason::new("interface down");

/// A device that `FromHost` opens and `ToHost` finds by its name.
pub(crate) struct HostDevice {
    tun: Mutex<Tun>,
    /// The file descriptor that is readable while packets wait.
    pub(crate) socket: RawFd,
    pub(crate) name: String,
    pub(crate) mode: TunMode,
}

/// A device that is opened when all elements are configured; `None` if the configuration is only checked.
#[derive(Default)]
pub(crate) struct HostSlot(Arc<OnceLock<Arc<HostDevice>>>);

impl HostSlot {
    /// Has the device opened, or shares it with the element that has it open: over a hot swap, and between
    /// FromHost and ToHost. The device gets its address and is switched on when the new configuration takes
    /// over.
    pub(crate) fn open(cx: &mut ConfigCx<'_>, config: TunConfig) -> Self {
        let place = Arc::<OnceLock<Arc<HostDevice>>>::default();
        let (hub, opened, settled) = (Arc::clone(cx.hub()), Arc::clone(&place), Arc::clone(&place));
        cx.before_start(move || {
            let key = format!("host device {} {:?} {:?}", config.name, config.mode, config.namespace);
            let device = hub.resource(&key, || {
                let tun = Tun::attach(&config).map_err(|e| e.to_string())?;
                let name = tun.name().to_owned();
                Ok(HostDevice { socket: tun.as_raw_fd(), tun: Mutex::new(tun), name, mode: config.mode })
            })?;
            // Set once, here.
            let _ = opened.set(device);
            Ok(())
        });
        cx.at_change_over(move || {
            settled.get().map_or(Ok(()), |device| device.tun().settle().map_err(|e| e.to_string()))
        });
        Self(place)
    }
    /// The device.
    pub(crate) fn get(&self) -> Option<&Arc<HostDevice>> {
        self.0.get()
    }
}

impl HostDevice {
    fn tun(&self) -> MutexGuard<'_, Tun> {
        self.tun.lock().ignore_poison()
    }
    /// Its link address.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.tun().interface().mac
    }
    /// Its MTU.
    pub(crate) fn mtu(&self) -> usize {
        self.tun().interface().mtu as usize
    }
    /// Appends the packets that the kernel sends by the device; it is `now_ns`.
    pub(crate) fn read(&self, max: usize, batch: &mut Batch, now_ns: u64) -> usize {
        let mut tun = self.tun();
        let from = batch.len();
        let n = tun.read(max, batch);
        for packet in &mut batch[from..] {
            packet.set_timestamp_ns(now_ns);
            if self.mode == TunMode::Ip {
                mark(packet);
            } else {
                packet.set_mac_header(0);
            }
        }
        n
    }
    /// Gives packets to the kernel, and counts those that it refuses. Those that it cannot take now stay.
    fn write(&self, batch: &mut Batch, cx: &mut Cx<'_>) -> usize {
        let mut tun = self.tun();
        let before = tun.stats();
        let n = tun.write(batch);
        let after = tun.stats();
        drop(tun);
        cx.count_drops(after.refused - before.refused, REFUSED);
        cx.count_drops(after.down - before.down, DOWN);
        n
    }
}

/// Marks the IP header of a packet that begins with a whole one. Returns whether it does.
pub(in crate::devices) fn mark(packet: &mut Packet) -> bool {
    let header = Ipv4::new(packet.data()).map(|h| (h.version(), h.header_len(), h.dst()));
    match header {
        Some((4, length, dst)) if length >= ipv4::HEADER_LEN && length <= packet.len() => {
            packet.set_network_header(0, length);
            packet.set_dst_ip(dst.octets());
            true
        }
        Some((6, ..)) if packet.len() >= ipv6::HEADER_LEN => {
            packet.set_network_header(0, ipv6::HEADER_LEN);
            true
        }
        _ => false,
    }
}

/// Packets that wait until the kernel's device can take them.
pub(crate) struct ToKernel {
    waiting: VecDeque<Batch>,
    packets: usize,
}

/// How many packets may wait for the kernel.
const ROOM: usize = 1024;

impl ToKernel {
    pub(crate) fn new() -> Self {
        Self { waiting: VecDeque::new(), packets: 0 }
    }
    /// Writes a batch after the packets that wait already; drops packets above the limit.
    pub(crate) fn push(&mut self, device: &HostDevice, mut batch: Batch, cx: &mut Cx<'_>) {
        self.flush(device, cx);
        if self.waiting.is_empty() {
            device.write(&mut batch, cx);
        }
        if batch.is_empty() {
            return cx.recycle(batch);
        }
        let room = ROOM - self.packets;
        if room < batch.len() {
            cx.drop_batch(batch.split_off(room), drops::HOST_QUEUE_FULL);
        }
        if batch.is_empty() {
            return cx.recycle(batch);
        }
        self.packets += batch.len();
        self.waiting.push_back(batch);
        cx.reschedule_here();
    }
    /// Writes waiting packets. Returns whether any were written.
    pub(crate) fn flush(&mut self, device: &HostDevice, cx: &mut Cx<'_>) -> bool {
        let mut moved = false;
        while let Some(mut batch) = self.waiting.pop_front() {
            let n = device.write(&mut batch, cx);
            self.packets -= n;
            moved |= n > 0;
            if !batch.is_empty() {
                self.waiting.push_front(batch);
                cx.reschedule_here();
                break;
            }
            cx.recycle(batch);
        }
        moved
    }
    /// Whether no packets wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    pub(crate) fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(self, old);
    }
}
