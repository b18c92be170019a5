//! # ForceTCP
//! Makes packets look like TCP packets.
//!
//! For tests with random packets: what other elements check first becomes right.
//!
//! ## Synopsis
//! `ForceTCP([DPORT, RANDOM_DPORT, FLAGS])`
//!
//! ## Arguments
//! - `DPORT` (*TCP port*, number or name, default 0): the destination port; 0 leaves it as it is.
//! - `RANDOM_DPORT` (*bool*, default false): without a `DPORT`, of every eight packets the first two get port
//!   80, and the fourth a random one below 1024.
//! - `FLAGS` (*int*, default -1): the flags; -1 leaves them as they are.
//!
//! ## Ports
//! One input, one output; agnostic. The input takes packets whose IP header is marked; the protocol is not
//! changed. A header length that is impossible is replaced by a random one. The checksum is set. For a packet
//! whose IP payload is shorter than 20 bytes a line is printed.
//!
//! ## Threads
//! Each worker has its own instance, and counts its own packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 1, STOP true)
//!   -> ForceIP -> ForceTCP(80, FLAGS 2) -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! ForceIP, ForceUDP, ForceICMP, SetTCPChecksum

use super::engine::force;
use crate::prelude::*;
use lang::args::TcpPort;
use wire::{Tcp, tcp};

/// The port of the web.
const HTTP: u16 = 80;

/// The `ForceTCP` element.
pub struct ForceTCP {
    dport: u16,
    random: bool,
    flags: Option<u8>,
    count: u8,
}

impl Element for ForceTCP {
    const CLASS: &'static str = "ForceTCP";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &force::CASES;
    const MANUAL: &'static str = manual!("transport/forcetcp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let TcpPort(dport) = args.p_or("DPORT", TcpPort(0))?;
        let random = args.p_or("RANDOM_DPORT", false)?;
        let flags = args.p_or::<i32>("FLAGS", -1)?;
        Ok(Self { dport, random, flags: (flags != -1).then_some(flags as u8), count: 0 })
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count = old.count;
    }
}

impl Simple for ForceTCP {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        force::change(packet, tcp::HEADER_LEN, cx, |segment, pseudo, cx| {
            let (len, count) = (segment.len(), self.count & 7);
            self.count = self.count.wrapping_add(1);
            let Some(mut h) = Tcp::new_mut(segment) else { return };
            if !(tcp::HEADER_LEN..=len).contains(&h.header_len()) {
                let data = (len - tcp::HEADER_LEN) as u64;
                let chosen = if data > 0 { (cx.random() >> 32) % data } else { len as u64 };
                h.set_header_len((chosen / 4 % 16 * 4) as usize);
            }
            if let Some(flags) = self.flags {
                h.set_flags(flags);
            }
            match count {
                _ if self.dport > 0 => h.set_dst_port(self.dport),
                0 | 1 if self.random => h.set_dst_port(HTTP),
                3 if self.random => h.set_dst_port((cx.random() >> 54) as u16),
                _ => {}
            }
            tcp::fill(pseudo, segment);
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;
    use crate::transport::engine::datagram::Datagram;
    use dpdk::Packet;

    fn forced(bench: &mut Bench, bytes: &[u8]) -> Packet {
        let out = bench.send(0, marked(bytes)).remove(0).1;
        let d = Datagram::of(&out).unwrap();
        let payload = d.payload().unwrap();
        assert!(wire::tcp::verify(d.pseudo_sum(payload.len() as u16), payload));
        out
    }

    #[test]
    fn sets_port_flags_and_checksum() {
        let mut bench = Bench::new("ForceTCP(http, FLAGS 0x12)");
        let mut payload = [0xee; 31];
        payload[12] = 0x6e;
        let out = forced(&mut bench, &ip(6, &payload));
        assert_eq!(out.data()[20..24], [0xee, 0xee, 0, 80]);
        assert_eq!(out.data()[32..34], [0x6e, 0x12]);
        let out = forced(&mut Bench::new("ForceTCP"), &ip(6, &payload));
        assert_eq!((&out.data()[22..24], out.data()[33]), (&[0xee, 0xee][..], 0xee));
    }

    #[test]
    fn replaces_impossible_header_lengths() {
        let mut bench = Bench::new("ForceTCP");
        for (data, wrong, most) in [(0, 0x40, 20), (40, 0xf0, 60), (40, 0, 40), (1, 0xf0, 0)] {
            let mut payload = vec![0; 20 + data];
            payload[12] = wrong;
            for _ in 0..20 {
                let out = forced(&mut bench, &ip(6, &payload));
                let got = usize::from(out.data()[32] >> 4) * 4;
                let right = if wrong == 0xf0 && data == 40 { got == 60 } else { got <= most };
                assert!(right, "{data} {wrong:x} {got}");
            }
        }
    }

    #[test]
    fn ports_at_random() {
        let mut bench = Bench::new("ForceTCP(RANDOM_DPORT true)");
        let mut payload = [0xee; 20];
        payload[12] = 0x50;
        let ports: Vec<u16> = (0..8)
            .map(|_| {
                forced(&mut bench, &ip(6, &payload)).data()[22..24]
                    .try_into()
                    .map(u16::from_be_bytes)
                    .unwrap()
            })
            .collect();
        assert_eq!((ports[0], ports[1], ports[2]), (80, 80, 0xeeee));
        assert!(ports[3] < 1024 && ports[4..].iter().all(|p| *p == 0xeeee), "{ports:?}");
        assert!(Bench::error("ForceTCP(65536)").contains("DPORT"));
    }

    #[test]
    fn drops_what_is_short() {
        for (class, least) in [("ForceTCP", 20), ("ForceUDP", 8), ("ForceICMP(8, 0)", 8)] {
            let mut bench = Bench::new(class);
            let good = ip(6, &vec![0; least]);
            assert_eq!(bench.push_packet(0, marked(&good)).len(), 1, "{class}");
            let mut bad = vec![good[..19 + least].to_vec(), good[..4].to_vec()];
            for (at, value) in [(3, 19 + least as u8), (3, 12), (0, 0x4f), (0, 0x43)] {
                let mut bytes = good.clone();
                bytes[at] = value;
                bad.push(bytes);
            }
            for bytes in &bad {
                assert!(bench.push_packet(0, marked(bytes)).is_empty(), "{class} {bytes:x?}");
            }
            assert!(bench.push(0, &good).is_empty(), "unmarked");
            assert_eq!(bench.drops(), [("bad lengths".to_owned(), 7)], "{class}");
        }
    }
}
