//! # ClusterDecap
//! Removes internal Ethernet headers from packets that leave the cluster at this node.
//!
//! ## Synopsis
//! `ClusterDecap(CLUSTER, NET0, NET1, ...)`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo of this node.
//! - `NET0`, `NET1`, ... (*IP prefixes*, /16 or longer): the network of each external port of this node, one
//!   for each output.
//!
//! ## Ports
//! Push. Input: frames for this node, from its own output of a ClusterSwitch. Output P: packets for external
//! port P, without Ethernet header, with the next hop as their destination annotation: for input 0 of the
//! port's ARPQuerier. Their aggregate annotation (4 bytes at offset 20) is 0xc6000000 plus their input node,
//! for ClusterQueue. Only the Ethernet addresses are read.
//!
//! ## Handlers
//! - `nets` (read): the networks, one on each line.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps);
//! // For node 0, port 1, next hop 9.
//! InfiniteSource(DATA \<c20000010009 c60010000000 0800 45000014>, LIMIT 3, STOP true)
//!   -> d :: ClusterDecap(cluster, 10.0.1.0/24, 10.0.2.0/24) -> Discard;
//! d [1] -> Print -> Discard;
//! ```
//!
//! ## See also
//! ClusterInfo, ClusterSwitch, ClusterEncap, ClusterQueue, ARPQuerier

use super::engine::inputnode::set_input_node;
use super::engine::network::Network;
use super::engine::spread::{Lost, Spread, Verdict};
use super::engine::state::state_of;

use crate::prelude::*;
use cluster::{MacCode, NodeId, SourceCode};
use lang::args::{IpPrefix, StrictIpPrefix};
use runtime::FromArg;
use wire::ethernet::HEADER_LEN;

/// The `ClusterDecap` element.
pub struct ClusterDecap {
    ports: Ports,
    prefixes: Vec<IpPrefix>,
    spread: Spread,
}

/// This node's external ports.
struct Ports {
    me: NodeId,
    nodes: u16,
    networks: Box<[Network]>,
}

impl Ports {
    /// Chooses the output by which a packet leaves, removes the packet's header and sets its next hop. Reads
    /// only the Ethernet addresses.
    #[inline]
    fn open(&self, packet: &mut Packet) -> Result<usize, Lost> {
        let address = packet.data().first_chunk::<6>().ok_or(Lost::TooShort)?;
        let source = packet.data().get(6..).and_then(<[u8]>::first_chunk::<6>);
        let source = source.and_then(|source| SourceCode::decode(*source, self.nodes).ok());
        let code = MacCode::decode(*address, self.nodes)?;
        if code.node != self.me {
            return Err(Lost::NotHere);
        }
        let port = usize::from(code.port);
        let network = self.networks.get(port).ok_or(Lost::NoPort)?;
        let next_hop = network.next_hop(code.next_hop).ok_or(Lost::Outside)?;
        if !packet.strip(HEADER_LEN) {
            return Err(Lost::TooShort);
        }
        packet.set_dst_ip(next_hop);
        if let Some(source) = source {
            set_input_node(packet, source.node);
        }
        Ok(port)
    }
}

impl Element for ClusterDecap {
    const CLASS: &'static str = "ClusterDecap";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::AGGREGATE);
    const DROPS: &'static [DropCase] = &[
        drops::NO_SUCH_PORT.when("the address names a port that this node does not have"),
        drops::OUTSIDE_NETWORK.when("the address names a next hop that the port's network does not have"),
        drops::NOT_FOR_THIS_NODE.when("the address names another node"),
        drops::NOT_AN_INTERNAL_ADDRESS.when("the destination is not an address of the cluster"),
        drops::ANOTHER_VERSION.when("the destination is an address of a cluster of another version"),
        drops::NO_SUCH_NODE.when("the destination names a node that the cluster does not have"),
        drops::FRAME_TOO_SHORT.when("not even an Ethernet header"),
    ];
    const MANUAL: &'static str = manual!("cluster/clusterdecap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let state = state_of(args, cx)?;
        let (mut prefixes, mut networks) = (Vec::new(), Vec::new());
        for arg in args.rest_args() {
            let prefix = StrictIpPrefix::from_arg(&arg.text, args.names());
            match prefix.and_then(|p| Network::from_prefix(p).map(|n| (p.0, n))) {
                Ok((prefix, network)) => {
                    prefixes.push(prefix);
                    networks.push(network);
                }
                Err(e) => return Err(args.error_at(&arg, format!("NET: {e}"))),
            }
        }
        let (nets, outputs) = (networks.len(), cx.n_outputs());
        if nets != outputs {
            return Err(
                args.error(format!("{nets} networks and {outputs} outputs: each external port has both"))
            );
        }
        if nets > super::engine::identity::MAX_PORTS {
            return Err(args
                .error(format!("{nets} ports: a node has {} at most", super::engine::identity::MAX_PORTS)));
        }
        Ok(Self {
            ports: Ports { me: state.me(), nodes: state.nodes(), networks: networks.into() },
            prefixes,
            spread: Spread::new(outputs, cx.batch_size()),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("nets", |e| e.prefixes.iter().fold(String::new(), |text, p| text + &format!("{p}\n")));
    }
}

impl Vector for ClusterDecap {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let Self { ports, spread, .. } = self;
        let none = (0, Verdict::output(0));
        spread.sort(
            batch,
            none,
            cx,
            |packet| ports.open(packet).into(),
            |output, batch, _, cx| cx.output_batch(output, batch),
        );
    }
}
