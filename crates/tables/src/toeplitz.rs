//! The Toeplitz hash of receive-side scaling.
//!
//! Network cards spread flows over queues by this hash (Microsoft, "RSS hashing types" and "Verifying the RSS
//! hash calculation"): for each bit of the input that is one, the 32 bits of the key that start at that bit's
//! position are added. The input is source address, destination address, source port, destination port, in
//! network order. Since the hash is linear, the contribution of a whole byte is looked up in a table made
//! once per key.
//!
//! ```
//! use tables::toeplitz::{SYMMETRIC_KEY, Toeplitz};
//! let hash = Toeplitz::new(&SYMMETRIC_KEY);
//! let (a, b) = (0x0a000001, 0x0a000002);
//! assert_eq!(hash.ipv4_ports(a, b, 1234, 80), hash.ipv4_ports(b, a, 80, 1234));
//! ```

/// The key of Microsoft's verification suite, the default of most drivers.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key that gives both directions of a flow the same hash: it repeats every 16 bits (Woo and Park,
/// "Scalable TCP session monitoring with symmetric receive-side scaling", 2012).
pub const SYMMETRIC_KEY: [u8; 40] = {
    let mut key = [0; 40];
    let mut i = 0;
    while i < 40 {
        key[i] = if i % 2 == 0 { 0x6d } else { 0x5a };
        i += 1;
    }
    key
};

/// The tables of a key: 1 KB for each byte of input that the key can hash.
#[derive(Clone)]
pub struct Toeplitz {
    tables: Box<[[u32; 256]]>,
}

impl Toeplitz {
    /// Makes the tables for `key`, which hashes inputs of up to four bytes less than its own length.
    pub fn new(key: &[u8]) -> Self {
        let window = |bit: usize| {
            let byte = |i: usize| u64::from(key.get(bit / 8 + i).copied().unwrap_or(0));
            let five = byte(0) << 32 | byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
            (five >> (8 - bit % 8)) as u32
        };
        let table = |position: usize| {
            let mut table = [0u32; 256];
            // The hash is linear: a value's entry is that of the value without its lowest bit, and that
            // bit's.
            for value in 1..256usize {
                let bit = 7 - value.trailing_zeros() as usize;
                table[value] = table[value & (value - 1)] ^ window(position * 8 + bit);
            }
            table
        };
        Self { tables: (0..key.len().saturating_sub(4)).map(table).collect() }
    }

    /// The hash of `input`; bytes beyond what the key covers do not count.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.tables.iter().zip(input).fold(0, |h, (table, &byte)| h ^ table[usize::from(byte)])
    }

    /// IPv4 without ports. Addresses are in host order (`u32::from(Ipv4Addr)`).
    #[inline]
    pub fn ipv4(&self, src: u32, dst: u32) -> u32 {
        let input = (u64::from(src) << 32 | u64::from(dst)).to_be_bytes();
        self.hash(&input)
    }

    /// IPv4 with TCP or UDP ports, all in host order.
    #[inline]
    pub fn ipv4_ports(&self, src: u32, dst: u32, src_port: u16, dst_port: u16) -> u32 {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&src.to_be_bytes());
        input[4..8].copy_from_slice(&dst.to_be_bytes());
        input[8..10].copy_from_slice(&src_port.to_be_bytes());
        input[10..].copy_from_slice(&dst_port.to_be_bytes());
        self.hash(&input)
    }

    /// IPv6 without ports.
    #[inline]
    pub fn ipv6(&self, src: [u8; 16], dst: [u8; 16]) -> u32 {
        let mut input = [0; 32];
        input[..16].copy_from_slice(&src);
        input[16..].copy_from_slice(&dst);
        self.hash(&input)
    }

    /// IPv6 with TCP or UDP ports in host order.
    #[inline]
    pub fn ipv6_ports(&self, src: [u8; 16], dst: [u8; 16], src_port: u16, dst_port: u16) -> u32 {
        let mut input = [0; 36];
        input[..16].copy_from_slice(&src);
        input[16..32].copy_from_slice(&dst);
        input[32..34].copy_from_slice(&src_port.to_be_bytes());
        input[34..].copy_from_slice(&dst_port.to_be_bytes());
        self.hash(&input)
    }
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toeplitz").field("input_bytes", &self.tables.len()).finish()
    }
}

// Nothing here is `unsafe`, and Miri takes a minute to make tables.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Bit by bit, by the definition.
    fn naive(key: &[u8], input: &[u8]) -> u32 {
        let mut hash = 0u32;
        for (i, byte) in input.iter().enumerate() {
            for bit in 0..8 {
                if byte & (0x80 >> bit) != 0 {
                    for k in 0..32 {
                        let at = i * 8 + bit + k;
                        let key_bit = key[at / 8] >> (7 - at % 8) & 1;
                        hash ^= u32::from(key_bit) << (31 - k);
                    }
                }
            }
        }
        hash
    }

    #[test]
    fn microsoft_vectors_v4() {
        let t = Toeplitz::new(&MICROSOFT_KEY);
        // Destination, its port, source, its port, hash of addresses, hash with ports.
        for (dst, dport, src, sport, addresses, ports) in [
            ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
        ] {
            let (dst, src) = (dst.parse::<Ipv4Addr>().unwrap(), src.parse::<Ipv4Addr>().unwrap());
            assert_eq!(t.ipv4(src.to_bits(), dst.to_bits()), addresses);
            assert_eq!(t.ipv4_ports(src.to_bits(), dst.to_bits(), sport, dport), ports);
        }
    }

    #[test]
    fn microsoft_vectors_v6() {
        let t = Toeplitz::new(&MICROSOFT_KEY);
        for (dst, dport, src, sport, addresses, ports) in [
            ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc1_8cd5, 0x4020_7d3d),
            ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ] {
            let dst = dst.parse::<Ipv6Addr>().unwrap().octets();
            let src = src.parse::<Ipv6Addr>().unwrap().octets();
            assert_eq!(t.ipv6(src, dst), addresses);
            assert_eq!(t.ipv6_ports(src, dst, sport, dport), ports);
        }
    }

    #[test]
    fn odd_keys() {
        assert_eq!(Toeplitz::new(&[]).hash(&[1, 2, 3]), 0);
        assert_eq!(Toeplitz::new(&[1, 2, 3, 4]).hash(&[255]), 0);
        let t = Toeplitz::new(&MICROSOFT_KEY);
        assert_eq!(t.hash(&[7; 36]), t.hash(&[7; 50]));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 128, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn same_as_definition(
            key in prop::collection::vec(any::<u8>(), 40..53),
            input in prop::collection::vec(any::<u8>(), 0..37),
        ) {
            prop_assert_eq!(Toeplitz::new(&key).hash(&input), naive(&key, &input));
        }

        #[test]
        fn symmetric_key_is(a: u32, b: u32, p: u16, q: u16, c: [u8; 16], d: [u8; 16]) {
            let t = Toeplitz::new(&SYMMETRIC_KEY);
            prop_assert_eq!(t.ipv4_ports(a, b, p, q), t.ipv4_ports(b, a, q, p));
            prop_assert_eq!(t.ipv6_ports(c, d, p, q), t.ipv6_ports(d, c, q, p));
        }
    }
}
