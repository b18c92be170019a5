//! # Resequencer
//! Restores the order of packets at their output node: the alternative to flowlets.
//!
//! The input node numbers the packets of each stream: those that enter at it and leave by one port of the
//! output node (`RESEQUENCE true` of ClusterInfo, on all nodes). Packets that have overtaken others wait for
//! them here; `CAPACITY` limits the memory and `TIMEOUT` the time. A packet that is lost inside the cluster
//! delays its stream by `TIMEOUT`, which should therefore be only a little more than the difference in
//! latency between paths through the cluster.
//!
//! No packet is dropped. Packets that arrive too late or twice leave at once, out of order. When the input
//! node has restarted, eight packets pass as they arrive, then its new numbers count.
//!
//! It reads only the Ethernet addresses, which contain the port and the input node. Frames without internal
//! addresses pass.
//!
//! ## Synopsis
//! `Resequencer(CLUSTER [, TIMEOUT, CAPACITY])`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo.
//! - `TIMEOUT` (*time*, default 5ms, keyword): how long a packet waits for others at most; up to 10 s.
//! - `CAPACITY` (*int*, 2 to 65536, default 1024, keyword): the largest distance of a waiting packet from the
//!   first missing one of its stream. Beyond that, the first missing ones count as lost. It should be more
//!   than the packets of a stream that arrive during the difference in latency between paths: 1024 is enough
//!   for 1 ms at a million packets per second. Each stream may hold this many packet buffers, which are then
//!   not available for receiving.
//!
//! ## Ports
//! One push input, one push output: between ClusterSwitch's output for this node and ClusterDecap.
//!
//! ## Handlers
//! - `streams` (read): how many streams have been seen.
//! - `waiting` (read): packets that wait.
//! - `in_order` (read): packets that arrived in order.
//! - `restored` (read): packets that waited and left in order.
//! - `late` (read): packets that arrived too late or twice, and left out of order.
//! - `given_up` (read): numbers that were given up: lost packets, and those that are `late` afterwards.
//! - `timeouts` (read): how often a packet has waited for `TIMEOUT`.
//! - `overflows` (read): how often `CAPACITY` was exceeded.
//! - `restarts` (read): restarts of input nodes that were noticed, counted for each stream.
//! - `unnumbered` (read): packets without a number, which pass.
//! - `reset_counts` (write): sets the counts to zero.
//!
//! ## Threads
//! One worker does all the work, as the packets of a stream may arrive at several.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps, RESEQUENCE true);
//! Idle -> Resequencer(cluster, TIMEOUT 2ms) -> ClusterDecap(cluster, 10.0.0.0/24) -> Discard;
//! ```
//!
//! ## See also
//! ClusterInfo, ClusterSwitch, ClusterDecap

use super::engine::state::state_of;
use crate::plumbing::engine::text;
use crate::prelude::*;
use cluster::mac::SourceCode;
use cluster::resequence::{Config, Counts};
use cluster::{MacCode, NodeId};
use std::time::Duration;

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(10);
const DEFAULT_CAPACITY: u32 = 1024;
const MOST: u32 = 65_536;

/// The `Resequencer` element.
pub struct Resequencer {
    streams: cluster::resequence::Resequencer<Packet>,
    nodes: u16,
}

/// Input node, port and number of a frame; number 0 if it has none.
#[inline]
fn place(frame: &[u8], nodes: u16) -> (NodeId, u8, u32) {
    let Some((addresses, _)) = frame.split_first_chunk::<12>() else { return (NodeId(0), 0, 0) };
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
    let to = MacCode::decode([d0, d1, d2, d3, d4, d5], nodes);
    let from = SourceCode::decode([s0, s1, s2, s3, s4, s5], nodes);
    match (to, from) {
        (Ok(to), Ok(from)) => (from.node, to.port, from.number),
        _ => (NodeId(0), 0, 0),
    }
}

impl Resequencer {
    /// The timer runs when the first waiting packet has waited for `TIMEOUT`.
    fn set_timer(&self, cx: &mut Cx<'_>) {
        if self.streams.counts().waiting > 0
            && cx.timer_expiry(0).is_none()
            && let Some(at) = self.streams.deadline_ns()
        {
            cx.timer_at(0, at);
        }
    }
}

impl Element for Resequencer {
    const CLASS: &'static str = "Resequencer";
    const PROCESSING: &'static str = "h/h";
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const MANUAL: &'static str = manual!("cluster/resequencer");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let state = state_of(args, cx)?;
        let timeout = args.k("TIMEOUT")?.unwrap_or(DEFAULT_TIMEOUT);
        let capacity = args.k("CAPACITY")?.unwrap_or(DEFAULT_CAPACITY);
        if timeout.is_zero() || timeout > LONGEST {
            return Err(args.error("TIMEOUT must be more than 0 and at most 10 s"));
        }
        if !(2..=MOST).contains(&capacity) {
            return Err(args.error(format!("CAPACITY must be from 2 to {MOST}")));
        }
        if !state.identity().resequence {
            cx.warn("packets are not numbered: ClusterInfo needs RESEQUENCE true, on all nodes");
        }
        let config = Config { timeout_ns: text::nanos(timeout), capacity };
        let nodes = state.nodes();
        Ok(Self { streams: cluster::resequence::Resequencer::new(nodes, config), nodes })
    }

    fn handlers(h: &mut Handlers<Self>) {
        macro_rules! counts {
            ($($name:ident),*) => {
                $(h.sum(stringify!($name), |e| { let Counts { $name, .. } = e.streams.counts(); $name });)*
            };
        }
        h.sum("streams", |e| e.streams.streams() as u64);
        counts!(waiting, in_order, restored, late, given_up, timeouts, overflows, restarts, unnumbered);
        h.write("reset_counts", |e, _, _| {
            e.streams.reset_counts();
            Ok(())
        });
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        let mut out = cx.spare_batch();
        self.streams.expire(cx.now_ns(), &mut |packet| out.push(packet));
        cx.output_batch(0, out);
        self.set_timer(cx);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        let config = self.streams.config();
        std::mem::swap(&mut self.streams, &mut old.streams);
        self.streams.set(self.nodes, config);
        self.set_timer(cx);
    }
}

