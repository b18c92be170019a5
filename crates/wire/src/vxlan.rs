//! Virtual eXtensible Local Area Network (RFC 7348): Ethernet frames in UDP datagrams.

/// The UDP port of tunnel ends (RFC 7348 §5, IANA).
pub const PORT: u16 = 4789;
/// The I bit of `flags`: the network identifier is valid.
pub const FLAG_VNI: u8 = 0x08;
/// The largest network identifier.
pub const MAX_VNI: u32 = 0x00ff_ffff;
/// The lowest source port: RFC 7348 §5 wants those of the dynamic range (RFC 6335 §6), 49152 to 65535.
pub const MIN_SRC_PORT: u16 = 0xc000;

view! {
    /// The header between UDP and the inner Ethernet frame.
    Vxlan[8] {
        /// Eight flags, all but [`FLAG_VNI`] reserved: sent as zero, ignored when received.
        u8, flags / set_flags @ 0;
        /// The network identifier in the high 24 bits; the low 8 are reserved as the flags are.
        u32, vni_reserved / set_vni_reserved @ 4;
    }
}

impl Vxlan<[u8; HEADER_LEN]> {
    /// A header with everything that is reserved at zero; `vni` is masked to its 24 bits.
    #[inline(always)]
    pub fn build(vni: u32) -> Self {
        let mut header = Self::zeroed();
        header.set_flags(FLAG_VNI);
        header.set_vni_reserved(vni << 8);
        header
    }
}

impl<B: std::borrow::Borrow<[u8; HEADER_LEN]>> Vxlan<B> {
    /// The network identifier, 24 bits; `None` when the header says that it has none.
    #[inline(always)]
    pub fn vni(&self) -> Option<u32> {
        (self.flags() & FLAG_VNI != 0).then(|| self.vni_reserved() >> 8)
    }
}

/// The UDP source port for a flow with this hash: in the dynamic range, so that the fabric spreads flows over
/// its links and keeps the packets of each in order.
#[inline(always)]
pub const fn src_port(hash: u32) -> u16 {
    MIN_SRC_PORT | (hash >> 18) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        // RFC 7348 §5: R R R R I R R R, 24 bits, the identifier, 8 bits.
        let bytes = [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0];
        assert_eq!(*Vxlan::build(0x12_3456).bytes(), bytes);
        assert_eq!(*Vxlan::build(0xff12_3456).bytes(), bytes);
        let header = Vxlan::new(&bytes).unwrap();
        assert_eq!((header.flags(), header.vni()), (FLAG_VNI, Some(0x12_3456)));
        // Reserved bits are ignored, the flag is not.
        assert_eq!(Vxlan::new(&[0xff, 1, 2, 3, 0x12, 0x34, 0x56, 9]).unwrap().vni(), Some(0x12_3456));
        assert_eq!(Vxlan::new(&[0xf7, 0, 0, 0, 0x12, 0x34, 0x56, 0]).unwrap().vni(), None);
        assert!(Vxlan::new(&bytes[..7]).is_none());
        assert_eq!(Vxlan::build(MAX_VNI).vni(), Some(MAX_VNI));
    }

    #[test]
    fn source_ports_are_dynamic_and_all_occur() {
        assert_eq!((src_port(0), src_port(u32::MAX)), (49152, 65535));
        let mut seen: Vec<u16> = (0..1 << 14).map(|n: u32| src_port(n << 18)).collect();
        seen.dedup();
        assert_eq!(seen.len(), 1 << 14);
    }
}
