//! # FromDPDKDevice
//! Receives packets from a DPDK device.
//!
//! ## Synopsis
//! `FromDPDKDevice(PORT [, QUEUE, N_QUEUES, PROMISC, BURST, POLL_INTERVAL, NDESC, MTU, TIMESTAMP, ACTIVE, ...])`
//!
//! ## Arguments
//! - `PORT` (*string*): a PCI address, DPDK device arguments (`net_pcap0,rx_pcap=in.pcap`), an interface
//!   name, or the number of a port that is open already.
//! - `QUEUE` (*int*): the first receive queue to poll; queue N is polled by worker N, modulo the number of
//!   workers. All receive queues of a port must be polled by some element. By default worker N polls queue N.
//! - `N_QUEUES` (*int*): how many queues; by default one if there is a `QUEUE`, else one for each worker.
//! - `RSS` (*`AUTO`, `SYMMETRIC`, `NONE`*, default `AUTO`), `STEER` (*element*), `REBALANCE` (*bool*, default
//!   true; whether buckets of the hash, also of the device's own table, change workers): as for FromDevice.
//! - `PARK` (*bool*, default false), `PARK_BELOW` (*int*, percent, default 40), `PARK_AFTER` (*time*, default
//!   500ms), `WAKE_ABOVE` (*int*, percent, default 70), `WAKE_AFTER` (*time*, default 200us): whether workers
//!   are parked at low load, as for FromDevice.
//! - `PROMISC` (*bool*, default true, as in Click's and FastClick's code): promiscuous mode: also receive
//!   frames to other addresses.
//! - `BURST` (*int*, default the batch length): the most packets taken in one poll (kp in RouteBricks
//!   section 4.2).
//! - `POLL_INTERVAL` (*time*, default 0): the least time from one poll of a worker to the next; without a
//!   unit, milliseconds. To find out whether polling itself costs anything: packets wait for it.
//! - `NDESC` (*int*, default 2048): descriptors of each receive queue.
//! - `MTU` (*int*): the largest network packet, in bytes.
//! - `TIMESTAMP` (*bool*, default false): whether packets get the time of their arrival.
//! - `ACTIVE` (*bool*, default true): whether to receive.
//!
//! FastClick's keywords:
//! - `MAXTHREADS` (*int*, default -1): how many workers poll a queue; negative: all. Not together with
//!   `QUEUE`.
//! - `RSS_AGGREGATE` (*bool*, default false): whether the aggregate annotation becomes the hash that the
//!   device has computed of the packet's flow; 0 if it computes none.
//! - `PAINT_QUEUE` (*bool*, default false): whether the paint annotation becomes the number of the receive
//!   queue.
//! - `MODE`: `rss` or `none`; other modes of distributing packets over queues are errors.
//! - `PAUSE`: the device's pause frames stay as they are; there is a warning, unless it is `unset`.
//! - `MAC`, and `VLAN_FILTER`, `VLAN_STRIP`, `VLAN_EXTEND`, `LRO`, `JUMBO`, `FLOW_ISOLATE` if they are true:
//!   an error, because the device is not asked for that.
//! - `FLOW_RULES_FILE`: an error; FromDevice's `RULES` reads such files.
//! - `SCALE`, `THREADOFFSET`, `NUMA`, `NUMA_NODE`, `MAXQUEUES`, `MINQUEUES`, `MAX_RSS`, `RETA_SIZE`,
//!   `VF_POOLS`, `VF_VLAN`, `RX_INTR`, `SLEEP_MODE`, `CLEAR`, `IPCO`, `TCO`, `UCO`, `VERBOSE`: without
//!   effect.
//! - `ALLOW_NONEXISTENT`: without effect; a port that does not exist is an error.
//!
//! ## Ports
//! No input, one push output.
//!
//! ## Handlers
//! - `count` (read): packets received.
//! - `reset_counts` (write): sets the count to zero.
//! - `active` (read/write): the `ACTIVE` argument.
//! - `handed`, `lanes`, `rss_packets`, `rss_buckets`, `rss_moved`, `rebalance_status`, `rebalance_log`,
//!   `parked`, `park_status`, `park_log`, `parts`, `prefixes`, `summary` (read), `rss_table`, `rss_key`,
//!   `rebalance`, `park` (read/write), `divide` (write): as for FromDevice.
//! - `burst` (read): the most packets that it takes in one poll.
//! - `batches` (read): a histogram of packets per poll, without empty polls.
//! - `hw_count`, `hw_bytes`, `hw_dropped`, `hw_errors`, `nombufs` (read): the device's counters: packets,
//!   bytes, packets that were not polled in time, erroneous packets, packets lost because there was no
//!   buffer.
//! - `dropped` (read): the same as `hw_dropped`.
//! - `mac`, `device`, `port`, `xstats`, `carrier` (read): the port's address, name, description, driver's
//!   counters, link.
//!
//! ## Threads
//! As for FromDevice: each worker polls its own receive queue, or gets its share of the flows from those that
//! do.
//!
//! ## Example
//! ```click
//! FromDPDKDevice(net_null0) -> ToDPDKDevice(net_null1);
//! ```
//!
//! ## See also
//! ToDPDKDevice, FromDevice

use super::engine::arguments;
use super::engine::queues::Queues;
use super::engine::receives::{self, Receives};
use super::engine::rx::{self, Receiver};
use crate::prelude::*;
use dpdk::PortConfig;
use lang::args::EtherAddr;

/// Keywords of FastClick about threads, buffers and messages.
const WITHOUT_EFFECT: [&str; 17] = [
    "VERBOSE",
    "THREADOFFSET",
    "NUMA",
    "NUMA_NODE",
    "MAXQUEUES",
    "MINQUEUES",
    "RX_INTR",
    "CLEAR",
    "ALLOW_NONEXISTENT",
    "IPCO",
    "TCO",
    "UCO",
    "MAX_RSS",
    "RETA_SIZE",
    "VF_POOLS",
    "VF_VLAN",
    "SLEEP_MODE",
];

