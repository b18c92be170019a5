//! Internet Control Message Protocol for IPv6 (RFC 4443), and the messages of neighbor discovery (RFC 4861).

use std::net::Ipv6Addr;

use crate::checksum;

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type: packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: echo request.
pub const ECHO: u8 = 128;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type: router solicitation (RFC 4861).
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type: router advertisement (RFC 4861).
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type: neighbor solicitation (RFC 4861).
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// Type: neighbor advertisement (RFC 4861).
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
/// Type: redirect (RFC 4861).
pub const REDIRECT: u8 = 137;

/// Code of [`PARAMETER_PROBLEM`]: an option that the node does not know.
pub const PARAMETER_PROBLEM_OPTION: u8 = 2;

/// Option of neighbor discovery: the sender's link-layer address.
pub const OPTION_SOURCE: u8 = 1;
/// Option of neighbor discovery: the target's link-layer address.
pub const OPTION_TARGET: u8 = 2;
/// Option of neighbor discovery: the packet that is redirected.
pub const OPTION_REDIRECTED: u8 = 4;

/// The hop limit of messages of neighbor discovery: one that a router has forwarded has another.
pub const NEIGHBOR_HOP_LIMIT: u8 = 255;

view! {
    /// The first 8 bytes of an ICMPv6 message. What the last four mean depends on the type.
    Icmpv6[8] {
        /// Type.
        u8, kind / set_kind @ 0;
        /// Code.
        u8, code / set_code @ 1;
        /// Checksum over the pseudo-header and the whole message.
        u16, checksum / set_checksum @ 2;
        /// The second word. Packet too big: the MTU of the next hop. Parameter problem: where the bad byte
        /// is. Neighbor advertisement: flags in the first byte.
        u32, rest / set_rest @ 4;
    }
}

/// Messages that report on another packet (RFC 4443 section 2.1).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// The checksum of `message`, exactly, is right; `pseudo` is the sum of the pseudo-header.
#[inline]
pub fn verify(pseudo: u16, message: &[u8]) -> bool {
    message.len() >= HEADER_LEN && checksum::combine(pseudo, checksum::sum(message)) == 0xffff
}

/// Fills in the checksum of `message`, exactly; `pseudo` is the sum of the pseudo-header. `false` when the
/// slice is too short for a header.
#[inline]
pub fn fill(pseudo: u16, message: &mut [u8]) -> bool {
    let Some(mut h) = Icmpv6::new_mut(message) else { return false };
    h.set_checksum(0);
    let check = !checksum::combine(pseudo, checksum::sum(message));
    if let Some(mut h) = Icmpv6::new_mut(message) {
        h.set_checksum(check);
    }
    true
}

/// The multicast address of the nodes that may have `address` (RFC 4291 section 2.7.1).
#[inline]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// The first option of this type of a message of neighbor discovery, without type and length; `options` is
/// what follows the fixed part. `None` also if an option has no length (RFC 4861 section 4.6).
pub fn option(options: &[u8], kind: u8) -> Option<&[u8]> {
    let mut rest = options;
    while let [of, words, ..] = *rest {
        let (option, more) = rest.split_at_checked(usize::from(words) * 8).filter(|(o, _)| !o.is_empty())?;
        if of == kind {
            return option.get(2..);
        }
        rest = more;
    }
    None
}

/// All options have a length, and fit.
pub fn options_fit(options: &[u8]) -> bool {
    let mut rest = options;
    while !rest.is_empty() {
        let words = rest.get(1).copied().unwrap_or(0);
        match rest.split_at_checked(usize::from(words) * 8) {
            Some((_, more)) if words > 0 => rest = more,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_cover_the_pseudo_header() {
        let (a, b): (Ipv6Addr, Ipv6Addr) = ("fe80::1".parse().unwrap(), "ff02::1".parse().unwrap());
        let mut message = [ECHO, 0, 9, 9, 0, 7, 0, 1, b'x'];
        let pseudo = checksum::pseudo_v6(a, b, 58, 9);
        assert!(fill(pseudo, &mut message) && verify(pseudo, &message));
        assert!(!verify(checksum::pseudo_v6(a, a, 58, 9), &message));
        // By hand: fe80+1 + ff02+1 + 3a + 9 and the words of the message.
        let words = [0xfe80u32, 1, 0xff02, 1, 0x3a, 9, 0x8000, 7, 1, 0x7800].iter().sum();
        assert_eq!(u16::from_be_bytes([message[2], message[3]]), !checksum::fold(words));
        message[8] ^= 1;
        assert!(!verify(pseudo, &message));
        assert!(!fill(0, &mut [0; 7]) && !verify(0, &[0xff; 7]));
    }

    #[test]
    fn options_are_found() {
        let options = [1, 1, 1, 2, 3, 4, 5, 6, 2, 2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(option(&options, 1), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(option(&options, 2).map(<[u8]>::len), Some(14));
        assert_eq!((option(&options, 3), option(&options[..23], 2), option(&[1], 1)), (None, None, None));
        assert_eq!(option(&[1, 0, 2, 1, 0, 0, 0, 0, 0, 0], 2), None);
        assert!(options_fit(&options) && options_fit(&[]));
        assert!(
            !options_fit(&options[..23]) && !options_fit(&[1, 0, 0, 0, 0, 0, 0, 0]) && !options_fit(&[1])
        );
    }

    #[test]
    fn groups_of_addresses() {
        let group = |text: &str| solicited_node(text.parse().unwrap()).to_string();
        assert_eq!(group("2001:db8::aabb:ccdd"), "ff02::1:ffbb:ccdd");
        assert!(is_error(PACKET_TOO_BIG) && !is_error(ECHO) && !is_error(REDIRECT));
    }
}
