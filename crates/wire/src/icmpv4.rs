//! Internet Control Message Protocol (RFC 792, RFC 950, RFC 1191, RFC 1256).

use std::net::Ipv4Addr;

use crate::checksum;

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: source quench (deprecated by RFC 6633).
pub const SOURCE_QUENCH: u8 = 4;
/// Type: redirect.
pub const REDIRECT: u8 = 5;
/// Type: echo request.
pub const ECHO: u8 = 8;
/// Type: router advertisement (RFC 1256).
pub const ROUTER_ADVERTISEMENT: u8 = 9;
/// Type: router solicitation (RFC 1256).
pub const ROUTER_SOLICITATION: u8 = 10;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;
/// Type: timestamp request.
pub const TIMESTAMP: u8 = 13;
/// Type: timestamp reply.
pub const TIMESTAMP_REPLY: u8 = 14;
/// Type: information request.
pub const INFO_REQUEST: u8 = 15;
/// Type: information reply.
pub const INFO_REPLY: u8 = 16;
/// Type: address mask request (RFC 950).
pub const MASK_REQUEST: u8 = 17;
/// Type: address mask reply (RFC 950).
pub const MASK_REPLY: u8 = 18;

/// Code of [`UNREACHABLE`]: network.
pub const UNREACHABLE_NET: u8 = 0;
/// Code of [`UNREACHABLE`]: host.
pub const UNREACHABLE_HOST: u8 = 1;
/// Code of [`UNREACHABLE`]: protocol.
pub const UNREACHABLE_PROTOCOL: u8 = 2;
/// Code of [`UNREACHABLE`]: port.
pub const UNREACHABLE_PORT: u8 = 3;
/// Code of [`UNREACHABLE`]: fragmentation needed and not allowed.
pub const UNREACHABLE_NEED_FRAG: u8 = 4;
/// Code of [`UNREACHABLE`]: source route failed.
pub const UNREACHABLE_SOURCE_ROUTE_FAILED: u8 = 5;
/// Code of [`UNREACHABLE`]: communication administratively prohibited (RFC 1812 §5.2.7.1).
pub const UNREACHABLE_PROHIBITED: u8 = 13;
/// Code of [`REDIRECT`]: for the network.
pub const REDIRECT_NET: u8 = 0;
/// Code of [`REDIRECT`]: for the host.
pub const REDIRECT_HOST: u8 = 1;
/// Code of [`TIME_EXCEEDED`]: in transit.
pub const TIME_EXCEEDED_TRANSIT: u8 = 0;
/// Code of [`TIME_EXCEEDED`]: in reassembly.
pub const TIME_EXCEEDED_REASSEMBLY: u8 = 1;
/// Code of [`PARAMETER_PROBLEM`]: the pointer is the offset of the wrong byte.
pub const PARAMETER_PROBLEM_POINTER: u8 = 0;
/// Code of [`PARAMETER_PROBLEM`]: a required option is missing.
pub const PARAMETER_PROBLEM_MISSING_OPTION: u8 = 1;
/// Code of [`PARAMETER_PROBLEM`]: bad length.
pub const PARAMETER_PROBLEM_LENGTH: u8 = 2;

view! {
    /// The first 8 bytes of an ICMP message. What the last four mean depends on the type.
    Icmpv4[8] {
        /// Type.
        u8, kind / set_kind @ 0;
        /// Code.
        u8, code / set_code @ 1;
        /// Checksum over the whole message.
        u16, checksum / set_checksum @ 2;
        /// The second word, as a number.
        u32, rest / set_rest @ 4;
        /// Echo, timestamp, information, mask: identifier.
        u16, id / set_id @ 4;
        /// Echo, timestamp, information, mask: sequence number.
        u16, seq / set_seq @ 6;
        /// Redirect: the better gateway.
        Ipv4Addr, gateway / set_gateway @ 4;
        /// Unreachable, fragmentation needed: MTU of the next hop, in bytes (RFC 1191 §4).
        u16, next_hop_mtu / set_next_hop_mtu @ 6;
        /// Parameter problem: offset of the bad byte in the IP header.
        u8, pointer / set_pointer @ 4;
        /// Errors with extensions: length of the quoted datagram in words (RFC 4884 §4).
        u8, quoted_words / set_quoted_words @ 5;
    }
}