/// Keywords of FastClick for what the device does not do here.
const REFUSED: [(&str, &str); 6] = [
    ("VLAN_FILTER", "the device does not filter by VLAN tags"),
    ("VLAN_STRIP", "the device does not remove VLAN tags, an element does"),
    ("VLAN_EXTEND", "the device does not remove VLAN tags, an element does"),
    ("LRO", "the device does not gather packets into larger ones"),
    ("JUMBO", "MTU says how long frames may be"),
    ("FLOW_ISOLATE", "all packets of the device are received"),
];

/// The `FromDPDKDevice` element.
pub struct FromDpdkDevice(Receiver);

impl Element for FromDpdkDevice {
    const CLASS: &'static str = "FromDPDKDevice";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = rx::DROPS;
    const ROLE: Role = Role::DeviceSource;
    const OPENS: Option<Opens> = Some(Opens::Port);
    const MANUAL: &'static str = manual!("devices/fromdpdkdevice");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let device: String = args.mp("PORT")?;
        let queues = Queues::range(args)?.limited(args)?;
        let rss = arguments::rss(args)?;
        let rebalance = arguments::rebalance(args, cx)?;
        let steer = arguments::steer(args, rss, cx)?;
        let park = arguments::parking(args)?;
        let promisc = args.k("PROMISC")?.unwrap_or(true);
        let burst = arguments::burst(args, cx)?;
        let interval = arguments::poll_interval(args)?;
        let rx_desc = args.k::<u16>("NDESC")?.unwrap_or(0);
        let mtu = args.k::<u32>("MTU")?;
        let timestamp = args.k("TIMESTAMP")?.unwrap_or(false);
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let hash_aggregate = args.k_or("RSS_AGGREGATE", false)?;
        let paint_queue = args.k_or("PAINT_QUEUE", false)?;
        arguments::mode(args)?;
        arguments::scale(args)?;
        arguments::pause_frames(args, cx)?;
        arguments::refused(args, &REFUSED)?;
        arguments::without_effect(args, &WITHOUT_EFFECT)?;
        if args.k::<EtherAddr>("MAC")?.is_some() {
            return Err(args.error("MAC: the address of the device stays as it is"));
        }
        if args.k::<String>("FLOW_RULES_FILE")?.is_some() {
            return Err(args.error(
                "FLOW_RULES_FILE: FromDevice with the same port and RULES FILE reads rules of flows",
            ));
        }
        let spec = arguments::port(&device)?;
        let needs = PortConfig { rx_desc, promisc, mtu, ..PortConfig::default() };
        let mut receiver = Receiver::new(&spec, needs, &queues, rss, burst, cx);
        receiver.configure_interval(interval);
        receiver.configure_active(active);
        receiver.configure_rebalancer(rebalance, cx);
        receiver.configure_steering(steer, cx);
        receiver.configure_parking(park, false, cx)?;
        receiver.timestamp = timestamp;
        (receiver.hash_aggregate, receiver.paint_queue) = (hash_aggregate, paint_queue);
        Ok(Self(receiver))
    }

    fn handlers(h: &mut Handlers<Self>) {
        receives::handlers(h);
        h.read("hw_count", |e| e.0.port().map_or(0, |p| p.stats().rx_packets).to_string());
        h.read("hw_bytes", |e| e.0.port().map_or(0, |p| p.stats().rx_bytes).to_string());
        for name in ["hw_dropped", "dropped"] {
            h.read(name, |e| e.0.port().map_or(0, |p| p.stats().rx_missed).to_string());
        }
        h.read("hw_errors", |e| e.0.port().map_or(0, |p| p.stats().rx_errors).to_string());
        h.read("nombufs", |e| e.0.port().map_or(0, |p| p.stats().rx_no_buffer).to_string());
        h.read("device", |e| e.0.port().map_or_else(String::new, |p| p.name().to_owned()));
        h.read("carrier", |e| u8::from(e.0.port().is_some_and(|p| p.link().up)).to_string());
        h.listed(&[
            "device",
            "carrier",
            "xstats",
            "active",
            "count",
            "reset_counts b",
            "mac",
            "hw_count",
            "hw_bytes",
            "hw_dropped",
            "hw_errors",
            "nombufs",
            "burst",
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
        self.0.poll(cx)
    }
    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.0.take_state(&mut old.0, cx);
    }
}

impl Vector for FromDpdkDevice {}

impl Receives for FromDpdkDevice {
    fn receiver(&self) -> &Receiver {
        &self.0
    }
    fn receiver_mut(&mut self) -> &mut Receiver {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_port_is_wanted() {
        assert!(Bench::error("FromDPDKDevice()").contains("PORT"));
    }

    #[test]
    fn what_the_device_does_not_do_is_an_error() {
        for (arguments, message) in [
            ("VLAN_STRIP true", "VLAN_STRIP: the device does not remove VLAN tags"),
            ("JUMBO true", "JUMBO: MTU says how long frames may be"),
            ("MAC 1:2:3:4:5:6", "MAC: the address of the device stays as it is"),
            ("MODE vmdq", "MODE vmdq: packets come to queues by the hash"),
            ("SCALE up", "Unknown scaling mode up !"),
            ("PAUSE often", "bad PAUSE 'often'"),
            ("ZONK 1", "ZONK"),
        ] {
            let error = Bench::error(&format!("FromDPDKDevice(net_null0, {arguments})"));
            assert!(error.contains(message), "{error}");
        }
    }
}
