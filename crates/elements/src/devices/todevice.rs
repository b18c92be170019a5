//! # ToDevice
//! Sends packets to a Linux interface or a DPDK device.
//!
//! ## Synopsis
//! `ToDevice(DEVNAME [, BURST, TIMEOUT, METHOD, QUEUE, NDESC, IQUEUE, ...])`
//!
//! ## Arguments
//! - `DEVNAME` (*string*): as for FromDevice.
//! - `BURST` (*int*, default the batch length, by AF_PACKET four times that): packets that are sent at a time
//!   (kn in RouteBricks section 4.2); on a pull input, also the most packets pulled at a time.
//! - `TIMEOUT` (*time*, default 20us): the longest time that packets wait for a burst to fill; without a
//!   unit, milliseconds. They wait only while more packets arrive: as soon as the worker's other tasks have
//!   run and brought none, the waiting packets are sent. If fewer than four packets arrive within this time,
//!   none of them waits. 0 sends at once.
//! - `METHOD` (*`AUTO`, `AF_XDP`, `AF_PACKET`*, default `AUTO`): as for FromDevice.
//! - `QUEUE` (*int*): send by this transmit queue. By default worker N sends by queue N; if the device has
//!   fewer queues than there are workers, workers without a queue give their packets to one with a queue,
//!   which serves them in turn; see Threads.
//! - `FAIR` (*`PACKETS`, `BYTES`*, default `PACKETS`): the unit of fairness between workers that send by one
//!   queue.
//! - `NDESC` (*int*, default 2048): descriptors of each transmit queue.
//! - `IQUEUE` (*int*, default 1024): on a push input, how many packets may wait for the device.
//! - `QUIET`, `NO_PAD`, `DEBUG`: accepted for compatibility with Click, without effect.
//!
//! ## Ports
//! One input, agnostic (Click's is pull); up to two push outputs. A pull input is pulled as fast as the
//! device sends. Output 0: packets that have been sent; where the device keeps the packet itself, a copy of
//! it. Output 1: packets that could not be sent; without this output, they are dropped.
//!
//! By AF_PACKET, consecutive packets of a TCP connection in one burst are sent as one large segment, if
//! cutting that segment would make the same packets: then the kernel handles one segment instead of up to 44
//! packets. Packets with IP options, with damaged checksums or with flags other than ACK, PSH, FIN and ECE
//! are sent as they are. Those that the kernel refuses, as longer than the interface's MTU or because it is
//! switched off, are dropped.
//!
//! ## Handlers
//! - `count` (read): packets sent.
//! - `drops` (read): packets dropped.
//! - `batches` (read): a histogram of packets per batch that was sent.
//! - `waiting` (read): packets that wait for the device.
//! - `lanes` (read): how each worker sends.
//! - `owners` (read): which worker has which transmit queue where workers share them, for which other workers
//!   it sends, how often that has changed, and why it did last; empty if each worker has its own.
//! - `reset_counts` (write): sets the counts to zero.
//! - `port` (read): as for FromDevice.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task, which packets are pulled by.
//!
//! ## Threads
//! Each worker sends by its own transmit queue, or over a ring to a worker that has one. If there are fewer
//! queues than workers, the workers that send most have them, so that the fewest packets change workers: a
//! worker that has sent 1.25 times as many packets as a queue's owner in each of three intervals of 0.2 s
//! takes the queue over. No packet is lost by that, and packets of one worker stay in order, if the
//! device empties the old queue within a millisecond where a worker changes to another one.
//! `changed_workers` counts packets that another worker has sent. If the element is bound to a worker
//! (StaticThreadSched), that one sends for all.
//!
//! The other side of a memif port decides how many transmit queues it serves. The packets of a queue that it
//! does not serve go by another queue; if there is none, they are dropped as `transmit queue not served`. A
//! memif client must not have more queues than the server, which refuses it otherwise (`N_QUEUES`).
//!
//! When half of the room for waiting packets
//! is taken, sources upstream that support notification leave packets where they are.
//!
//! ## Example
//! ```click
//! FromDevice(net_null0) -> Queue -> ToDevice(net_null1);
//! ```
//!
//! ## See also
//! FromDevice, ToDPDKDevice, ToHost

use super::engine::arguments;
use super::engine::queues::Queues;
use super::engine::tx::{self, Sender, Sends};
use crate::prelude::*;
use dpdk::PortConfig;

/// The `ToDevice` element.
pub struct ToDevice(Sender);

impl Element for ToDevice {
    const CLASS: &'static str = "ToDevice";
    const PORTS: &'static str = "1/0-2";
    const PROCESSING: &'static str = "a/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Full;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = tx::DROPS;
    const ROLE: Role = Role::DeviceSink;
    const OPENS: Option<Opens> = Some(Opens::Port);
    const MANUAL: &'static str = manual!("devices/todevice");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let device: String = args.mp("DEVNAME")?;
        let given = args.k::<u16>("BURST")?.map(usize::from);
        let burst = given.unwrap_or(cx.batch_size()).max(1);
        let method = arguments::method(args)?;
        let queues = Queues::one(args)?;
        let timeout = arguments::timeout(args)?;
        let tx_desc = args.k::<u16>("NDESC")?.unwrap_or(0);
        let room = arguments::waiting_limit(args, cx)?;
        let fair = arguments::fair(args)?;
        for name in ["QUIET", "NO_PAD", "DEBUG"] {
            args.k::<bool>(name)?;
        }
        let spec = arguments::port(&device)?;
        let needs = PortConfig { tx_desc, method, ..PortConfig::default() };
        let mut sender = Sender::new(&spec, needs, &queues, fair, burst, timeout, cx);
        sender.room = room;
        sender.default_burst = given.is_none() && burst > 1;
        Ok(Self(sender))
    }

    fn handlers(h: &mut Handlers<Self>) {
        tx::handlers(h);
        h.counter("drops", |e| &e.0.dropped);
        h.task();
        h.listed(&["scheduled", "tickets", "home_thread", "count", "drops", "reset_counts b"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.0.start(cx);
        Ok(())
    }
    fn prefetch(&self, step: usize) {
        self.0.prefetch(step);
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.0.run(cx)
    }
    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.0.take_state(&mut old.0, cx);
    }
}

impl Vector for ToDevice {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.0.push(batch, cx);
    }
}

impl Sends for ToDevice {
    fn sender(&self) -> &Sender {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_device_is_wanted() {
        assert!(Bench::error("ToDevice()").contains("DEVNAME"));
    }
}
