//! The CRC of SetCRC32 and CheckCRC32: that of Ethernet (IEEE 802.3 §3.2.9), but each byte with its highest
//! bit first, and not inverted at the end, as Click computes it.

/// The generator polynomial without its highest term.
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// What each value of the highest byte adds to the rest.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut rest, mut bit) = ((n as u32) << 24, 0);
        while bit < 8 {
            rest = if rest >> 31 == 1 { rest << 1 ^ POLYNOMIAL } else { rest << 1 };
            bit += 1;
        }
        table[n] = rest;
        n += 1;
    }
    table
};

/// The bytes of the CRC's field.
pub(in crate::plumbing) const LEN: usize = 4;

/// The CRC of these bytes.
pub(in crate::plumbing) fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| crc << 8 ^ TABLE[usize::from((crc >> 24) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::crc;

    /// The check values of CRC-32/MPEG-2 in the catalogue of parametrised CRC algorithms, and a division bit
    /// by bit.
    #[test]
    fn is_the_known_one() {
        assert_eq!(crc(b"123456789"), 0x0376_e6e7);
        assert_eq!(crc(b""), 0xffff_ffff);
        let bytes: Vec<u8> = (0..=255).collect();
        let mut slow = u32::MAX;
        for byte in &bytes {
            for bit in (0..8).rev() {
                let out = slow >> 31 ^ u32::from(byte >> bit & 1);
                slow = slow << 1 ^ if out == 1 { 0x04c1_1db7 } else { 0 };
            }
        }
        assert_eq!(crc(&bytes), slow);
    }
}
