//! # FromDevice
//! Receives packets from a Linux interface or a DPDK device.
//!
//! ## Synopsis
//! `FromDevice(DEVNAME [, PROMISC, METHOD, BURST, TIMESTAMP, QUEUE, RULES, STEER, NDESC, ACTIVE, ...])`
//!
//! ## Arguments
//! - `DEVNAME` (*string*): an interface name (`eth0`), a PCI address (`0000:03:00.0`), or DPDK device
//!   arguments (`net_memif0,role=client`). A Linux interface is opened with AF_XDP if the kernel, the driver
//!   and the rights allow it, else with AF_PACKET; and with AF_PACKET where the driver has no zero copy and
//!   large TCP segments may come (see Ports), and on a veth. A line at start shows which and why.
//! - `PROMISC` (*bool*, default false): promiscuous mode: also receive frames to other addresses.
//! - `METHOD` (*`AUTO`, `AF_XDP`, `AF_PACKET`*, default `AUTO`): how to open a Linux interface. Of Click's
//!   own methods, `LINUX` and `PCAP` mean `AF_PACKET`, and `NETMAP` and `DPDK` mean `AUTO`; `CAPTURE` is the
//!   keyword's old name. A router that has given up its rights (`valiant run --user`) opens
//!   an interface in a hot swap only with the capabilities that `--keep-capability` kept; otherwise the hot
//!   swap fails and names the missing ones.
//! - `BURST` (*int*, default the batch length): the most packets taken in one poll (kp in RouteBricks
//!   section 4.2).
//! - `POLL_INTERVAL` (*time*, default 0): the least time from one poll of a worker to the next; without a
//!   unit, milliseconds. To find out whether polling itself costs anything: packets wait for it.
//! - `TIMESTAMP` (*bool*, default true): whether packets get the time of their arrival.
//! - `QUEUE` (*int*): poll only this receive queue, on the worker of this number. By default worker N polls
//!   queue N. All receive queues of a port must be polled by some element.
//! - `RSS` (*`AUTO`, `SYMMETRIC`, `NONE`*, default `AUTO`): what to do if the device has fewer receive queues
//!   than there are workers: the workers that poll hash each packet's addresses and ports (Toeplitz, with
//!   Microsoft's key) and give it to the worker that has the flow. `SYMMETRIC`: the same with a key, in the
//!   device too, that gives both directions of a flow to one worker. `NONE`: packets stay with the worker
//!   that polled them, and the others get none. On a link of a cluster (directly to ClusterLink or
//!   ClusterSwitch) the Ethernet addresses are hashed instead: input node, output node, port and next hop.
//!   Packets with the same addresses stay on one worker; nothing behind the addresses is read.
//! - `STEER` (*element*): a table of IPv4 routes (RadixIPLookup or one of its kind). Each worker gets the
//!   packets to a part of its routes, rather than a part of the flows. See Steering by prefix.
//! - `REBALANCE` (*bool*, default true; false under the name `click`): whether buckets of the hash by which
//!   flows are distributed over workers, in this way or by the device, go to other workers when one worker
//!   has more packets than others. See Rebalancing.
//! - `PARK` (*bool*, default false): whether, where flows are distributed over workers in this way, workers
//!   are parked at low load; not with `RULES`, which may give packets to any worker. See Parking.
//! - `PARK_BELOW` (*int*, percent, default 40), `PARK_AFTER` (*time*, default 500ms; without a unit,
//!   milliseconds): workers are parked when those that remain would have been busy for less than this share
//!   of the time, for so long.
//! - `WAKE_ABOVE` (*int*, percent, default 70; more than `PARK_BELOW`), `WAKE_AFTER` (*time*, default 200us):
//!   parked workers wake when a worker is busy for this share of the time, for so long.
//! - `RULES` (*filename*): flow rules in front of the port, a `flow create PORT ...` on each line as testpmd
//!   takes it; the port is not looked at. FlowClassifier's manual says what rules mean. `queue index N` gives
//!   packets to worker N of those that process the port's packets, `rss queues ... end` to one of several by
//!   the flow's hash, `drop` drops; what no rule decides about goes where it went without rules. `mark` sets
//!   the aggregate annotation, and `count` counts. After a hot swap with another file, other rules hold.
//! - `RULES_ENGINE` (*`AUTO`, `SOFTWARE`*, default `AUTO`): who carries the rules out. `AUTO`: the device
//!   takes what its driver accepts (rte_flow), as long as the rules together mean the same: what it refuses
//!   runs in software, and so does what goes after such a rule for some packets. The handler `rules` says
//!   where each is, and why. `SOFTWARE`: none is given to the device.
//! - `NDESC` (*int*, default 2048): descriptors of each receive queue.
//! - `ACTIVE` (*bool*, default true): whether to receive.
//! - `SNIFFER` (*bool*, default true if `METHOD` is `AF_PACKET`, or is not given and the program is called
//!   `click`; else false): whether the kernel processes the packets too. With true, `AUTO` means AF_PACKET;
//!   without effect if the method is AF_XDP, by which the kernel never gets them. To keep them from the
//!   kernel by AF_PACKET takes Linux 6.6 or later, CAP_NET_ADMIN and CAP_BPF; otherwise the kernel gets them,
//!   and a line at start says so.
//! - `SNAPLEN` (*int*, 14 to 8190): packets are cut to this length; the extra length annotation says by how
//!   much. By default they are received whole.
//! - `FORCE_IP` (*bool*, default false): whether IP headers are marked, and packets without one leave by
//!   output 1, or are dropped if there is none.
//! - `PROTOCOL` (*int*, default 0): take packets of this EtherType only; 0: of all.
//! - `ENCAP`, `HEADROOM`: accepted for compatibility with Click, without effect. `BPF_FILTER` and `OUTBOUND
//!   true` have none either, and warn: IPClassifier and IPFilter do what the filter is for, and what this
//!   machine sends is not received.
//!
//! ## Ports
//! No input, one or two push outputs. The MAC header annotation and the packet type annotation (host,
//! broadcast, multicast, other host) are set.
//!
//! Elements get packets of at most the MTU. Hosts at the other end of a veth pair or a TAP send TCP segments
//! of up to 64 KB, which are to be cut later (TSO), unless that is switched off there
//! (`ethtool -K INTERFACE tso off gso off`). By AF_PACKET these are cut as they are received, their checksums
//! are completed, and ToDevice gathers consecutive packets of a connection again. Segments of SCTP, and
//! before Linux 6.2 those of UDP, are lost, and so is what follows them within 0.2 s: switch them off on the
//! hosts (`gso off`). AF_XDP carries no segments at all: on a veth it switches TSO off at the other end,
//! which makes TCP slow. So with `METHOD AUTO`, an interface whose TSO is on and whose driver has no zero
//! copy is opened by AF_PACKET, if packets can be kept from the kernel; and so is a veth, whose frames the
//! kernel would copy twice for AF_XDP.
//!
//! The kernel handles the frames of a veth where they were sent, and a host also sends where the router
//! delivers an acknowledgement: on the processor of a worker. There it would fill the ring, and frames of a
//! connection would overtake each other. So an AF_PACKET port on a veth without TSO has the other processors
//! of the machine fill its ring (receive packet steering: `rps_cpus` of the interface) while more than some
//! 80,000 frames a second come, until fewer than 20,000 do, if nobody has set this and the workers do not use
//! all processors: bind them with `--cpus`. A line at start shows which processors these are. It takes the
//! right CAP_NET_ADMIN while the router runs.
//!
//! Several routers may open one interface with `METHOD AF_PACKET`, such as one that only monitors: the kernel
//! gives each of them every packet, so if two of them forward, everything is sent twice. Only a node of a
//! cluster locks its interfaces (`valiant cluster run`): a node of another cluster does not start on them,
//! and another router that opens one of them prints which node uses it.
//!
//! ## Handlers
//! - `count` (read): packets received.
//! - `reset_counts`, `reset` (write): sets the count to zero.
//! - `active` (read/write): the `ACTIVE` argument.
//! - `handed` (read): packets in the rings between the workers that polled them and the workers of their
//!   flows.
//! - `burst` (read): the most packets that it takes in one poll.
//! - `batches` (read): a histogram of packets per poll, without empty polls.
//! - `lanes` (read): what each worker does for the element.
//! - `rss_table` (read/write): where there are fewer receive queues than workers, the worker of each bucket
//!   of the hash, eight on a line, as `ethtool -x` prints it; else the queue of each entry of the device's
//!   own table (RETA), if its driver shows it. Written: `equal N` (the first N workers in
//!   turn), `weight W0 W1 ...` (a weight for each worker), `default`, or pairs `(BUCKET,WORKER)`; the
//!   rebalancer then leaves the table alone, and no worker is parked (`rebalance` and `park` become false).
//! - `rss_key` (read/write): the key of the hash, as `ethtool -x` prints it: 40 to 52 bytes. While it
//!   changes, packets wait in the device. When the key or the table of a device is written, it changes at
//!   once, and flows may be reordered.
//! - `rss_packets` (read): for each worker that gets flows its number, the packets that it was given, and
//!   those that it has taken.
//! - `rss_buckets` (read): bucket, worker and packets of each bucket that has had some; of a device's
//!   buckets, those that were looked at.
//! - `rss_moved` (read): `buckets` that have changed workers, packets `held` meanwhile, and those of them
//!   that were passed on `unordered`, because they had waited for too long or a hot swap came: they may have
//!   overtaken others of their flow. A bucket without such packets that moved too early counts as one.
//! - `rebalance` (read/write): whether buckets go to other workers by themselves.
//! - `rebalance_status` (read): `table` `of the device`, if it is the device's own; the `imbalance` of the
//!   last interval; how often (`rounds`) and how many buckets (`moves`) have moved; `state`, why nothing
//!   moves now.
//! - `rebalance_log` (read): the last 256 moves, the oldest first: the time, the bucket and its share of the
//!   packets, both workers, and the reason.
//! - `park` (read/write): whether workers are parked at low load.
//! - `parked` (read): the workers that are parked now.
//! - `park_status` (read): how often workers were parked (`parks`) and woken (`wakes`); `state`; when a
//!   worker that polls has last woken others (`woke_ns`) and these had packets (`began_ns`), in nanoseconds
//!   since the epoch; and for each worker for how long it was awake, parked, and busy.
//! - `park_log` (read): the last 256 times that workers were parked or woken, the oldest first, with reasons.
//! - `summary` (read): imbalance, moves and `state` in a line, for `valiant stats`.
//! - `parts` (read): with `STEER`, a line for each worker that gets packets: its number, its prefixes, the
//!   routes in them, and about how many bytes of the table their lookups reach.
//! - `prefixes` (read): with `STEER`, a line for each prefix: the prefix, its worker, the routes in it, and
//!   the packets that have come since the start for this line, also when it was another prefix.
//! - `divide` (write): divides the addresses by the routes that there are now, and their parts among the
//!   workers.
//! - `kernel_drops` (read): packets that the device lost because they were not polled in time.
//! - `rules` (read): a line for each flow rule: its number, the packets that it has counted (`-`: it does not
//!   count), where it is and why, and the rule, with tabs between them.
//! - `rules_json` (read): the same as JSON, as `valiant nic rules` shows it.
//! - `encap` (read): `ETHER`.
//! - `mac` (read): the port's address.
//! - `port` (read): the port: driver, queues, how it was opened and why.
//! - `xstats` (read): the driver's own counters.
//!
//! ## Threads
//! Each worker polls its own receive queue. If there are fewer queues than workers, flows are distributed in
//! software; each flow stays on one worker and in order. A worker whose ports are all Linux interfaces sleeps
//! until a packet arrives; after it has received several without a pause it sleeps for 30 us, so that more
//! gather. After a large segment it looks for the next packet for 50 us before it sleeps. If all queues
//! downstream are full, or most of the last packets were dropped because they were, packets stay in the
//! device.
//!
//! ## Rebalancing
//! A few large flows can give one worker much more to do than another, however good the hash is. Where flows
//! are distributed in software, the table that gives each bucket of the hash (512) to a worker changes by
//! itself: every 50 ms the packets of each bucket are counted, and if a worker has more than 3 % above the
//! mean (the imbalance) in two intervals, a few buckets move: those that make the sum of the squared
//! differences from the mean small, each for a price, as in RSS++ (CoNEXT 2019). Nothing moves if the
//! difference may be chance, if no worker is busy for 30 % of the time, if one bucket alone is too large for
//! a worker, or if no move is worth its price; and if the load keeps changing, moves become rare. It is
//! packets that are made equal, not times.
//!
//! Where each worker has a receive queue of its own, the device distributes flows, and its own indirection
//! table (RETA) changes in the same way, if its driver takes changes while packets flow: that is tried at the
//! start with the table that it has, and if it takes more than 20 ms, nothing moves: some drivers stop the
//! port meanwhile (mlx5). Packets are counted by the hash that the device gives with them, else
//! by the same hash (Toeplitz) with the device's key: all while there are few, of many about 80,000 a second.
//! If more than a tenth of them come to other queues than the table says, the device hashes otherwise or has
//! rules, and nothing moves; nor with `RULES`, which may give packets to any worker. The state of
//! `rebalance_status` says so, and for a NIC whose driver refuses so does a line at start.
//!
//! A bucket's packets wait at the worker that polls until those before them have left the old worker and the
//! queues behind it, for 100 ms at most (20 ms if there are more than 1,024); so flows stay in order, and
//! what could not wait any longer is counted (`rss_moved`). Of a device's bucket they wait at the new worker,
//! until the old one has seen its queue empty after the change and its packets have left; at most 512.
//!
//! ## Steering by prefix
//! With `STEER`, the IPv4 addresses are divided into 512 prefixes that have about as many routes each, and a
//! worker gets the packets to neighboring ones, with its share of the routes. All workers read one table, but
//! each only the part that its packets need, so that its caches hold more of it; routes of shorter prefixes,
//! such as the default route, are in all parts. Route changes need nothing more: handlers, the kernel or a
//! cluster change the one table as ever. When it has half as many routes more or fewer (by 64 at least; it
//! looks once a second), the addresses are divided anew, in order: packets wait in the device until those
//! before them have left. Other packets than IPv4 go by the hash of their flow. Prefixes take the place of
//! buckets in the handlers of the hash and for the rebalancer, which moves prefixes of many packets.
//!
//! Each packet goes to the worker of its prefix also where the device has a queue for each worker: the
//! worker that polls it passes it on. With one worker, and on a link of a cluster, it has no effect.
//!
//! Of a million routes, an eighth takes a fifth to a third of the cycles of a lookup, and a half three
//! quarters; to pass a packet on to another worker costs ten lookups. So it pays only where packets change
//! workers anyway, between many workers with a large table (`doc/performance.md` has the figures). Packets to
//! one destination are all with one worker, and the two directions of a flow are not. With two workers or few
//! routes, `RSS` alone is better.
//!
//! ## Parking
//! With `PARK`, few workers do all the work at low load. Each 50 ms the router adds up for which share of the
//! time the workers were busy; when fewer workers could do that (`PARK_BELOW`) for `PARK_AFTER`, the others
//! are parked: their buckets go to the workers that remain, in order as with rebalancing. A parked worker has
//! nothing to do, and its thread sleeps if it has no other port to poll. Workers that poll are never parked.
//!
//! Waking is quick: the worker that polls looks twice in `WAKE_AFTER` whether one of those that are awake was
//! busy for `WAKE_ABOVE`. If so, as many again wake, and get the buckets back that they had. A load
//! that grows slowly is noticed within 50 ms. While workers are parked, no buckets move for balance.
//!
//! Where each worker has a receive queue of its own, the device distributes flows, and no worker is parked:
//! an idle worker sleeps by itself (see Threads), but each has its share of the packets. `park_status` and a
//! line at start say so. Each element parks workers for itself: a worker without buckets of one port may have
//! those of another one.
//!
//! ## Example
//! ```click
//! FromDevice(net_null0) -> Queue -> ToDevice(net_null1);
//! ```
//! Each worker has a part of the routes:
//! ```click
//! rt :: RadixIPLookup(0.0.0.0/0 0, 10.0.0.0/8 0, 172.16.0.0/12 0);
//! FromDevice(net_null0, STEER rt) -> Strip(14) -> CheckIPHeader -> rt -> Discard;
//! ```
//!
//! ## See also
//! ToDevice, FromDPDKDevice, FlowClassifier, RadixIPLookup, FromHost, KernelTap

