//! # ToDPDKDevice
//! Sends packets to a DPDK device.
//!
//! ## Synopsis
//! `ToDPDKDevice(PORT [, QUEUE, N_QUEUES, IQUEUE, BLOCKING, BURST, TIMEOUT, NDESC, VERBOSE])`
//!
//! ## Arguments
//! - `PORT` (*string*): as for FromDPDKDevice.
//! - `QUEUE` (*int*): the first transmit queue to use. By default worker N sends by queue N.
//! - `N_QUEUES` (*int*): how many queues; by default one if there is a `QUEUE`, else one for each worker.
//! - `FAIR` (*`PACKETS`, `BYTES`*, default `PACKETS`): the unit of fairness between workers that send by one
//!   queue.
//! - `IQUEUE` (*int*, default 1024): how many packets may wait for the device.
//! - `BLOCKING` (*bool*, default true): if that many wait, whether to try for a while before further packets
//!   are dropped.
//! - `BURST` (*int*, default the batch length): packets that are sent at a time (kn in RouteBricks section
//!   4.2); on a pull input, also the most packets pulled at a time.
//! - `TIMEOUT` (*time*, default 20us): the longest time that packets wait for a burst to fill; without a
//!   unit, milliseconds. They wait only while more packets arrive: as soon as the worker's other tasks have
//!   run and brought none, the waiting packets are sent. If fewer than four packets arrive within this time,
//!   none of them waits. 0 sends at once.
//! - `NDESC` (*int*, default 2048): descriptors of each transmit queue.
//!
//! FastClick's keywords:
//! - `MAXTHREADS` (*int*, default -1): how many workers have a transmit queue; negative: all. Not together
//!   with `QUEUE`.
//! - `SET_VLAN`, `TSO`: an error if they are true, because the device is not asked for that.
//! - `IPCO`, `TCO`, `UCO`: without effect, because the checksums of packets are complete.
//! - `NUMA`, `MAXQUEUES`, `MINQUEUES`, `VERBOSE`: without effect.
//! - `ALLOW_NONEXISTENT`: without effect; a port that does not exist is an error.
//!
//! ## Ports
//! One input, agnostic; no output.
//!
//! ## Handlers
//! - `count`, `n_sent` (read): packets sent.
//! - `dropped`, `n_dropped` (read): packets dropped.
//! - `waiting`, `lanes`, `owners` (read): as for ToDevice.
//! - `reset_counts` (write): sets the counts to zero.
//! - `batches` (read): a histogram of packets per batch that was sent.
//! - `hw_count`, `hw_bytes`, `hw_errors` (read): the device's counters.
//! - `port`, `xstats` (read): the port's description and the driver's counters.
//!
//! ## Threads
//! As for ToDevice: each worker sends by its own transmit queue, or over a ring to a worker that has one; if
//! there are fewer queues than workers, those that send most have them.
//!
//! ## Example
//! ```click
//! FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null1);
//! ```
//!
//! ## See also
//! FromDPDKDevice, ToDevice

use super::engine::arguments;
use super::engine::port;
use super::engine::queues::Queues;
use super::engine::tx::{self, Sender, Sends};
use crate::prelude::*;
use dpdk::PortConfig;

/// Keywords of FastClick about threads, messages and checksums, which are complete here.
const WITHOUT_EFFECT: [&str; 8] =
    ["VERBOSE", "NUMA", "MAXQUEUES", "MINQUEUES", "ALLOW_NONEXISTENT", "IPCO", "TCO", "UCO"];

/// Keywords of FastClick for what the device does not do here.
const REFUSED: [(&str, &str); 2] = [
    ("SET_VLAN", "the device does not add VLAN tags, an element does"),
    ("TSO", "the device does not cut segments into packets"),
];

/// The `ToDPDKDevice` element.
pub struct ToDpdkDevice(Sender);

impl Element for ToDpdkDevice {
    const CLASS: &'static str = "ToDPDKDevice";
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::Full;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = tx::DROPS;
    const ROLE: Role = Role::DeviceSink;
    const OPENS: Option<Opens> = Some(Opens::Port);
    const MANUAL: &'static str = manual!("devices/todpdkdevice");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let device: String = args.mp("PORT")?;
        let queues = Queues::range(args)?.limited(args)?;
        let room = arguments::waiting_limit(args, cx)?;
        let fair = arguments::fair(args)?;
        let blocking = args.k("BLOCKING")?.unwrap_or(true);
        let burst = arguments::burst(args, cx)?;
        let timeout = arguments::timeout(args)?;
        let tx_desc = args.k::<u16>("NDESC")?.unwrap_or(0);
        arguments::refused(args, &REFUSED)?;
        arguments::without_effect(args, &WITHOUT_EFFECT)?;
        let spec = arguments::port(&device)?;
        let needs = PortConfig { tx_desc, ..PortConfig::default() };
        let mut sender = Sender::new(&spec, needs, &queues, fair, burst, timeout, cx);
        (sender.room, sender.blocking) = (room, blocking);
        Ok(Self(sender))
    }

    fn handlers(h: &mut Handlers<Self>) {
        tx::handlers(h);
        h.counter("n_sent", |e| &e.0.count);
        for name in ["dropped", "n_dropped"] {
            h.counter(name, |e| &e.0.dropped);
        }
        h.read("hw_count", |e| e.0.port().map_or(0, |p| p.stats().tx_packets).to_string());
        h.read("hw_bytes", |e| e.0.port().map_or(0, |p| p.stats().tx_bytes).to_string());
        h.read("hw_errors", |e| e.0.port().map_or(0, |p| p.stats().tx_errors).to_string());
        h.read("xstats", |e| e.0.port().map_or_else(String::new, port::xstats));
        // Click's own handlers, and then FastClick's.
        h.listed(&[
            "n_sent",
            "n_dropped",
            "count",
            "dropped",
            "reset_counts b",
            "hw_count",
            "hw_bytes",
            "hw_errors",
        ]);
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

impl Vector for ToDpdkDevice {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.0.push(batch, cx);
    }
}

impl Sends for ToDpdkDevice {
    fn sender(&self) -> &Sender {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_port_is_wanted() {
        assert!(Bench::error("ToDPDKDevice()").contains("PORT"));
        let error = Bench::error("ToDPDKDevice(net_null0, SET_VLAN true)");
        assert!(error.contains("SET_VLAN: the device does not add VLAN tags"), "{error}");
    }
}
