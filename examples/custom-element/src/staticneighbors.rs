//! The `StaticNeighbors` element. This file and its line in `lib.rs` are all that there is of it: the receive
//! side of ports, `valiant cluster`, the optimizer, the handlers and the manual go by the constants.

use lang::args::EtherAddr as EtherArg;
use runtime::{
    ArgError, Args, ConfigCx, Counter, Cx, DropCase, DropReason, Element, Fields, Handlers, Packet, Role,
    Sharing, Simple, Step, StepFacts,
};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::{EtherAddr, Ethernet, ethernet};

const UNKNOWN: DropReason = DropReason::new("unknown neighbor");
const NO_MEMORY: DropReason = DropReason::new("out of memory");

/// The `StaticNeighbors` element.
pub struct StaticNeighbors {
    own: EtherAddr,
    neighbors: BTreeMap<[u8; 4], EtherAddr>,
    count: Counter,
}

impl Element for StaticNeighbors {
    const CLASS: &'static str = "StaticNeighbors";
    const SHARING: Sharing = Sharing::PerWorker;
    // Nothing of this is what a port's receive side marks, so it need not mark anything for this element.
    const READS: Fields = Fields::DST_IP;
    const WRITES: Fields = Fields::DATA.with(Fields::MAC_HEADER);
    const SETS: Fields = Fields::MAC_HEADER;
    const DROPS: &'static [DropCase] = &[
        UNKNOWN.when("no argument has the next hop"),
        NO_MEMORY.when("the packet had no room for the header and could not be moved"),
    ];
    // On a node of a cluster that does not have the device behind it, packets go to the node that has.
    const ROLE: Role = Role::NextHopResolver;
    // Most packets are to known neighbors.
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = "# StaticNeighbors
Puts IP packets into Ethernet frames to neighbors whose addresses are configured.

## Synopsis
`StaticNeighbors(ETHER, IP ETHER, IP ETHER, ...)`

## Arguments
- `ETHER` (*Ethernet address*): the source of the frames.
- `IP ETHER`: a neighbor's addresses; as many as there are neighbors.

## Ports
One input, one output; agnostic. The next hop of a packet is its destination annotation, as route tables set it.

## Handlers
- `count` (read): packets that went on.

## Threads
Each worker has its own; counts are summed.

## Example
```click
InfiniteSource(LIMIT 3, STOP true) -> SetIPAddress(10.0.0.2)
  -> next :: StaticNeighbors(2:0:0:0:0:1, 10.0.0.2 2:0:0:0:0:2) -> Discard;
```

## See also
ARPQuerier, EtherEncap
";

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let own = EtherAddr(args.mp::<EtherArg>("ETHER")?.0);
        let mut neighbors = BTreeMap::new();
        for arg in args.rest_args() {
            let both = arg.text.split_once(' ').and_then(|(ip, ether)| {
                let ether = lang::args::parse::<EtherArg>(ether.trim()).ok()?;
                Some((ip.parse::<Ipv4Addr>().ok()?.octets(), EtherAddr(ether.0)))
            });
            let (ip, ether) = both.ok_or_else(|| args.error_at(&arg, "expected 'IP ETHER'"))?;
            neighbors.insert(ip, ether);
        }
        Ok(Self { own, neighbors, count: Counter::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl StaticNeighbors {
    /// Writes the header into the front of a frame.
    fn fill(&self, frame: &mut Packet, neighbor: EtherAddr) {
        if let Some(front) = frame.data_mut().first_chunk_mut() {
            *front = *Ethernet::build(neighbor, self.own, ethernet::ETHERTYPE_IPV4).bytes();
        }
        frame.set_mac_header(0);
        self.count.add(1);
    }
}

impl Step for StaticNeighbors {
    fn step(&mut self, packet: &mut Packet) -> bool {
        match self.neighbors.get(&packet.dst_ip()) {
            Some(neighbor) if packet.push_in_place(ethernet::HEADER_LEN) => {
                self.fill(packet, *neighbor);
                true
            }
            _ => false,
        }
    }
}

impl Simple for StaticNeighbors {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        let Some(neighbor) = self.neighbors.get(&packet.dst_ip()) else {
            cx.drop(packet, UNKNOWN);
            return None;
        };
        let Some(mut frame) = packet.push(ethernet::HEADER_LEN) else {
            cx.count_drops(1, NO_MEMORY);
            return None;
        };
        self.fill(&mut frame, *neighbor);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use runtime::testing::Bench;
    use runtime::{Packet, Registry};

    const ELEMENT: &str = "StaticNeighbors(2:0:0:0:0:1, 10.0.0.2 2:0:0:0:0:2)";

    fn registry() -> Registry {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        registry
    }

    fn to(next_hop: [u8; 4]) -> Packet {
        let mut packet = Packet::from_bytes(b"ip").unwrap();
        packet.set_dst_ip(next_hop);
        packet
    }

    #[test]
    fn frames_go_to_the_neighbor() {
        let mut bench = Bench::new(&registry(), ELEMENT);
        let out = bench.push_packet(0, to([10, 0, 0, 2]));
        assert_eq!(out, [(0, b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0ip".to_vec())]);
        assert_eq!(bench.read("count"), "1");
    }

    #[test]
    fn a_packet_without_room_in_front_moves() {
        let mut bench = Bench::new(&registry(), ELEMENT);
        let mut packet = Packet::alloc(0, 2).unwrap();
        packet.data_mut().copy_from_slice(b"ip");
        packet.set_dst_ip([10, 0, 0, 2]);
        assert_eq!(bench.push_packet(0, packet)[0].1.len(), 16);
        assert_eq!((bench.read("count"), bench.drops()), ("1".to_owned(), vec![]));
    }

    #[test]
    fn its_reasons_are_counted_and_listed_by_the_handlers_of_all_elements() {
        let mut bench = Bench::new(&registry(), ELEMENT);
        for _ in 0..3 {
            assert!(bench.push_packet(0, to([10, 0, 0, 9])).is_empty());
        }
        assert_eq!(bench.drops(), [("unknown neighbor".to_owned(), 3)]);
        assert_eq!(bench.read("drops"), "3\tunknown neighbor\n");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert!(Bench::error(&registry(), "StaticNeighbors(2:0:0:0:0:1, 10.0.0.2)").contains("IP ETHER"));
        assert!(Bench::error(&registry(), "StaticNeighbors").contains("ETHER"));
    }
}
