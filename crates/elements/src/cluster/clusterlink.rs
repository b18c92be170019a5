//! # ClusterLink
//! One end of a link to another node of a cluster: watches the neighbor by hellos, and passes packets only while it is alive.
//!
//! Both ends of a link send hellos, which are authenticated with the cluster's key and echo what the other
//! end has sent. So each end knows that the right node is at the other end, and that the link works in both
//! directions. When a link goes down or up, all nodes are informed, and ClusterSwitch uses other paths. The
//! links also carry the routes of ClusterRoutes. Changes of a link's state are printed.
//!
//! Hellos from a node without the key are ignored, and so are frames that were replayed, delayed, cut or
//! changed. A forged frame costs a check of its first bytes, and only a limited number of frames per time is
//! checked further: a flood of either does not take a link down. Data frames are not authenticated: an
//! attacker who can inject frames into the wire between two nodes can send packets over it. Use an IPsec
//! tunnel where this matters.
//!
//! ## Synopsis
//! `ClusterLink(CLUSTER, PEER [, HELLO, DEAD, GOOD, MTU, DIFFER])`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo of this node. Its key authenticates the hellos; the neighbor must
//!   have the same name and digest.
//! - `PEER` (*int*, keyword): the node at the other end.
//! - `HELLO` (*time*, keyword, default 10 ms): time between hellos; 1 ms to 10 s.
//! - `DEAD` (*time*, keyword, default five times `HELLO`): a neighbor without hellos for this long is dead.
//!   If this node itself was paused, only a part of the pause counts, so that three hellos can still arrive
//!   afterwards. By default, all nodes know of a dead link or node within 100 ms.
//! - `GOOD` (*int*, keyword, default 3): a neighbor is alive after so many hellos in a row. One that goes
//!   down again and again (flapping) needs more, up to 128 times as many.
//! - `MTU` (*int*, keyword, default 1500): bytes behind the Ethernet header that a frame on the link may
//!   have. The link is used only if hellos of that length arrive at the other end. A cluster whose external
//!   ports all have an MTU of 1500 needs 1500. A hello of that length is sent with each fifth one; a lowered
//!   MTU is noticed within half a second, and the length that still arrives is reported a few seconds later.
//! - `DIFFER` (*time*, keyword, default 30 s): for how long a link that was up tolerates mismatched
//!   configurations of its two nodes, so that these can be changed one after the other.
//!
//! ## Ports
//! Push. Input 0: frames from the wire. Output 0: internal data frames from it, to input 1 of ClusterSwitch,
//! while the link is good. Input 1: data frames for the neighbor, from ClusterSwitch. Output 1: the same, to
//! the wire. Control frames go to output 2 if there is one, else to output 1; if the link can be full,
//! connect output 2 so that they bypass the queue (example): otherwise hellos are lost on a full link, and it
//! goes down.
//!
//! ## Handlers
//! - `state` (read): `up`; `ready`, when packets from the neighbor are accepted but the neighbor does not
//!   accept any yet; `down`.
//! - `peer` (read): the node at the other end.
//! - `reason` (read): why the link is not up, or what is wrong with one that is: no hellos, hellos in one
//!   direction only, wrong wiring (with both nodes), a loop, two nodes with one number, another key, another
//!   configuration, an MTU that is too small. Empty if there is no problem.
//! - `rtt` (read): the smoothed round-trip time of hellos, in nanoseconds, without the time that the neighbor
//!   took to answer; empty if it is not known.
//! - `hellos` (read): control frames: `sent`, `heard` (received and accepted), `foreign` (without the key),
//!   `malformed`, `stale` (with the key, but replayed, delayed or of an earlier session), `misdirected` (from
//!   or for another node), `ignored` (with the key, but above the limit of checks), `opened` (with a full
//!   check of the authentication code); the number of the neighbor's `sessions`, and how often the link went
//!   `down`.
//! - `status` (read): all of this, as JSON.
//! - `hurry` (write): sends pending reports at once; the other links of the node use it when a failure is
//!   reported.
//!
//! ## Threads
//! Each worker has its own instance. One of them runs the timers of the link; a control frame is processed by
//! the worker that receives it. They share the link's state under a lock, which is not taken for packets: for
//! these, a worker reads one word for each batch. A hot swap keeps the link up, also with other arguments.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps);
//! vlb :: ClusterSwitch(cluster);
//! link1 :: ClusterLink(cluster, PEER 1);
//! Idle -> [0] vlb;
//! vlb [0] -> ClusterDecap(cluster, 10.0.1.0/24) -> Discard;
//! vlb [1] -> [1] link1 [0] -> [1] vlb;
//! FromDevice(net_null0) -> [0] link1;
//! link1 [1] -> Queue -> [1] sched :: PrioSched -> ToDevice(net_null0);
//! link1 [2] -> Queue(64) -> [0] sched;
//! ```
//!
//! ## See also
//! ClusterInfo, ClusterSwitch, ClusterRoutes