/// Messages that report on another packet: no error may be sent about them (RFC 1812 §4.3.2.7).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Length of the shortest message of a type, in bytes: 20 for timestamps, 12 for masks, 8 for the rest.
#[inline]
pub const fn min_len(kind: u8) -> usize {
    match kind {
        TIMESTAMP | TIMESTAMP_REPLY => 20,
        MASK_REQUEST | MASK_REPLY => 12,
        _ => HEADER_LEN,
    }
}

/// The checksum of `message`, exactly, is right.
#[inline]
pub fn verify(message: &[u8]) -> bool {
    message.len() >= HEADER_LEN && checksum::sum(message) == 0xffff
}

/// Fills in the checksum of `message`, exactly; `false` when the slice is too short for a header.
#[inline]
pub fn fill(message: &mut [u8]) -> bool {
    let Some(mut h) = Icmpv4::new_mut(message) else { return false };
    h.set_checksum(0);
    let check = checksum::checksum(message);
    if let Some(mut h) = Icmpv4::new_mut(message) {
        h.set_checksum(check);
    }
    true
}

/// Turns an echo request into its reply in place, with the checksum updated; `false` if it is not a request.
#[inline]
pub fn reply_to_echo(message: &mut [u8]) -> bool {
    match Icmpv4::new_mut(message) {
        Some(mut h) if h.kind() == ECHO => {
            let check = checksum::update(h.checksum(), u16::from_be_bytes([ECHO, h.code()]), h.code().into());
            h.set_kind(ECHO_REPLY);
            h.set_checksum(check);
            // A reply that is all zeros has two zeros as its sum; only the sum itself shows which one (RFC
            // 1624 §3).
            if check == 0 {
                fill(message);
            }
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reply_of_zeros_has_the_right_checksum() {
        let mut m = [ECHO, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(fill(&mut m) && reply_to_echo(&mut m));
        assert_eq!(m, [0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0]);
        assert!(verify(&m));
        // Others whose sum is the other zero keep it.
        let mut m = [ECHO, 0, 0, 0, 0xff, 0xff, 0, 0];
        assert!(fill(&mut m) && reply_to_echo(&mut m));
        assert_eq!(m, [0, 0, 0, 0, 0xff, 0xff, 0, 0]);
        assert!(verify(&m));
    }

    #[test]
    fn golden_echo() {
        let mut m = [8, 0, 0, 0, 0x12, 0x34, 0, 1, b'a', b'b', b'c'];
        assert!(fill(&mut m));
        let h = Icmpv4::new(&m).unwrap();
        assert_eq!((h.kind(), h.code(), h.id(), h.seq()), (ECHO, 0, 0x1234, 1));
        assert_eq!(h.checksum(), !(0x0800u16 + 0x1234 + 1 + 0x6162 + 0x6300));
        assert!(verify(&m));
        assert!(reply_to_echo(&mut m));
        assert!(verify(&m));
        assert!(!reply_to_echo(&mut m));
    }

    #[test]
    fn overlays() {
        let bytes = [3, 4, 0, 0, 0, 0, 0x05, 0xdc];
        let h = Icmpv4::new(&bytes).unwrap();
        assert_eq!((h.kind(), h.code(), h.next_hop_mtu()), (UNREACHABLE, UNREACHABLE_NEED_FRAG, 1500));
        let bytes = [5, 1, 0, 0, 10, 0, 0, 254];
        assert_eq!(Icmpv4::new(&bytes).unwrap().gateway(), Ipv4Addr::new(10, 0, 0, 254));
        let mut h = Icmpv4::zeroed();
        h.set_kind(PARAMETER_PROBLEM);
        h.set_pointer(21);
        assert_eq!(*h.bytes(), [12, 0, 0, 0, 21, 0, 0, 0]);
        assert!(is_error(h.kind()) && !is_error(ECHO));
        assert_eq!((min_len(TIMESTAMP), min_len(MASK_REPLY), min_len(ECHO)), (20, 12, 8));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn filled_verifies(mut m in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(fill(&mut m), m.len() >= 8);
            if m.len() >= 8 {
                // All zero is the one message whose check is 0xffff; its sum is right all the same.
                prop_assert!(verify(&m));
                if reply_to_echo(&mut m) {
                    prop_assert!(verify(&m));
                }
            }
        }
    }
}
