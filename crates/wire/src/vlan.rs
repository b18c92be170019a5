//! IEEE 802.1Q tags: what follows an EtherType of `0x8100` or `0x88a8`.

view! {
    /// The tag and the EtherType that it wraps.
    Vlan[4] {
        /// Tag control information: priority (3 bits), drop eligible (1), identifier (12).
        u16, tci / set_tci @ 0;
        /// EtherType of what follows.
        u16, ethertype / set_ethertype @ 2;
    }
}

/// Priority code point of a tag control information word, 0 to 7.
#[inline(always)]
pub const fn priority(tci: u16) -> u8 {
    (tci >> 13) as u8
}

/// Drop eligible indicator of a tag control information word.
#[inline(always)]
pub const fn drop_eligible(tci: u16) -> bool {
    tci & 0x1000 != 0
}

/// VLAN identifier of a tag control information word, 0 to 4095.
#[inline(always)]
pub const fn id(tci: u16) -> u16 {
    tci & 0x0fff
}

/// A tag control information word; `priority` and `id` are masked to their 3 and 12 bits.
#[inline(always)]
pub const fn tci(priority: u8, drop_eligible: bool, id: u16) -> u16 {
    (priority as u16 & 7) << 13 | (drop_eligible as u16) << 12 | id & 0x0fff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let bytes = [0xb0, 0x64, 0x08, 0x00];
        let tag = Vlan::new(&bytes).unwrap();
        assert_eq!((priority(tag.tci()), drop_eligible(tag.tci()), id(tag.tci())), (5, true, 100));
        assert_eq!(tag.ethertype(), 0x0800);
        let mut made = Vlan::zeroed();
        made.set_tci(tci(5, true, 100));
        made.set_ethertype(0x0800);
        assert_eq!(*made.bytes(), bytes);
        assert_eq!(tci(0xff, false, 0xffff), 0xefff);
    }
}
