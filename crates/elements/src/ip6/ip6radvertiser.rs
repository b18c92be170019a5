//! # IP6RAdvertiser
//! Tells the hosts of a link which router and which prefixes they use: router advertisements (RFC 4861).
//!
//! Hosts get a default route from it, and addresses in the prefixes (SLAAC, RFC 4862).
//!
//! ## Synopsis
//! `IP6RAdvertiser(ADDR, ETH [, PREFIX1, ..., PREFIXn, RDNSS, MTU, LIFETIME, INTERVAL, VALID, PREFERRED, HLIM, MANAGED, OTHER])`
//!
//! ## Arguments
//! - `ADDR` (*IPv6 address*): the router's link-local address, which hosts use as the next hop.
//! - `ETH` (*Ethernet address*): the router's.
//! - `PREFIX` (*IPv6 network*): hosts are on this link, and those that are given a length of 64 make
//!   themselves an address in it. There may be 16.
//! - `RDNSS` (*IPv6 addresses*, keyword, with spaces between them): DNS servers (RFC 8106), at most 8.
//! - `MTU` (*int*, bytes, keyword, at least 1280): what the link carries. By default nothing is said about
//!   it.
//! - `LIFETIME` (*time*, keyword, default three times `INTERVAL`, at most 18 h 12 min 15 s): how long hosts
//!   use the router after an advertisement. 0: it is no default router.
//! - `INTERVAL` (*time*, keyword, default 10 min, 4 s to 30 min): the longest time between two
//!   advertisements. The shortest is a third of it; each is chosen at random. The first three follow each
//!   other sooner.
//! - `VALID` (*time*, keyword, default 30 days): how long addresses in the prefixes are valid.
//! - `PREFERRED` (*time*, keyword, default 7 days): how long they are used for new connections.
//! - `HLIM` (*int*, keyword, default 64): the hop limit that hosts use.
//! - `MANAGED`, `OTHER` (*bool*, keyword, default false): hosts get addresses, or other information, by
//!   DHCPv6.
//!
//! ## Ports
//! One push input, which need not be connected, one push output. The input takes router solicitations, as
//! Ethernet frames (`12/86dd 20/3aff 54/85` of a Classifier); the output emits advertisements, as Ethernet
//! frames to all nodes. A solicitation is answered at a random time within half a second. No two
//! advertisements follow each other in less than three seconds (RFC 4861 section 6.2.6), however many ask.
//!
//! ## Handlers
//! - `count` (read): advertisements that were sent.
//! - `solicitations` (read): valid solicitations.
//! - `prefixes` (read): the prefixes, one on a line.
//! - `send` (write): sends an advertisement as soon as that is allowed.
//!
//! ## Threads
//! One worker runs it.
//!
//! ## Example
//! ```click
//! IP6RAdvertiser(fe80::1, 02:00:00:00:00:01, 2001:db8:1::/64, MTU 1500)
//!   -> Print(advertisement, 14) -> Discard;
//! DriverManager(wait 1s, stop);
//! ```
//!
//! ## See also
//! IP6NDAdvertiser, IP6NDSolicitor, ICMP6Error

use super::engine::discovery::is_router_solicitation;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{EtherAddr as EtherArg, Ip6Prefix, Raw};
use std::net::Ipv6Addr;
use std::time::Duration;
use wire::ethernet::ETHERTYPE_IPV6;
use wire::icmpv6::{self, NEIGHBOR_HOP_LIMIT, OPTION_SOURCE, ROUTER_ADVERTISEMENT};
use wire::{EtherAddr, Ethernet, Ipv6, ethernet, ipv6, protocol};

const NOT_A_SOLICITATION: DropReason = DropReason::new("not a router solicitation");

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const MOST_PREFIXES: usize = 16;
const MOST_SERVERS: usize = 8;
const OPTION_PREFIX: u8 = 3;
const OPTION_MTU: u8 = 5;
const OPTION_RDNSS: u8 = 25;
/// Hosts are on the link, and may make themselves an address.
const ON_LINK_AND_AUTONOMOUS: u8 = 0xc0;
const MANAGED: u8 = 0x80;
const OTHER: u8 = 0x40;
/// RFC 4861 section 10.
const MIN_DELAY: Duration = Duration::from_secs(3);
const MAX_ANSWER_DELAY: Duration = Duration::from_millis(500);
const INITIAL_INTERVAL: Duration = Duration::from_secs(16);
const INITIAL: u32 = 3;
const DAY: u64 = 24 * 3600;

