//! # ClusterEncap
//! Prepends an internal Ethernet header to IP packets that leave the cluster at another node.
//!
//! It takes the place of the ARPQuerier of another node's port: the destination address contains the output
//! node, its port and the next hop there, so that no later node reads the IP header. The output node finds
//! the next hop's Ethernet address by ARP.
//!
//! ## Synopsis
//! `ClusterEncap(CLUSTER, NODE, PORT, NET)`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo of this node.
//! - `NODE` (*int*, keyword): the output node.
//! - `PORT` (*int*, keyword): which of that node's external ports, 0 to 255.
//! - `NET` (*IP prefix*, keyword): the network of that port, /16 or longer: the next hop is written as a
//!   number within it.
//!
//! ## Ports
//! Push. Input 0: IP packets, whose destination annotation is the next hop. Input 1 (optional): the input for
//! ARP replies of an ARPQuerier; all packets on it are dropped. Output 0: frames for input 0 of a
//! ClusterSwitch.
//!
//! ## Handlers
//! - `node`, `port`, `net` (read): the arguments.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps);
//! InfiniteSource(LIMIT 3, STOP true) -> SetIPAddress(10.0.3.9)
//!   -> ClusterEncap(cluster, NODE 1, PORT 0, NET 10.0.3.0/24) -> Print -> Discard;
//! ```
//!
//! ## See also
//! ClusterInfo, ClusterSwitch, ClusterDecap, ARPQuerier

use super::engine::network::Network;
use super::engine::state::{ClusterState, state_of};
use crate::prelude::*;
use cluster::{MacCode, NodeId, Phase as Leg, SourceCode};
use lang::args::{IpPrefix, StrictIpPrefix};
use std::net::Ipv4Addr;
use wire::ethernet::{ETHERTYPE_IPV4, HEADER_LEN};
use wire::{EtherAddr, Ethernet};

const NO_ARP_HERE: DropReason = DropReason::new("no ARP in the cluster");

/// The `ClusterEncap` element.
pub struct ClusterEncap {
    node: NodeId,
    port: u8,
    prefix: IpPrefix,
    network: Network,
    /// The header, with 0 for the next hop.
    header: [u8; HEADER_LEN],
}

impl ClusterEncap {
    fn header(state: &ClusterState, node: NodeId, port: u8) -> Option<[u8; HEADER_LEN]> {
        let to = MacCode { node, port, next_hop: 0, phase: Leg::Direct }.encode()?;
        let from = SourceCode { node: state.me(), number: 0 }.encode()?;
        Some(*Ethernet::build(EtherAddr(to), EtherAddr(from), ETHERTYPE_IPV4).bytes())
    }
    #[inline]
    fn fill(&self, packet: &mut Packet, number: u16) {
        if let Some(front) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() {
            *front = self.header;
            [front[4], front[5]] = number.to_be_bytes();
        }
        packet.set_mac_header(0);
    }
}

impl Element for ClusterEncap {
    const CLASS: &'static str = "ClusterEncap";
    const PORTS: &'static str = "1-2/1";
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "xy/x";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DST_IP;
    const WRITES: Fields = Fields::DATA.with(Fields::MAC_HEADER);
    const SETS: Fields = Fields::MAC_HEADER;
    const DROPS: &'static [DropCase] = &[
        drops::NO_NEXT_HOP.when("the destination annotation is 0.0.0.0"),
        drops::OUTSIDE_NETWORK.when("the destination annotation is not in `NET`"),
        NO_ARP_HERE.when("the packet came by input 1"),
        drops::NO_ROOM_FOR_A_HEADER,
    ];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("cluster/clusterencap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let state = state_of(args, cx)?;
        let node = NodeId(args.mk("NODE")?);
        let port = args.mk::<u8>("PORT")?;
        let prefix = args.mk::<StrictIpPrefix>("NET")?;
        let network = Network::from_prefix(prefix).map_err(|e| args.error(format!("NET: {e}")))?;
        let header = Some(node).filter(|n| n.0 < state.nodes()).and_then(|n| Self::header(&state, n, port));
        let nodes = state.nodes();
        let header = header.ok_or_else(|| {
            args.error(format!("NODE: node {node} in a cluster of {nodes} nodes: they count from 0"))
        })?;
        Ok(Self { node, port, prefix: prefix.0, network, header })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("node", |e| e.node.to_string());
        h.read("port", |e| e.port.to_string());
        h.read("net", |e| e.prefix.to_string());
    }
}

impl Step for ClusterEncap {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let next_hop = packet.dst_ip();
        match self.network.number(next_hop) {
            Some(number) if next_hop != [0; 4] && packet.push_in_place(HEADER_LEN) => {
                self.fill(packet, number);
                true
            }
            _ => false,
        }
    }
}

impl ClusterEncap {
    #[cold]
    fn unusual(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let next_hop = packet.dst_ip();
        if Ipv4Addr::from(next_hop).is_unspecified() {
            cx.drop(packet, drops::NO_NEXT_HOP);
            return None;
        }
        let Some(number) = self.network.number(next_hop) else {
            cx.drop(packet, drops::OUTSIDE_NETWORK);
            return None;
        };
        match packet.push(HEADER_LEN) {
            Some(mut packet) => {
                self.fill(&mut packet, number);
                Some(packet)
            }
            None => {
                cx.count_drops(1, drops::OUT_OF_MEMORY);
                None
            }
        }
    }
}

impl Vector for ClusterEncap {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        if port != 0 {
            return cx.drop_batch(batch, NO_ARP_HERE);
        }
        batch.filter_map_in_place(|mut packet| {
            if self.step(&mut packet) { Some(packet) } else { self.unusual(packet, cx) }
        });
        cx.output_batch(0, batch);
    }
}
