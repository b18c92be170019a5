//! Elements with several outputs, as `doc/custom-elements.md` shows them.

use runtime::testing::Bench;
use runtime::{
    ArgError, Args, Batch, ConfigCx, Cx, DropCase, DropReason, Element, Packet, Registry, Sharing, Simple,
    Vector, simple, vector,
};
use wire::Ipv4;

const NO_HEADER: DropReason = DropReason::new("no IP header");

struct EvenTtl;

impl Element for EvenTtl {
    const CLASS: &'static str = "EvenTtl";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const DROPS: &'static [DropCase] = &[NO_HEADER.when("none is marked")];
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for EvenTtl {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match packet.network_header().and_then(Ipv4::new).map(|ip| ip.ttl() & 1) {
            Some(0) => return Some(packet),
            Some(_) => cx.output(1, packet),
            None => cx.drop(packet, NO_HEADER),
        }
        None
    }
}

struct Splitter {
    limit: usize,
}

impl Element for Splitter {
    const CLASS: &'static str = "Splitter";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { limit: args.mp::<u32>("LIMIT")? as usize })
    }
}

impl Vector for Splitter {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            cx.output(usize::from(packet.len() > self.limit), packet);
        }
        cx.recycle(batch);
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(simple::<EvenTtl>());
    registry.add(vector::<Splitter>());
    registry
}

#[test]
fn packets_go_by_their_ttl() {
    let mut bench = Bench::new(&registry(), "EvenTtl");
    for ttl in [4, 5] {
        let mut header = [0; 20];
        (header[0], header[8]) = (0x45, ttl);
        let mut packet = Packet::from_bytes(&header).unwrap();
        packet.set_network_header(0, 20);
        assert_eq!(bench.push_packet(0, packet)[0].0, usize::from(ttl & 1));
    }
    assert!(bench.push(0, b"no IP").is_empty());
    assert_eq!(bench.drops(), [("no IP header".to_owned(), 1)]);
}

#[test]
fn a_batch_is_split_in_order() {
    let mut bench = Bench::new(&registry(), "Splitter(2)");
    let packets = [&b"a"[..], b"bbb", b"cc"].map(|bytes| Packet::from_bytes(bytes).unwrap());
    let out: Vec<_> =
        bench.send_batch(0, packets.into()).into_iter().map(|(port, p)| (port, p.data().to_vec())).collect();
    assert_eq!(out, [(0, b"a".to_vec()), (1, b"bbb".to_vec()), (0, b"cc".to_vec())]);
}