use super::engine::arguments;
use super::engine::portrules::{Held, PortRules};
use super::engine::queues::Queues;
use super::engine::receives::{self, Receives};
use super::engine::rx::{self, Receiver};
use super::engine::screen::{ANOTHER_PROTOCOL, Screen};
use crate::prelude::*;
use dpdk::PortConfig;

/// The `FromDevice` element.
pub struct FromDevice(Receiver);

impl Element for FromDevice {
    const CLASS: &'static str = "FromDevice";
    const PORTS: &'static str = "0/1-2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        rx::DROPS[0],
        rx::DROPS[1],
        rx::DROPS[2],
        rx::DROPS[3],
        drops::NO_IP_HEADER.when("it has none, `FORCE_IP` wants one, and there is no second output"),
        ANOTHER_PROTOCOL.when("its EtherType is not `PROTOCOL`"),
    ];
    const ROLE: Role = Role::DeviceSource;
    const OPENS: Option<Opens> = Some(Opens::Port);
    const MANUAL: &'static str = manual!("devices/fromdevice");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let device: String = args.mp("DEVNAME")?;
        let promisc = args.p("PROMISC")?.unwrap_or(false);
        let snaplen = args.p::<u32>("SNAPLEN")?;
        if snaplen.is_some_and(|snaplen| !(14..=8190).contains(&snaplen)) {
            return Err(args.error("SNAPLEN out of range"));
        }
        let (method, sniffer) = arguments::capture(args, cx)?;
        let burst = arguments::burst(args, cx)?;
        let interval = arguments::poll_interval(args)?;
        let timestamp = args.k("TIMESTAMP")?.unwrap_or(true);
        let queues = Queues::one(args)?;
        let rss = arguments::rss(args)?;
        let rebalance = arguments::rebalance(args, cx)?;
        let steer = arguments::steer(args, rss, cx)?;
        let park = arguments::parking(args)?;
        let rules = arguments::rules(args, cx)?;
        let rx_desc = args.k::<u16>("NDESC")?.unwrap_or(0);
        let active = args.k("ACTIVE")?.unwrap_or(true);
        let force_ip = args.k_or("FORCE_IP", false)?;
        let protocol = args.k_or("PROTOCOL", 0u16)?;
        if args.k_or("HEADROOM", 0u32)? > 8190 {
            return Err(args.error("HEADROOM out of range"));
        }
        args.k::<String>("ENCAP")?;
        if args.k::<String>("BPF_FILTER")?.is_some_and(|filter| !filter.is_empty()) {
            cx.warn("not using METHOD PCAP, BPF filter ignored");
        }
        if args.k_or("OUTBOUND", false)? {
            cx.warn("OUTBOUND has no effect: packets that this machine sends are not received");
        }
        let spec = arguments::port(&device)?;
        let needs = PortConfig { rx_desc, promisc, method, sniffer, ..PortConfig::default() };
        let mut receiver = Receiver::new(&spec, needs, &queues, rss, burst, cx);
        receiver.configure_interval(interval);
        receiver.configure_active(active);
        receiver.configure_rebalancer(rebalance, cx);
        receiver.configure_steering(steer, cx);
        receiver.configure_parking(park, rules.get().is_some(), cx)?;
        receiver.timestamp = timestamp;
        receiver.screen = Screen::new(snaplen, force_ip, protocol);
        receiver.configure_rules(PortRules::new(&rules, cx.worker().0));
        Ok(Self(receiver))
    }

    fn handlers(h: &mut Handlers<Self>) {
        receives::handlers(h);
        h.write("reset", |e, _, _| {
            e.0.count.set(0);
            Ok(())
        });
        h.shared_read::<Held>("rules", |held, _| held.text());
        h.shared_read::<Held>("rules_json", |held, _| held.json());
        h.read("encap", |_| "ETHER".to_owned());
        h.read("kernel_drops", |e| e.0.port().map_or(0, |p| p.stats().rx_missed).to_string());
        h.listed(&["kernel_drops", "encap", "count", "reset_counts b"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.0.start(cx);
        self.0.check_rules()
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

impl Vector for FromDevice {}

impl Receives for FromDevice {
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
    fn a_device_is_wanted() {
        assert!(Bench::error("FromDevice()").contains("DEVNAME"));
        assert!(Bench::error("FromDevice(net_null0, METHOD FOO)").contains("bad METHOD"));
    }

    #[test]
    fn parking_has_limits_that_leave_room_between_them() {
        let refused = |args: &str| Bench::error(&format!("FromDevice(net_null0, {args})"));
        let said = refused("PARK true, PARK_BELOW 70");
        assert!(said.contains("PARK_BELOW must be less than WAKE_ABOVE"), "{said}");
        let said = refused("WAKE_ABOVE 101");
        assert!(said.contains("bad WAKE_ABOVE '101', expected percent, 1 to 100"), "{said}");
        assert!(refused("PARK_AFTER soon").contains("bad PARK_AFTER 'soon'"));
    }
}