/// The `IP6RAdvertiser` element.
pub struct IP6RAdvertiser {
    /// The whole frame.
    frame: Vec<u8>,
    prefixes: Vec<Ip6Prefix>,
    interval: Duration,
    /// How many of the first ones are left.
    initial: u32,
    last_ns: Option<u64>,
    /// When the next one is sent.
    next_ns: u64,
    count: Counter,
    solicitations: Counter,
}

/// Seconds in 32 bits; all ones is forever (RFC 4861 section 4.6.2), which is not meant.
fn seconds(time: Duration) -> [u8; 4] {
    (time.as_secs().min(u64::from(u32::MAX) - 1) as u32).to_be_bytes()
}

impl Element for IP6RAdvertiser {
    const CLASS: &'static str = "IP6RAdvertiser";
    const PORTS: &'static str = "0-1/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        NOT_A_SOLICITATION.when("the packet is something else, or damaged, or a router has forwarded it"),
        drops::OUT_OF_MEMORY.when("there was no buffer for the advertisement"),
    ];
    const MANUAL: &'static str = manual!("ip6/ip6radvertiser");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let src: Ipv6Addr = args.mp("ADDR")?;
        let mac = EtherAddr(args.mp::<EtherArg>("ETH")?.0);
        if !src.is_unicast_link_local() {
            return Err(args.error("ADDR must be a link-local address: hosts take no other"));
        }
        let mut servers: Vec<Ipv6Addr> = Vec::new();
        if let Some(Raw(text)) = args.k::<Raw>("RDNSS")? {
            for word in text.split_whitespace() {
                servers.push(lang::args::parse(word).map_err(|e| args.error(format!("RDNSS: {e}")))?);
            }
            if servers.is_empty() || servers.len() > MOST_SERVERS {
                return Err(args.error(format!("RDNSS needs 1 to {MOST_SERVERS} addresses")));
            }
        }
        let mtu = args.k::<u32>("MTU")?;
        if mtu.is_some_and(|mtu| mtu < 1280) {
            return Err(args.error("MTU must be at least 1280"));
        }
        let interval = args.k_or("INTERVAL", Duration::from_secs(600))?;
        if !(Duration::from_secs(4)..=Duration::from_secs(1800)).contains(&interval) {
            return Err(args.error("INTERVAL must be 4 s to 30 min"));
        }
        let lifetime = args.k_or("LIFETIME", 3 * interval)?;
        let Ok(life) = u16::try_from(lifetime.as_secs()) else {
            return Err(args.error("LIFETIME must be at most 65535 s"));
        };
        let valid = args.k_or("VALID", Duration::from_secs(30 * DAY))?;
        let preferred = args.k_or("PREFERRED", Duration::from_secs(7 * DAY))?;
        if preferred > valid {
            return Err(args.error("PREFERRED must be at most VALID"));
        }
        let hops = args.k_or("HLIM", 64u8)?;
        let managed = if args.k_or("MANAGED", false)? { MANAGED } else { 0 };
        let flags = managed | if args.k_or("OTHER", false)? { OTHER } else { 0 };
        let mut prefixes = Vec::new();
        for arg in args.rest_args() {
            let prefix = Ip6Prefix::parse(&arg.text, args.names(), false);
            let prefix =
                prefix.map_err(|_| args.error_at(&arg, "expected a network like 2001:db8:1::/64"))?;
            if prefix.addr.is_unicast_link_local() || prefix.addr.is_multicast() {
                return Err(args.error_at(&arg, "hosts take no address in this network"));
            }
            prefixes.push(prefix);
        }
        if prefixes.len() > MOST_PREFIXES {
            return Err(args.error(format!("at most {MOST_PREFIXES} prefixes")));
        }

        let mut m = vec![ROUTER_ADVERTISEMENT, 0, 0, 0, hops, flags];
        m.extend(life.to_be_bytes());
        m.extend([0; 8]);
        m.extend([OPTION_SOURCE, 1]);
        m.extend(mac.octets());
        if let Some(mtu) = mtu {
            m.extend([OPTION_MTU, 1, 0, 0]);
            m.extend(mtu.to_be_bytes());
        }
        for prefix in &prefixes {
            m.extend([OPTION_PREFIX, 4, prefix.len, ON_LINK_AND_AUTONOMOUS]);
            m.extend([seconds(valid), seconds(preferred), [0; 4]].concat());
            let unused = 128 - u32::from(prefix.len);
            let bits = prefix.addr.to_bits() & u128::MAX.checked_shl(unused).unwrap_or(0);
            m.extend(bits.to_be_bytes());
        }
        if !servers.is_empty() {
            m.extend([OPTION_RDNSS, 1 + 2 * servers.len() as u8, 0, 0]);
            m.extend(seconds(3 * interval));
            m.extend(servers.iter().flat_map(|server| server.octets()));
        }
        let mut ip = Ipv6::build(src, ALL_NODES, protocol::ICMPV6, m.len() as u16);
        ip.set_hop_limit(NEIGHBOR_HOP_LIMIT);
        icmpv6::fill(ip.pseudo_sum(m.len() as u32), &mut m);
        let eth = Ethernet::build(EtherAddr::multicast_v6(ALL_NODES), mac, ETHERTYPE_IPV6);
        Ok(Self {
            frame: [&eth.bytes()[..], ip.bytes(), &m].concat(),
            prefixes,
            interval,
            initial: INITIAL,
            last_ns: None,
            next_ns: 0,
            count: Counter::new(),
            solicitations: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.counter("solicitations", |e| &e.solicitations);
        h.read("prefixes", |e| e.prefixes.iter().map(|p| format!("{}/{}\n", p.addr, p.len)).collect());
        h.write("send", |e, _, cx| {
            e.wish(0, cx);
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.next_ns = u64::MAX;
        let delay = random(Duration::ZERO, MAX_ANSWER_DELAY, cx);
        self.wish(delay, cx);
        Ok(())
    }

    fn run_timer(&mut self, id: u32, cx: &mut Cx<'_>) {
        let now = cx.now_ns();
        // A hot swap may have brought the time of the last one.
        let due = self.next_ns.max(self.allowed_ns());
        if now < due {
            return cx.timer_at(id, due);
        }
        match Packet::from_bytes(&self.frame) {
            Some(mut packet) => {
                packet.set_mac_header(0);
                packet.set_network_header(ethernet::HEADER_LEN, ipv6::HEADER_LEN);
                packet.anno_mut().timestamp_ns = now;
                self.count.add(1);
                cx.output(0, packet);
            }
            None => cx.count_drops(1, drops::OUT_OF_MEMORY),
        }
        self.last_ns = Some(now);
        let mut wait = random(self.interval / 3, self.interval, cx);
        if self.initial > 0 {
            self.initial -= 1;
            wait = wait.min(text::nanos(INITIAL_INTERVAL));
        }
        self.next_ns = now + wait.max(text::nanos(MIN_DELAY));
        cx.timer_at(id, self.next_ns);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.solicitations.set(old.solicitations.get());
        self.last_ns = old.last_ns;
    }
}

/// A random time in nanoseconds between two times.
fn random(from: Duration, to: Duration, cx: &mut Cx<'_>) -> u64 {
    let (from, to) = (text::nanos(from), text::nanos(to));
    from + cx.random() % (to - from).max(1)
}

impl IP6RAdvertiser {
    /// When the next one may be sent.
    fn allowed_ns(&self) -> u64 {
        self.last_ns.map_or(0, |last| last + text::nanos(MIN_DELAY))
    }

    /// Sends the next advertisement in so many nanoseconds, unless it is sent sooner anyway, or that would be
    /// too soon after the last one.
    fn wish(&mut self, delay_ns: u64, cx: &mut Cx<'_>) {
        let at = (cx.now_ns() + delay_ns).max(self.allowed_ns());
        if at < self.next_ns {
            self.next_ns = at;
            cx.timer_at(0, at);
        }
    }
}

impl Vector for IP6RAdvertiser {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            if !is_router_solicitation(packet.data()) {
                cx.drop(packet, NOT_A_SOLICITATION);
                continue;
            }
            self.solicitations.add(1);
            let delay = random(Duration::ZERO, MAX_ANSWER_DELAY, cx);
            self.wish(delay, cx);
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::a;
    use crate::testing::Bench;
    use wire::{EtherAddr, Ethernet, Ipv6, icmpv6};

    /// A router solicitation, with these options.
    fn solicitation(src: &str, hops: u8, options: &[u8]) -> Vec<u8> {
        let mut m = [&[133, 0, 0, 0, 0, 0, 0, 0][..], options].concat();
        let mut ip = Ipv6::build(a(src), a("ff02::2"), 58, m.len() as u16);
        ip.set_hop_limit(hops);
        icmpv6::fill(ip.pseudo_sum(m.len() as u32), &mut m);
        let eth = Ethernet::build(EtherAddr([0x33, 0x33, 0, 0, 0, 2]), EtherAddr([2, 0, 0, 0, 0, 9]), 0x86dd);
        [&eth.bytes()[..], ip.bytes(), &m].concat()
    }

    #[test]
    fn advertisements_say_what_was_configured() {
        let config = "e :: IP6RAdvertiser(fe80::1, 2:0:0:0:0:1, 2001:db8:1::7/64, 2001:db8:2::/48, MTU 1400, \
            RDNSS 2001:db8::53 2001:db8::54, INTERVAL 100s, VALID 1h, PREFERRED 30m, HLIM 99, OTHER true);";
        let mut bench = Bench::simulated(config, 1, 1);
        let out = bench.turns(5);
        let frame = &out[0].1;
        assert_eq!(frame[..14], [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
        let (h, m) = Ipv6::split(&frame[14..]).unwrap();
        assert_eq!((h.src(), h.dst(), h.hop_limit()), (a("fe80::1"), a("ff02::1"), 255));
        assert!(icmpv6::verify(h.pseudo_sum(m.len() as u32), m) && usize::from(h.payload_len()) == m.len());
        assert_eq!(m[4..8], [99, 0x40, 1, 44]);
        assert_eq!(m[16..24], [1, 1, 2, 0, 0, 0, 0, 1]);
        assert_eq!(m[24..32], [5, 1, 0, 0, 0, 0, 5, 120]);
        assert_eq!(m[32..48], [3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0]);
        assert_eq!(m[48..64], a("2001:db8:1::").octets());
        assert_eq!((&m[64..68], &m[80..96]), (&[3, 4, 48, 0xc0][..], &a("2001:db8:2::").octets()[..]));
        assert_eq!(m[96..104], [25, 5, 0, 0, 0, 0, 1, 44]);
        assert_eq!(m[104..], [a("2001:db8::53").octets(), a("2001:db8::54").octets()].concat());
        assert!(icmpv6::options_fit(&m[16..]));
    }

    /// However many hosts ask, the answer comes once, and not sooner than three seconds after the last one.
    #[test]
    fn answers_are_few() {
        let config = "e :: IP6RAdvertiser(fe80::1, 2:0:0:0:0:1);";
        let mut bench = Bench::simulated(config, 1, 1);
        let before = bench.turns(3).len() as u64;
        assert!(before >= 1);
        let ask = solicitation("fe80::9", 255, &[1, 1, 2, 0, 0, 0, 0, 9]);
        for _ in 0..1000 {
            assert!(bench.push(0, &ask).is_empty());
        }
        bench.turns(1);
        let sent: u64 = bench.read("count").parse().unwrap();
        assert!(sent <= before + 1, "{sent} after {before}");
        assert_eq!(bench.read("solicitations"), "1000");
    }

    #[test]
    fn only_valid_solicitations_count() {
        let mut bench = Bench::new("IP6RAdvertiser(fe80::1, 2:0:0:0:0:1, 2001:db8:1::/64)");
        let good = solicitation("::", 255, &[]);
        let mut wrong = good.clone();
        wrong[54] ^= 1;
        for bytes in [
            solicitation("fe80::9", 254, &[]),
            solicitation("::", 255, &[1, 1, 2, 0, 0, 0, 0, 9]),
            solicitation("fe80::9", 255, &[1, 0, 2, 0, 0, 0, 0, 9]),
            solicitation("ff02::1", 255, &[]),
            wrong,
            good[..61].to_vec(),
            Vec::new(),
        ] {
            bench.push(0, &bytes);
        }
        assert_eq!(
            (bench.read("solicitations"), bench.drops()),
            ("0".into(), vec![("not a router solicitation".to_owned(), 7)])
        );
        bench.push(0, &good);
        assert_eq!(bench.read("solicitations"), "1");
        assert_eq!(bench.read("prefixes"), "2001:db8:1::/64\n");
    }

    #[test]
    fn wrong_arguments_are_errors() {
        for (more, wrong) in [
            ("2001:db8::1, 2:0:0:0:0:1", "link-local"),
            ("fe80::1, 2:0:0:0:0:1, MTU 1000", "MTU"),
            ("fe80::1, 2:0:0:0:0:1, INTERVAL 1s", "INTERVAL"),
            ("fe80::1, 2:0:0:0:0:1, LIFETIME 70000s", "LIFETIME"),
            ("fe80::1, 2:0:0:0:0:1, VALID 1s", "PREFERRED"),
            ("fe80::1, 2:0:0:0:0:1, fe80::/64", "no address"),
            ("fe80::1, 2:0:0:0:0:1, nonsense", "network"),
            ("fe80::1, 2:0:0:0:0:1, RDNSS x", "RDNSS"),
        ] {
            let error = Bench::error(&format!("IP6RAdvertiser({more})"));
            assert!(error.contains(wrong), "{more}: {error}");
        }
    }
}
