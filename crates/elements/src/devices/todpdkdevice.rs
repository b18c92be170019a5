//! # ToDPDKDevice
//! Sends packets to a DPDK device.
//!
//! ## Synopsis
//! `ToDPDKDevice(PORT [, QUEUE, N_QUEUES, IQUEUE, BLOCKING, BURST, NDESC, VERBOSE])`
//!
//! ## Arguments
//! - `PORT` (*string*): as for FromDPDKDevice.
//! - `QUEUE` (*int*): the first transmit queue to use. By default worker N sends by queue N.
//! - `N_QUEUES` (*int*): how many queues.
//! - `IQUEUE` (*int*, default 1024): how many packets may wait for the device.
//! - `BLOCKING` (*bool*, default true): when as many wait, whether to try for a while before the excess is dropped.
//! - `BURST` (*int*, default the vector length): on a pull input, the most packets pulled at a time.
//! - `NDESC` (*int*, default 2048): descriptors of each transmit queue.
//! - `VERBOSE`, `TIMEOUT`, `MAXTHREADS`, `NUMA`: accepted for FastClick's sake, without effect: packets are sent at once.
//!
//! ## Ports
//! One input, agnostic; no output.
//!
//! ## Handlers
//! - `count`, `n_sent` (read): packets sent.
//! - `dropped`, `n_dropped` (read): packets dropped.
//! - `reset_counts` (write): sets the counts to zero.
//! - `hw_count`, `hw_bytes`, `hw_errors` (read): the device's counters.
//! - `port`, `xstats` (read): the port's description and the driver's counters.
//!
//! ## Drop reasons
//! - `transmit queue full`
//! - `longer than the port's buffers`
//! - `port gone`
//! - `port replaced`: a hot swap gave the element another port
//!
//! ## Threads
//! Each worker sends by its own transmit queue; if the device has fewer, some share one under a lock.
//!
//! ## Example
//! ```click
//! FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null1);
//! ```
//!
//! ## See also
//! FromDPDKDevice, ToDevice

use super::tx::Sender;
use crate::prelude::*;
use dpdk::{PortConfig, PortSpec};

/// The `ToDPDKDevice` element.
pub struct ToDpdkDevice(Sender);

impl Element for ToDpdkDevice {
    const CLASS: &'static str = "ToDPDKDevice";
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = manual!("devices/todpdkdevice");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let device: String = args.mp("PORT")?;
        let queue = args.p::<i32>("QUEUE")?.and_then(|q| u16::try_from(q).ok());
        let queues = args.p::<i32>("N_QUEUES")?.and_then(|q| u16::try_from(q).ok());
        let room = args.k::<u32>("IQUEUE")?.unwrap_or(1024) as usize;
        let blocking = args.k("BLOCKING")?.unwrap_or(true);
        let burst = args.k::<u16>("BURST")?.map_or(cx.vector(), usize::from).max(1);
        let tx_desc = args.k::<u16>("NDESC")?.unwrap_or(0);
        for name in ["VERBOSE", "TIMEOUT", "MAXTHREADS", "NUMA"] {
            args.k::<String>(name)?;
        }
        let spec = PortSpec::parse(&device).map_err(|e| ArgError::new(e.to_string()))?;
        let tx_queues = queue.unwrap_or(0).saturating_add(queues.unwrap_or(cx.workers() as u16));
        let port = cx.port(&spec, &PortConfig { tx_queues, tx_desc, ..PortConfig::default() });
        let own = queue.unwrap_or(0).saturating_add(cx.worker().0 as u16);
        Ok(Self(Sender::new(port, own, burst, room, blocking)))
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["count", "n_sent"] {
            h.counter(name, |e| &e.0.count);
        }
        for name in ["dropped", "n_dropped"] {
            h.counter(name, |e| &e.0.dropped);
        }
        h.write("reset_counts", |e, _, _| {
            e.0.count.set(0);
            e.0.dropped.set(0);
            Ok(())
        });
        h.read("hw_count", |e| e.0.port().map_or(0, |p| p.stats().tx_packets).to_string());
        h.read("hw_bytes", |e| e.0.port().map_or(0, |p| p.stats().tx_bytes).to_string());
        h.read("hw_errors", |e| e.0.port().map_or(0, |p| p.stats().tx_errors).to_string());
        h.read("port", |e| e.0.port().map_or_else(String::new, super::describe));
        h.read("xstats", |e| e.0.port().map_or_else(String::new, super::xstats));
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.input_is_pull(0) {
            cx.reschedule();
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_port_is_wanted() {
        assert!(Bench::error("ToDPDKDevice()").contains("PORT"));
    }
}
