#![doc = include_str!("countttl.md")]

use runtime::{
    ArgError, Args, ConfigCx, Counter, Cx, DropCase, DropReason, Element, Fields, Handlers, Packet, Sharing,
    Simple, Step, StepFacts,
};
use wire::Ipv4;

const NO_HEADER: DropReason = DropReason::new("no IP header");

/// The `CountTtl` element.
pub struct CountTtl {
    limit: u8,
    count: Counter,
    low: Counter,
    lowest: Option<u8>,
}

impl Element for CountTtl {
    const CLASS: &'static str = "CountTtl";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[NO_HEADER.when("none is marked, or it is not whole")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = include_str!("countttl.md");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let limit = args.p_or("LIMIT", 2)?;
        Ok(Self { limit, count: Counter::new(), low: Counter::new(), lowest: None })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.counter("low", |e| &e.low);
        h.list("lowest", |e| e.lowest.map_or("none\n".into(), |ttl| format!("{ttl}\n")));
        h.read("limit", |e| e.limit.to_string());
        h.write("limit", |e, value, _cx| {
            e.limit = value.trim().parse().map_err(|_| "limit: expected 0 to 255".to_owned())?;
            Ok(())
        });
        h.write("reset", |e, _value, _cx| {
            e.count.set(0);
            e.low.set(0);
            e.lowest = None;
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.low.set(old.low.get());
        self.lowest = old.lowest;
    }
}

impl Step for CountTtl {
    fn step(&mut self, packet: &mut Packet) -> bool {
        let Some(ttl) = packet.network_header().and_then(Ipv4::new).map(|ip| ip.ttl()) else {
            return false;
        };
        self.count.add(1);
        self.low.add(u64::from(ttl <= self.limit));
        self.lowest = Some(self.lowest.map_or(ttl, |lowest| lowest.min(ttl)));
        true
    }
}

impl Simple for CountTtl {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.drop(packet, NO_HEADER);
        None
    }
}

#[cfg(test)]
mod tests {
    use runtime::testing::Bench;
    use runtime::{Packet, Registry};

    fn registry() -> Registry {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        registry
    }

    fn with_ttl(ttl: u8) -> Packet {
        let mut header = [0; 20];
        (header[0], header[8]) = (0x45, ttl);
        let mut packet = Packet::from_bytes(&header).unwrap();
        packet.set_network_header(0, 20);
        packet
    }

    #[test]
    fn counts_what_is_low_and_passes_everything() {
        let mut bench = Bench::new(&registry(), "CountTtl(LIMIT 5)");
        for ttl in [64, 5, 6] {
            assert_eq!(bench.push_packet(0, with_ttl(ttl)).len(), 1);
        }
        assert_eq!((bench.read("count"), bench.read("low")), ("3".into(), "1".into()));
        assert_eq!(bench.read("lowest"), "5\n");
    }

    #[test]
    fn the_limit_can_change_while_packets_flow() {
        let mut bench = Bench::new(&registry(), "CountTtl");
        bench.write("limit", "64");
        bench.push_packet(0, with_ttl(64));
        assert_eq!(bench.read("low"), "1");
        assert!(bench.try_write("limit", "256").is_err());
        bench.write("reset", "");
        assert_eq!((bench.read("count"), bench.read("lowest")), ("0".into(), "none\n".into()));
    }

    #[test]
    fn packets_without_an_ip_header_are_dropped() {
        let mut bench = Bench::new(&registry(), "CountTtl");
        assert!(bench.push(0, b"x").is_empty());
        let mut short = Packet::from_bytes(&[0x45; 19]).unwrap();
        short.set_network_header(0, 19);
        assert!(bench.push_packet(0, short).is_empty());
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 2)]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert!(Bench::error(&registry(), "CountTtl(256)").contains("LIMIT"));
        assert!(Bench::error(&registry(), "CountTtl(LIMT 3)").contains("LIMT"));
    }
}
