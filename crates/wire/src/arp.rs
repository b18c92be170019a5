//! Address resolution of IPv4 on Ethernet (RFC 826).

use std::borrow::Borrow;
use std::net::Ipv4Addr;

use crate::ethernet::{ETHERTYPE_IPV4, EtherAddr};

/// Hardware type of Ethernet.
pub const HARDWARE_ETHERNET: u16 = 1;
/// Operation: who has the target address?
pub const REQUEST: u16 = 1;
/// Operation: the sender has.
pub const REPLY: u16 = 2;

view! {
    /// An ARP packet for Ethernet and IPv4. Fields are meaningful once [`Arp::is_ethernet_ipv4`] holds.
    Arp[28] {
        /// Hardware type, 1 for Ethernet.
        u16, hardware_type / set_hardware_type @ 0;
        /// Protocol type, an EtherType.
        u16, protocol_type / set_protocol_type @ 2;
        /// Length of a hardware address, 6 for Ethernet.
        u8, hardware_len / set_hardware_len @ 4;
        /// Length of a protocol address, 4 for IPv4.
        u8, protocol_len / set_protocol_len @ 5;
        /// Operation: [`REQUEST`] or [`REPLY`].
        u16, operation / set_operation @ 6;
        /// Hardware address of the sender.
        EtherAddr, sender_hardware / set_sender_hardware @ 8;
        /// Protocol address of the sender.
        Ipv4Addr, sender / set_sender @ 14;
        /// Hardware address of the target, zero in a request.
        EtherAddr, target_hardware / set_target_hardware @ 18;
        /// Protocol address of the target.
        Ipv4Addr, target / set_target @ 24;
    }
}

impl<B: Borrow<[u8; HEADER_LEN]>> Arp<B> {
    /// The types and lengths are those of IPv4 on Ethernet.
    #[inline]
    pub fn is_ethernet_ipv4(&self) -> bool {
        self.bytes()[..6] == [0, 1, 8, 0, 6, 4]
    }
}

impl Arp<[u8; HEADER_LEN]> {
    fn build(operation: u16) -> Self {
        let mut arp = Self::zeroed();
        arp.set_hardware_type(HARDWARE_ETHERNET);
        arp.set_protocol_type(ETHERTYPE_IPV4);
        arp.set_hardware_len(6);
        arp.set_protocol_len(4);
        arp.set_operation(operation);
        arp
    }

    /// "Who has `target`? Tell `sender` at `sender_hardware`."
    pub fn request(sender_hardware: EtherAddr, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        let mut arp = Self::build(REQUEST);
        arp.set_sender_hardware(sender_hardware);
        arp.set_sender(sender);
        arp.set_target(target);
        arp
    }

    /// "`sender` is at `sender_hardware`", to `target` at `target_hardware`.
    pub fn reply(
        sender_hardware: EtherAddr,
        sender: Ipv4Addr,
        target_hardware: EtherAddr,
        target: Ipv4Addr,
    ) -> Self {
        let mut arp = Self::build(REPLY);
        arp.set_sender_hardware(sender_hardware);
        arp.set_sender(sender);
        arp.set_target_hardware(target_hardware);
        arp.set_target(target);
        arp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST_BYTES: [u8; 28] =
        [0, 1, 8, 0, 6, 4, 0, 1, 0x02, 0, 0, 0, 0, 0x01, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];

    #[test]
    fn golden() {
        let arp = Arp::new(&REQUEST_BYTES).unwrap();
        assert!(arp.is_ethernet_ipv4());
        assert_eq!(arp.operation(), REQUEST);
        assert_eq!((arp.sender(), arp.target()), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        assert_eq!(arp.target_hardware(), EtherAddr::ZERO);
        let made = Arp::request(arp.sender_hardware(), arp.sender(), arp.target());
        assert_eq!(*made.bytes(), REQUEST_BYTES);
        let reply = Arp::reply(EtherAddr([2; 6]), arp.target(), arp.sender_hardware(), arp.sender());
        assert_eq!(reply.operation(), REPLY);
        assert_eq!(reply.target_hardware(), EtherAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(reply.sender_hardware(), EtherAddr([2; 6]));
    }

    #[test]
    fn wrong_kinds() {
        for at in 0..6 {
            let mut bytes = REQUEST_BYTES;
            bytes[at] ^= 0x10;
            assert!(!Arp::new(&bytes).unwrap().is_ethernet_ipv4());
        }
        assert!(Arp::new(&REQUEST_BYTES[..27]).is_none());
    }
}