impl Vector for Resequencer {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let now = cx.now_ns();
        let mut out = cx.spare_batch();
        for packet in batch.drain(..) {
            let (node, port, number) = place(packet.data(), self.nodes);
            self.streams.arrive(now, node, port, number, packet, &mut |packet| out.push(packet));
        }
        cx.recycle(batch);
        cx.output_batch(0, out);
        self.set_timer(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use cluster::Phase as Leg;

    const CLUSTER: &str = "cluster :: ClusterInfo(NODE 0, NODES 4, RATE 1Gbps, RESEQUENCE true);";

    /// Number `number` from `node` to `port`; two bytes of it are the payload.
    fn frame(node: u16, port: u8, number: u32) -> Vec<u8> {
        let to = MacCode { node: NodeId(0), port, next_hop: 9, phase: Leg::Second };
        let from = SourceCode { node: NodeId(node), number };
        [&to.encode().unwrap()[..], &from.encode().unwrap(), &[8, 0], &[node as u8, number as u8]].concat()
    }
    fn bench() -> Bench {
        let config = format!("{CLUSTER} e :: Resequencer(cluster, TIMEOUT 2ms, CAPACITY 8);");
        Bench::simulated(&config, 1, 1)
    }
    fn push(bench: &mut Bench, frames: &[(u16, u8, u32)]) -> Vec<(u8, u8)> {
        let out = frames.iter().flat_map(|(n, p, i)| bench.push(0, &frame(*n, *p, *i))).collect::<Vec<_>>();
        out.iter().map(|(_, bytes)| (bytes[14], bytes[15])).collect()
    }
    fn read(bench: &mut Bench, names: &[&str]) -> Vec<u64> {
        names.iter().map(|n| bench.read(&format!("e.{n}")).parse().unwrap()).collect()
    }

    #[test]
    fn streams_come_out_in_order() {
        let mut bench = bench();
        let came = [(1, 0, 1), (1, 0, 3), (2, 0, 1), (1, 1, 2), (1, 0, 4), (1, 0, 2), (1, 1, 1)];
        let left = [(1, 1), (2, 1), (1, 2), (1, 3), (1, 4), (1, 1), (1, 2)];
        assert_eq!(push(&mut bench, &came), left);
        assert_eq!(
            read(&mut bench, &["streams", "in_order", "restored", "late", "waiting"]),
            [3, 4, 3, 0, 0]
        );
        bench.write("e.reset_counts", "");
        assert_eq!(read(&mut bench, &["streams", "in_order"]), [3, 0]);
    }

    #[test]
    fn a_lost_packet_holds_up_for_the_timeout() {
        let mut bench = bench();
        let start = bench.router().now_ns();
        assert_eq!(push(&mut bench, &[(1, 0, 1), (1, 0, 3), (1, 0, 4)]), [(1, 1)]);
        assert_eq!(read(&mut bench, &["waiting"]), [2]);
        let left = (0..100).map(|_| bench.turns(1)).find(|left| !left.is_empty()).unwrap_or_default();
        assert_eq!((left.len(), bench.router().now_ns() - start), (2, 2_000_000));
        assert_eq!(push(&mut bench, &[(1, 0, 2), (1, 0, 5)]), [(1, 2), (1, 5)]);
        assert_eq!(
            read(&mut bench, &["waiting", "late", "given_up", "timeouts", "restored"]),
            [0, 1, 1, 1, 2]
        );
    }

    #[test]
    fn others_pass() {
        let mut bench = bench();
        for bytes in [&[][..], &[0xc2; 11], &[2; 60], &frame(3, 0, 0), &frame(4, 0, 7)] {
            assert_eq!(bench.push(0, bytes), [(0, bytes.to_vec())]);
        }
        assert_eq!(read(&mut bench, &["unnumbered", "streams"]), [5, 0]);
        // The packet's number is too far ahead: the waiting packets leave.
        let many: Vec<_> = (2..=9).map(|n| (1, 0, n)).collect();
        assert_eq!(push(&mut bench, &many).len(), 8);
        assert_eq!(read(&mut bench, &["overflows", "given_up", "restarts"]), [1, 1, 0]);
    }

    #[test]
    fn bad_arguments() {
        for (arguments, words) in [
            ("x", "does not name an element"),
            ("cluster, TIMEOUT 0", "TIMEOUT must be more than 0"),
            ("cluster, TIMEOUT 11s", "at most 10 s"),
            ("cluster, CAPACITY 1", "CAPACITY must be from 2 to 65536"),
        ] {
            let error = Bench::error(&format!("Resequencer({arguments}); {}", CLUSTER.trim_end_matches(';')));
            assert!(error.contains(words), "{arguments}: {error}");
        }
    }
}
