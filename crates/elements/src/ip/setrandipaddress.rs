//! # SetRandIPAddress
//! Sets the destination annotation of packets to random addresses.
//!
//! ## Synopsis
//! `SetRandIPAddress(PREFIX, [LIMIT])`
//!
//! ## Arguments
//! - `PREFIX` (*IP address* or *IP prefix*): the network that the addresses are in; an address alone is a
//!   network of one.
//! - `LIMIT` (*int*, default -1): how many different addresses there are at most, up to 16777216; 0 or less
//!   means as many as the network has. They are drawn once, before the first packet.
//!
//! ## Ports
//! One input, one output; agnostic. Only the annotation changes, and that is what route tables go by. To send
//! such packets, mark their header and write the address into it with `StoreIPAddress(dst)`, which keeps the
//! checksums right.
//!
//! ## Threads
//! Each worker has its own random numbers; the `LIMIT` addresses are the same for all.
//!
//! ## Example
//! ```click
//! RandomSeed(1);
//! InfiniteSource(DATA \<4500001c 00000000 401166cf 0a000001 0a000002 0000000000000000>, LIMIT 3, STOP true)
//!     -> MarkIPHeader -> SetRandIPAddress(10.0.0.0/8, 1000) -> StoreIPAddress(dst)
//!     -> CheckIPHeader -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! SetIPAddress, GetIPAddress, StoreIPAddress, RandomSeed

use crate::prelude::*;
use lang::args::IpPrefix;
use std::sync::{Arc, OnceLock};

/// The most addresses that are kept: 64 MB.
const MOST: usize = 1 << 24;

/// The `SetRandIPAddress` element.
pub struct SetRandIPAddress {
    prefix: IpPrefix,
    limit: usize,
    shared: Arc<SharedAddresses>,
    /// With a limit, the addresses to choose from.
    addresses: Arc<[[u8; 4]]>,
}

/// The addresses that the workers share; the first to initialize draws them.
#[derive(Default)]
struct SharedAddresses(OnceLock<Arc<[[u8; 4]]>>);

impl Element for SetRandIPAddress {
    const CLASS: &'static str = "SetRandIPAddress";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::DST_IP;
    const MANUAL: &'static str = manual!("ip/setrandipaddress");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let prefix = args.mp("PREFIX")?;
        let limit = usize::try_from(args.p_or("LIMIT", -1)?).unwrap_or(0);
        if limit > MOST {
            return Err(format!("LIMIT must be at most {MOST}; without LIMIT there is none").into());
        }
        Ok(Self { prefix, limit, shared: cx.shared(SharedAddresses::default), addresses: Arc::new([]) })
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.limit > 0 {
            let draw = || (0..self.limit).map(|_| pick(self.prefix, cx.random())).collect();
            self.addresses = Arc::clone(self.shared.0.get_or_init(draw));
        }
        Ok(())
    }
}

fn pick(prefix: IpPrefix, random: u64) -> [u8; 4] {
    // The high half is the better one.
    let host = (random >> 32) as u32 & !prefix.mask.to_bits();
    (prefix.network().to_bits() | host).to_be_bytes()
}

impl Simple for SetRandIPAddress {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let random = cx.random();
        let index = (u128::from(random) * self.addresses.len() as u128) >> 64;
        let address = self.addresses.get(index as usize).copied();
        packet.set_dst_ip(address.unwrap_or_else(|| pick(self.prefix, random)));
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked, sound};
    use crate::testing::Bench;
    use dpdk::Packet;
    use std::collections::HashSet;

    fn drawn(bench: &mut Bench, n: usize) -> Vec<[u8; 4]> {
        (0..n).map(|_| bench.send(0, Packet::from_bytes(b"x").unwrap())[0].1.dst_ip()).collect()
    }

    #[test]
    fn draws_from_the_network() {
        let addresses = drawn(&mut Bench::new("SetRandIPAddress(10.9.8.7/8)"), 500);
        assert!(addresses.iter().all(|a| a[0] == 10));
        assert!(addresses.iter().collect::<HashSet<_>>().len() > 490);
        // All bits of the host part occur, set and clear.
        let (all, any) = addresses.iter().fold((!0, 0), |(all, any), a| {
            let bits = u32::from_be_bytes(*a) & 0xff_ffff;
            (all & bits, any | bits)
        });
        assert_eq!((all, any), (0, 0xff_ffff));
        assert_eq!(drawn(&mut Bench::new("SetRandIPAddress(1.2.3.4)"), 2), [[1, 2, 3, 4]; 2]);
        let gaps = drawn(&mut Bench::new("SetRandIPAddress(1.2.3.4/255.0.255.0, 0)"), 100);
        assert!(gaps.iter().all(|a| (a[0], a[2]) == (1, 3)) && gaps.iter().any(|a| a[1] > 99));
    }

    #[test]
    fn limits_how_many_there_are() {
        let addresses = drawn(&mut Bench::new("SetRandIPAddress(0.0.0.0/0, 4)"), 200);
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), 4);
        let seeded = |s: &str| drawn(&mut Bench::with_config(s, 1, 1), 20);
        let same = "RandomSeed(7); e :: SetRandIPAddress(0.0.0.0/0, 8)";
        assert_eq!(seeded(same), seeded(same));
        assert_ne!(seeded(same), seeded("RandomSeed(8); e :: SetRandIPAddress(0.0.0.0/0, 8)"));
    }

    #[test]
    fn leaves_the_packet_to_others() {
        let mut bench = Bench::new("SetRandIPAddress(10.0.0.0/8, LIMIT 3)");
        let bytes = ip(17, b"payload");
        assert_eq!(bench.push(0, &bytes), [(0, bytes.clone())]);
        let config = "n :: SetRandIPAddress(99.0.0.0/8) -> e :: StoreIPAddress(dst); Idle -> n;";
        let mut bench = Bench::with_config(config, 0, 2);
        bench.router().inject("n", 0, [marked(&bytes)].into_iter().collect());
        let (port, packet) = bench.take().remove(0);
        assert!(port == 0 && sound(packet.data()) && packet.data()[16] == 99, "{:?}", packet.data());
    }

    #[test]
    fn refuses_a_limit_that_takes_too_much_memory() {
        assert!(Bench::error("SetRandIPAddress(10.0.0.0/8, 2000000000)").contains("LIMIT must be at most"));
        assert!(Bench::error("SetRandIPAddress()").contains("PREFIX"));
    }
}