use super::engine::fabric::{End, Fabric, LinkState};
use super::engine::linkview::{Reported, View};
use super::engine::state::{ClusterState, LinkReport, state_of};
use crate::plumbing::engine::text;
use crate::prelude::*;
use cluster::frame::ETHERTYPE;
use cluster::hello::Settings;
use cluster::{MacCode, NodeId, Phase as Leg, SourceCode};
use runtime::Hub;
use std::sync::Arc;
use std::time::Duration;
use wire::ethernet::HEADER_LEN;
use wire::{EtherAddr, Ethernet};

const LINK_IS_DOWN: DropReason = DropReason::new("link is down");
const NOT_AN_INTERNAL_FRAME: DropReason = DropReason::new("not an internal frame");
const MALFORMED_CONTROL_FRAME: DropReason = DropReason::new("malformed control frame");

/// The `ClusterLink` element.
pub struct ClusterLink {
    state: Arc<ClusterState>,
    fabric: Arc<Fabric>,
    link: Arc<LinkState>,
    peer: NodeId,
    settings: Settings,
    /// How many workers there are; one if one has been chosen for the element.
    workers: usize,
    /// Whether this worker runs the timers of the link.
    owner: bool,
    /// Whether the link has been added to the node's state.
    joined: bool,
    header: Ethernet<[u8; HEADER_LEN]>,
    longest: usize,
    reported: Option<Reported>,
    /// When a line about the link was printed last.
    said_ns: u64,
    out: Vec<u8>,
}

/// The shortest time between two printed lines about a problem of a link.
const QUIET_NS: u64 = 10_000_000_000;
/// How many packets ahead of the current one are prefetched.
const AHEAD: usize = 4;

/// The first bytes of a digest as a number.
fn number(digest: &[u8]) -> u64 {
    digest.iter().chain([0; 8].iter()).take(8).fold(0, |n, b| n << 8 | u64::from(*b))
}

impl Element for ClusterLink {
    const CLASS: &'static str = "ClusterLink";
    const PORTS: &'static str = "2/2-3";
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "xy/xyy";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        LINK_IS_DOWN.when("data while the link is not up (input 1) or not good (input 0)"),
        NOT_AN_INTERNAL_FRAME
            .when("on input 0, a frame that is neither data nor of the protocol between nodes"),
        MALFORMED_CONTROL_FRAME
            .when("on input 0, a frame of the protocol between nodes that is not as it should be"),
        drops::LONGER_THAN_THE_MTU.when("on input 1, a frame that the link cannot carry"),
        drops::OUT_OF_MEMORY.when("there was no buffer for a frame of the protocol between nodes"),
    ];
    const ROLE: Role = Role::ClusterLink;
    const MANUAL: &'static str = manual!("cluster/clusterlink");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let state = state_of(args, cx)?;
        let peer = NodeId(args.mk::<u16>("PEER")?);
        let usual = Settings::default();
        let hello_ns = args.k::<Duration>("HELLO")?.map_or(usual.hello_ns, text::nanos);
        let settings = Settings {
            hello_ns,
            dead_ns: args.k::<Duration>("DEAD")?.map_or(Settings::dead_after(hello_ns), text::nanos),
            good: args.k_or("GOOD", usual.good)?,
            frame_bytes: args.k_or("MTU", usual.frame_bytes)?,
            digest: number(&state.identity().digest),
            differ_ns: args.k::<Duration>("DIFFER")?.map_or(usual.differ_ns, text::nanos),
        };
        if peer == state.me() {
            return Err(args.error("PEER is this node itself: a link leads to another one"));
        }
        let fabric = state.fabric().map_err(|e| args.error(e))?;
        fabric.check(peer, settings).map_err(|e| args.error(e.to_string()))?;
        let to = MacCode { node: peer, port: 0, next_hop: 0, phase: Leg::Control }.encode();
        let from = SourceCode { node: state.me(), number: 0 }.encode();
        let name = cx.name().to_owned();
        let link = cx.shared(|| LinkState::new(&name));
        let workers = if cx.scheduling().threads.contains_key(&name) { 1 } else { cx.workers() };
        cx.publish(Arc::new(View { fabric: Arc::clone(&fabric), link: Arc::clone(&link), peer }));
        Ok(Self {
            header: Ethernet::build(
                EtherAddr(to.unwrap_or_default()),
                EtherAddr(from.unwrap_or_default()),
                ETHERTYPE,
            ),
            longest: usize::from(settings.frame_bytes) + HEADER_LEN,
            state,
            fabric,
            link,
            peer,
            settings,
            workers,
            owner: false,
            joined: false,
            reported: None,
            said_ns: 0,
            out: Vec::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<View>("state", |v, _| Ok(v.state().to_owned()));
        h.shared_read::<View>("peer", |v, _| Ok(v.peer.to_string()));
        h.shared_read::<View>("reason", |v, _| Ok(v.reason()));
        h.shared_read::<View>("rtt", |v, _| Ok(v.rtt_ns().map(|n| n.to_string()).unwrap_or_default()));
        h.shared_read::<View>("hellos", |v, _| {
            Ok(v.counts().iter().map(|(name, n)| format!("{name} {n}\n")).collect())
        });
        h.shared_read::<View>("status", |v, _| Ok(v.status()));
        h.write("hurry", |e, _, cx| {
            if e.owner {
                cx.timer_at(0, cx.now_ns());
            }
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // The links are distributed over the workers; if StaticThreadSched binds the element, that worker
        // runs it.
        let mine = self.workers == 1 || self.peer.index() % self.workers == cx.worker().0;
        self.owner = cx.runs_here() && mine;
        if self.owner {
            cx.timer_after(0, self.look());
        }
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        let now_ns = cx.now_ns();
        self.join(now_ns);
        let output = usize::from(cx.n_outputs() > 2) + 1;
        let mut out = std::mem::take(&mut self.out);
        let mut frames = cx.spare_batch();
        let mut lost = 0;
        let header = &self.header;
        let (due_ns, hurried) = self.fabric.tick(now_ns, &self.end(cx.hub()), &mut out, |frame| {
            let Some(mut packet) = Packet::alloc(dpdk::DEFAULT_HEADROOM, HEADER_LEN + frame.len()) else {
                lost += 1;
                return;
            };
            let data = packet.data_mut().iter_mut();
            data.zip(header.bytes().iter().chain(frame)).for_each(|(to, from)| *to = *from);
            packet.set_mac_header(0);
            frames.push(packet);
        });
        self.out = out;
        cx.count_drops(lost, drops::OUT_OF_MEMORY);
        cx.output_batch(output, frames);
        self.report_changes(now_ns, cx);
        // What is due already and could not be done is tried again at the next regular time.
        let look_ns = now_ns + text::nanos(self.look());
        cx.timer_at(0, due_ns.filter(|due| *due > now_ns).map_or(look_ns, |due| due.min(look_ns)));
        self.call(&hurried, cx);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.fabric.adopt(&old.fabric, self.state.nodes());
        if self.peer == old.peer && !Arc::ptr_eq(&self.link, &old.link) {
            self.link.take_over(&old.link);
        }
    }
}

impl Vector for ClusterLink {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        if port == 0 {
            let mut data = (0..batch.len()).map(|i| {
                batch.get(i + AHEAD).into_iter().for_each(Packet::prefetch);
                let front = batch.get(i).and_then(|p| p.data().first_chunk::<2>());
                front.is_some_and(|[first, second]| MacCode::is_data(*first, *second))
            });
            if self.link.ready() && data.all(|d| d) {
                return cx.output_batch(0, batch);
            }
            return self.sort(batch, cx);
        }
        if !self.link.up() {
            return cx.drop_batch(batch, LINK_IS_DOWN);
        }
        let longest = self.longest;
        if batch.iter().any(|p| p.len() > longest) {
            batch.filter_map_in_place(|packet| {
                if packet.len() <= longest {
                    return Some(packet);
                }
                cx.drop(packet, drops::LONGER_THAN_THE_MTU);
                None
            });
        }
        cx.output_batch(1, batch);
    }
}

impl ClusterLink {
    /// The interval at which the timer runs.
    fn look(&self) -> Duration {
        Duration::from_nanos(self.settings.hello_ns / 4)
    }

    /// A frame of the cluster's own protocol.
    fn control(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let frame = Ethernet::split(packet.data()).filter(|(eth, _)| eth.ethertype() == ETHERTYPE);
        let Some((_, frame)) = frame else { return cx.drop(packet, MALFORMED_CONTROL_FRAME) };
        let now_ns = cx.now_ns();
        self.join(now_ns);
        let Some(hurried) = self.fabric.receive(now_ns, &self.end(cx.hub()), frame) else { return };
        if self.owner {
            // A message may be due at once.
            cx.timer_at(0, now_ns);
        }
        self.call(&hurried, cx);
    }

    /// Makes other links send their pending reports at once: what one link has received about the cluster is
    /// news for the nodes at the other ends.
    fn call(&self, links: &[Arc<LinkState>], cx: &mut Cx<'_>) {
        for link in links.iter().filter(|l| !(self.owner && Arc::ptr_eq(l, &self.link))) {
            cx.call(Some(link.name()), "hurry", "");
        }
    }

    /// Prints what has changed.
    fn report_changes(&mut self, now_ns: u64, cx: &Cx<'_>) {
        let reported = Reported {
            up: self.link.up(),
            reason: self.fabric.with_link(self.peer, |l| l.reason()).flatten(),
            duplicates: self.fabric.duplicates(now_ns),
        };
        if self.reported.as_ref() == Some(&reported) {
            return;
        }
        let words = reported.words();
        self.state.report_link(self.peer, LinkReport { up: reported.up, words: words.clone() });
        let was_up = self.reported.as_ref().is_some_and(|t| t.up);
        if was_up != reported.up {
            let colon = if words.is_empty() { "" } else { ": " };
            let (state, level) = if reported.up { ("up", Level::INFO) } else { ("down", Level::WARN) };
            cx.log(level, &format!("{}: {state}{colon}{words}", cx.name()));
            self.said_ns = now_ns;
        } else if reported.fault() && now_ns.saturating_sub(self.said_ns) >= QUIET_NS {
            cx.log(Level::WARN, &format!("{}: {words}", cx.name()));
            self.said_ns = now_ns;
        }
        self.reported = Some(reported);
    }

    fn end<'a>(&'a self, hub: &'a Hub) -> End<'a> {
        End { peer: self.peer, link: &self.link, outages: self.state.outages(), hub }
    }

    fn join(&mut self, now_ns: u64) {
        if !self.joined && self.owner {
            self.joined = true;
            self.fabric.join(now_ns, self.peer, self.settings, &self.link);
        }
    }

    /// Handles a batch that contains other frames than data, or arrives while the link accepts no data.
    #[cold]
    fn sort(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            match kind(&packet) {
                FrameType::Control => self.control(packet, cx),
                FrameType::Data if self.link.ready() => cx.output(0, packet),
                FrameType::Data => cx.drop(packet, LINK_IS_DOWN),
                FrameType::Other => cx.drop(packet, NOT_AN_INTERNAL_FRAME),
            }
        }
        cx.recycle(batch);
    }
}

#[derive(PartialEq, Eq)]
enum FrameType {
    Data,
    Control,
    Other,
}

/// The type of a frame from the wire, by its first two bytes.
#[inline]
fn kind(packet: &Packet) -> FrameType {
    match packet.data().first_chunk::<2>() {
        Some([first, second]) => match MacCode::phase_of(*first, *second) {
            Ok(Leg::Control) => FrameType::Control,
            Ok(_) => FrameType::Data,
            Err(_) => FrameType::Other,
        },
        None => FrameType::Other,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use runtime::Options;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f";

    /// Node 0 with its link to node 1 (`e`), the switch's side of it as input 1 and output 0, the wire as
    /// input 0 and output 1.
    fn node(me: u16, more: &str) -> Bench {
        let peer = 1 - me;
        let config = format!(
            "cluster :: ClusterInfo(NODE {me}, NODES 2, RATE 1Gbps, KEY {KEY}, DIGEST aabb);
             e :: ClusterLink(cluster, PEER {peer}{more});"
        );
        Bench::simulated(&config, 2, 2)
    }

    /// Runs both nodes for a number of steps of simulated time, and carries the frames of each to the other.
    /// `pass` can drop or change a frame.
    fn talk(a: &mut Bench, b: &mut Bench, turns: usize, mut pass: impl FnMut(&mut Vec<u8>) -> bool) {
        for _ in 0..turns {
            let from_a = a.turns(1);
            let from_b = b.turns(1);
            for (frames, to) in [(from_a, &mut *b), (from_b, &mut *a)] {
                for (port, mut frame) in frames {
                    assert_eq!(port, 1, "{frame:02x?}");
                    if pass(&mut frame) {
                        let out = to.push(0, &frame);
                        assert!(out.iter().all(|(port, _)| *port == 1));
                    }
                }
            }
        }
    }

    fn data(first: u8, second: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        (frame[0], frame[1]) = (first, second);
        frame
    }

    fn dropped(b: &mut Bench, reason: &str) -> u64 {
        b.drops().iter().filter(|(r, _)| r == reason).map(|(_, n)| *n).sum()
    }

    #[test]
    fn packets_pass_only_while_both_ends_hear_each_other() {
        let (mut a, mut b) = (node(0, ""), node(1, ""));
        let lines = a.listen();
        assert_eq!(a.push(1, &data(0xc2, 0x00)), []);
        assert_eq!(a.push(0, &data(0xc2, 0x10)), []);
        assert_eq!(dropped(&mut a, "link is down"), 2);
        talk(&mut a, &mut b, 100, |_| true);
        assert_eq!(
            (a.read("state"), b.read("state"), a.read("reason")),
            ("up".into(), "up".into(), String::new())
        );
        assert_eq!(a.read("peer"), "1");
        assert_eq!((a.read("cluster.failures"), b.read("cluster.failures")), (String::new(), String::new()));
        // Data in both directions, unchanged.
        assert_eq!(a.push(1, &data(0xc2, 0x00)), [(1, data(0xc2, 0x00))]);
        assert_eq!(a.push(0, &data(0xc2, 0x20)), [(0, data(0xc2, 0x20))]);
        // No frames arrive.
        b.take();
        let drops = dropped(&mut a, "link is down");
        for _ in 0..40 {
            a.turns(1);
        }
        assert_eq!(a.read("state"), "down");
        assert_eq!(a.read("reason"), "no hello from node 1");
        assert_eq!(a.read("cluster.failures"), "node 1\n");
        assert_eq!(a.push(0, &data(0xc2, 0x20)), []);
        assert_eq!(a.push(1, &data(0xc2, 0x20)), []);
        assert_eq!(dropped(&mut a, "link is down"), drops + 2);
        // Frames arrive again.
        talk(&mut a, &mut b, 200, |_| true);
        assert_eq!((a.read("state"), a.read("cluster.failures")), ("up".into(), String::new()));
        assert_eq!(*lines.lock().unwrap(), ["e: up", "e: down: no hello from node 1", "e: up"]);
        let status = a.read("status");
        assert!(status.contains("\"state\":\"up\"") && status.contains("\"down\":1"), "{status}");
    }

    #[test]
    fn what_is_not_the_clusters_does_not_pass() {
        let (mut a, mut b) = (node(0, ""), node(1, ""));
        talk(&mut a, &mut b, 100, |_| true);
        for frame in [data(0x02, 0), data(0xc2, 0x40), data(0xff, 0xff), vec![0xc2], vec![]] {
            assert_eq!(a.push(0, &frame), []);
        }
        assert_eq!(dropped(&mut a, "not an internal frame"), 5);
        // A control frame with another EtherType, and one that is too short to have one.
        assert_eq!(a.push(0, &data(0xc2, 0x30)), []);
        assert_eq!(a.push(0, &[0xc2, 0x30]), []);
        assert_eq!(dropped(&mut a, "malformed control frame"), 2);
        // Valid and invalid frames in one batch.
        let batch = [data(0xc2, 0), data(0x02, 0), data(0xc2, 0x10)];
        let batch = batch.map(|f| runtime::Packet::from_bytes(&f).unwrap()).into();
        let out: Vec<_> = a.send_batch(0, batch).iter().map(|(port, p)| (*port, p.data()[1])).collect();
        assert_eq!(out, [(0, 0), (0, 0x10)]);
        // Longer than the link's MTU.
        let mut long = data(0xc2, 0);
        long.resize(1515, 0);
        assert_eq!(a.push(1, &long), []);
        assert_eq!(a.push(1, &long[..1514]).len(), 1);
        assert_eq!(dropped(&mut a, "longer than the MTU"), 1);
    }

    #[test]
    fn another_key_or_name_is_foreign_and_another_digest_differs() {
        for (other, reason) in [
            (
                "KEY 000102030405060708090a0b0c0d0e00, DIGEST aabb",
                "hellos from node 1 are not authenticated with the key and name",
            ),
            ("DIGEST aabb", "hellos from node 1 are not authenticated with the key and name"),
            (
                "KEY 000102030405060708090a0b0c0d0e0f, DIGEST aabb, NAME other",
                "hellos from node 1 are not authenticated with the key and name",
            ),
            ("KEY 000102030405060708090a0b0c0d0e0f, DIGEST aabbcc", "node 1 has another configuration"),
        ] {
            let mut a = node(0, "");
            let config = format!(
                "cluster :: ClusterInfo(NODE 1, NODES 2, RATE 1Gbps, {other}); e :: ClusterLink(cluster, PEER 0);"
            );
            let mut b = Bench::simulated(&config, 2, 2);
            talk(&mut a, &mut b, 150, |_| true);
            assert_eq!(a.read("state"), "down", "{other}");
            assert!(a.read("reason").starts_with(reason), "{}", a.read("reason"));
            assert!(a.read("cluster.links").contains(reason), "{}", a.read("cluster.links"));
        }
    }

    #[test]
    fn own_frames_have_an_output_of_their_own_if_there_is_one() {
        let config = format!(
            "cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps, KEY {KEY});
             e :: ClusterLink(cluster, PEER 1);"
        );
        let mut a = Bench::simulated(&config, 2, 3);
        let out = a.turns(50);
        assert!(!out.is_empty() && out.iter().all(|(port, _)| *port == 2));
        let (_, hello) = &out[0];
        // From node 0, to the address of node 1 for control frames, in the protocol's format; version and
        // message type.
        assert_eq!(hello[..16], [0xc2, 0x30, 1, 0, 0, 0, 0xc6, 0, 0, 0, 0, 0, 0x88, 0xb5, 2, 1]);
    }

    #[test]
    fn damaged_and_repeated_frames_change_nothing() {
        let (mut a, mut b) = (node(0, ""), node(1, ""));
        let mut kept = Vec::new();
        talk(&mut a, &mut b, 100, |f| {
            kept.push(f.clone());
            true
        });
        for (i, frame) in kept.iter().enumerate() {
            for frame in [frame.clone(), frame[..frame.len() / 2].to_vec(), {
                let mut f = frame.clone();
                let at = 14 + i % (f.len() - 14);
                f[at] ^= 1 << (i % 8);
                f
            }] {
                assert!(a.push(0, &frame).iter().all(|(port, _)| *port == 1));
                assert!(b.push(0, &frame).iter().all(|(port, _)| *port == 1));
            }
        }
        talk(&mut a, &mut b, 20, |_| true);
        assert_eq!(
            (a.read("state"), b.read("state"), a.read("cluster.failures")),
            ("up".into(), "up".into(), String::new())
        );
        let hellos = a.read("hellos");
        assert!(hellos.ends_with("sessions 1\ndown 0\n"), "{hellos}");
        assert!(!hellos.contains("foreign 0\n") && !hellos.contains("stale 0\n"), "{hellos}");
    }

    /// Forged frames are dropped once they have been checked, and have no other effect.
    #[test]
    fn a_flood_of_forged_frames_wakes_nobody() {
        let (mut a, mut b) = (node(0, ""), node(1, ""));
        let mut last = Vec::new();
        talk(&mut a, &mut b, 100, |f| {
            last.clone_from(f);
            true
        });
        let opened = |a: &mut Bench| {
            a.read("hellos").lines().find_map(|l| l.strip_prefix("opened ")?.parse::<u64>().ok())
        };
        let (before, now) = (opened(&mut a).unwrap(), a.router().now_ns());
        let forged: Vec<Vec<u8>> = (0..2000u32)
            .map(|i| {
                let mut frame = last.clone();
                frame[14 + 24..14 + 32].copy_from_slice(&(u64::from(i) + 1000).to_be_bytes());
                frame
            })
            .collect();
        for some in forged.chunks(500) {
            let batch: Vec<_> = some.iter().map(|f| runtime::Packet::from_bytes(f).unwrap()).collect();
            assert!(a.send_batch(0, batch.into_iter().collect()).iter().all(|(port, _)| *port == 1));
        }
        assert_eq!((opened(&mut a), a.read("state")), (Some(before), "up".into()));
        assert!(a.read("hellos").contains("foreign 2000\n") && a.router().now_ns() - now < 5_000_000);
        talk(&mut a, &mut b, 20, |_| true);
        assert_eq!((a.read("state"), b.read("state")), ("up".into(), "up".into()));
    }

    #[test]
    fn a_hot_swap_keeps_the_link_up() {
        let (mut a, mut b) = (node(0, ""), node(1, ""));
        talk(&mut a, &mut b, 100, |_| true);
        let swap = |b: &mut Bench, text: &str| {
            let text = format!(
                "bench_caught :: BenchCaught; {text} in0 :: BenchIn; in0 -> [0] e; in1 :: BenchIn; in1 -> [1] e;
                 out0 :: BenchOut(0); e [0] -> out0; out1 :: BenchOut(1); e [1] -> out1;"
            );
            b.router().hotswap(lang::Source::new("next", text)).map_err(|d| format!("{d:?}"))
        };
        // Other arguments of the link, then of the cluster, with one node more.
        let info = format!("cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps, KEY {KEY}, DIGEST aabb);");
        let larger = format!("cluster :: ClusterInfo(NODE 0, NODES 3, RATE 1Gbps, KEY {KEY}, DIGEST aabb);");
        for text in [
            format!("{info} e :: ClusterLink(cluster, PEER 1, GOOD 5);"),
            format!("{larger} e :: ClusterLink(cluster, PEER 1, GOOD 5);"),
        ] {
            swap(&mut a, &text).unwrap();
            assert_eq!(a.read("state"), "up");
            assert_eq!(a.push(0, &data(0xc2, 0x20)), [(0, data(0xc2, 0x20))]);
            talk(&mut a, &mut b, 50, |_| true);
            assert_eq!((a.read("state"), b.read("state")), ("up".into(), "up".into()));
        }
        assert!(a.read("hellos").ends_with("sessions 1\ndown 0\n"), "{}", a.read("hellos"));
        assert!(a.read("reason").contains("another configuration"), "{}", a.read("reason"));
        assert_eq!(a.read("cluster.failures"), "node 2\n");
    }

    #[test]
    fn a_hot_swap_reads_the_key_again() {
        let paths = [0, 1].map(|n| {
            std::env::temp_dir().join(format!("valiant-clusterlink-{n}-{}.key", std::process::id()))
        });
        let config = |n: usize| {
            format!(
                "cluster :: ClusterInfo(NODE {n}, NODES 2, RATE 1Gbps, KEY_FILE {});
                 e :: ClusterLink(cluster, PEER {});",
                paths[n].display(),
                1 - n
            )
        };
        paths.iter().for_each(|path| std::fs::write(path, KEY).unwrap());
        let [mut a, mut b] = [0, 1].map(|n| Bench::simulated(&config(n), 2, 2));
        talk(&mut a, &mut b, 100, |_| true);
        assert_eq!((a.read("state"), a.read("cluster.key_changed")), ("up".into(), "false".into()));
        // One after the other; everything else stays the same.
        for (n, state) in [(0, "down"), (1, "up")] {
            std::fs::write(&paths[n], KEY.replace("00", "aa")).unwrap();
            let node = if n == 0 { &mut a } else { &mut b };
            assert_eq!(node.read("cluster.key_changed"), "true");
            let text = format!(
                "bench_caught :: BenchCaught; {} in0 :: BenchIn; in0 -> [0] e; in1 :: BenchIn; in1 -> [1] e;
                 out0 :: BenchOut(0); e [0] -> out0; out1 :: BenchOut(1); e [1] -> out1;",
                config(n)
            );
            node.router().hotswap(lang::Source::new("same", text)).unwrap_or_else(|d| panic!("{d:?}"));
            assert_eq!(node.read("cluster.key_changed"), "false");
            talk(&mut a, &mut b, 150, |_| true);
            assert_eq!(a.read("state"), state, "{}", a.read("reason"));
        }
        paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }

    /// Three nodes in a row, which send a hello every 200 ms and run their timers every 50 ms.
    struct Row([runtime::testing::Bench; 3]);

    impl Row {
        fn node(me: u16, rest: &str) -> String {
            // Something happens every millisecond, so that no clock is far ahead of the others.
            format!(
                "cluster :: ClusterInfo(NODE {me}, NODES 4, RATE 1Gbps, KEY {KEY});
                 TimedSource(INTERVAL 1ms) -> Discard; {rest}"
            )
        }
        fn new() -> Self {
            let middle = [0, 2].map(|peer| {
                format!(
                    "to{peer} :: ClusterLink(cluster, PEER {peer}, HELLO 200ms); Idle -> [1] to{peer} [1] -> BenchOut({peer});
                     Idle -> from{peer} :: Null -> [0] to{peer} [0] -> Discard;"
                )
            });
            let with = |config: &str, ports| {
                let options = Options { simulated_time: true, ..Options::default() };
                runtime::testing::Bench::with(&crate::registry(), config, ports, ports, options)
            };
            let end = |me| Self::node(me, "e :: ClusterLink(cluster, PEER 1, HELLO 200ms);");
            Self([with(&end(0), 2), with(&Self::node(1, &middle.concat()), 0), with(&end(2), 2)])
        }
        /// Lets the node whose clock is furthest behind take a step. Records the frames that it sends: time,
        /// sender, receiver.
        fn turn(&mut self, sent: &mut Vec<(u64, usize, usize)>) {
            let times = [0, 1, 2].map(|n: usize| self.0[n].router().now_ns());
            let from = (0..3).min_by_key(|n| times[*n]).unwrap_or_default();
            self.0[from].turn();
            for (sink, packet) in self.0[from].take() {
                let (to, at) = if from == 1 { (sink, "e".to_owned()) } else { (1, format!("from{from}")) };
                self.0[to].router().inject(&at, 0, [packet].into_iter().collect());
                sent.push((times[from] / 1_000_000, from, to));
            }
        }
        fn run(&mut self, ms: u64) -> Vec<(u64, usize, usize)> {
            let (until, mut sent) = (self.0[1].router().now_ns() + ms * 1_000_000, Vec::new());
            while self.0.iter_mut().any(|n| n.router().now_ns() < until) {
                self.turn(&mut sent);
            }
            sent
        }
    }

    #[test]
    fn what_is_received_over_one_link_is_sent_over_the_others_at_once() {
        let mut row = Row::new();
        let mut sent = row.run(5000);
        assert_eq!((row.0[1].read("to0.state"), row.0[1].read("to2.state")), ("up".into(), "up".into()));
        let text = Row::node(
            2,
            "e :: ClusterLink(cluster, PEER 1, HELLO 200ms);
             bench_caught :: BenchCaught; in0 :: BenchIn; in0 -> [0] e; in1 :: BenchIn; in1 -> [1] e;
             out0 :: BenchOut(0); e [0] -> out0; out1 :: BenchOut(1); e [1] -> out1;
             to3 :: ClusterLink(cluster, PEER 3, HELLO 200ms); Idle -> [0] to3 [0] -> Discard; Idle -> [1] to3 [1] -> Discard;",
        );
        // Node 2 has one more link, which is news. What node 1 sends to node 0 ahead of time is about it.
        sent.extend(row.run(90));
        let swapped = row.0[1].router().now_ns() / 1_000_000;
        row.0[2].router().hotswap(lang::Source::new("more", text)).unwrap_or_else(|d| panic!("{d:?}"));
        sent.extend(row.run(1000));
        let times = |from, to| {
            let some = sent.iter().filter(|s| (s.1, s.2) == (from, to));
            some.map(|s| s.0).collect::<Vec<u64>>()
        };
        let (to_0, from_2) = (times(1, 0), times(2, 1));
        let reported = to_0.windows(2).find(|w| w[1] > swapped && w[1] - w[0] < 190).unwrap();
        let heard = from_2.into_iter().rfind(|at| *at <= reported[1]).unwrap();
        // Hellos that are sent ahead of time are an eighth of the usual interval apart.
        assert!(reported[1] <= heard.max(reported[0] + 25) + 3, "heard at {heard}, reported at {reported:?}");
    }

    #[test]
    fn several_workers_share_the_link() {
        let config = format!(
            "cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps, KEY {KEY});
             e :: ClusterLink(cluster, PEER 1);"
        );
        let options = Options { workers: 3, simulated_time: true, ..Options::default() };
        let mut a = runtime::testing::Bench::with(&crate::registry(), &config, 2, 2, options);
        let out = a.turns(40);
        // One worker prints.
        let times = out.iter().map(|(_, f)| u64::from_be_bytes(f[38..46].try_into().unwrap()));
        let numbers: Vec<u64> = times.collect();
        assert!(!numbers.is_empty() && numbers.windows(2).all(|w| w[1] == w[0] + 1), "{numbers:?}");
    }

    #[test]
    fn wrong_arguments() {
        let error = |link: &str| {
            let config =
                format!("cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps); e :: ClusterLink({link});");
            let options = Options::default();
            std::panic::catch_unwind(|| {
                runtime::testing::Bench::with(&crate::registry(), &config, 2, 2, options)
            })
            .err()
            .and_then(|e| e.downcast::<String>().ok())
            .map_or_else(String::new, |e| *e)
        };
        for (link, message) in [
            ("cluster", "PEER"),
            ("cluster, PEER 0", "PEER is this node itself"),
            ("cluster, PEER 2", "node 2 in a cluster of 2 nodes"),
            ("nobody, PEER 1", "does not name an element"),
            ("cluster, PEER 1, HELLO 10us", "a hello of 10000 nanoseconds"),
            ("cluster, PEER 1, DEAD 5ms", "the time to death of 5000000 nanoseconds"),
            ("cluster, PEER 1, MTU 60", "a frame of 60 bytes"),
        ] {
            let text = error(link);
            assert!(text.contains(message), "{link}: {text}");
        }
    }
}
