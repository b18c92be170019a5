//! Numbers and addresses.

use crate::names::Names;

/// A number: decimal, octal with a leading zero, or hexadecimal after `0x`. At most 32 bits, perhaps
/// negative.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i64::from(u32::from_str_radix(digits, radix).ok()?);
    Some(if negative { -value } else { value })
}

fn octet(text: &str) -> Option<u8> {
    if text.is_empty() || text.len() > 3 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Up to four octets with dots between them, and how many there were.
fn octets(text: &str) -> Option<([u8; 4], usize)> {
    let mut address = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        *address.get_mut(count)? = octet(part)?;
        count += 1;
    }
    Some((address, count))
}

/// An IPv4 address or the name of one, as a big-endian number.
pub(crate) fn ip_address(text: &str, names: &dyn Names) -> Option<u32> {
    match octets(text) {
        Some((address, 4)) => Some(u32::from_be_bytes(address)),
        _ => names.ip_address(text).map(u32::from_be_bytes),
    }
}

/// `ADDRESS/BITS`, `ADDRESS/MASK` or the name of a network; octets left out at the end of the address are
/// zero.
pub(crate) fn ip_prefix(text: &str, names: &dyn Names) -> Option<(u32, u32)> {
    let parsed = text.split_once('/').and_then(|(address, mask)| {
        let (address, _) = octets(address)?;
        let mask = match octets(mask)? {
            ([bits, ..], 1) if bits <= 32 => u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0),
            (mask, 4) => u32::from_be_bytes(mask),
            _ => return None,
        };
        Some((u32::from_be_bytes(address), mask))
    });
    parsed.or_else(|| {
        names.ip_prefix(text).map(|(address, mask)| (u32::from_be_bytes(address), u32::from_be_bytes(mask)))
    })
}

/// An Ethernet address, six hexadecimal bytes with `:` or `-` between them, or the name of one.
pub(crate) fn ether_address(text: &str, names: &dyn Names) -> Option<[u8; 6]> {
    let parse = |separator| {
        let mut address = [0; 6];
        let mut count = 0;
        for part in text.split(separator) {
            if part.is_empty() || part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            *address.get_mut(count)? = u8::from_str_radix(part, 16).ok()?;
            count += 1;
        }
        (count == 6).then_some(address)
    };
    parse(':').or_else(|| parse('-')).or_else(|| names.ether_address(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoNames;

    #[test]
    fn numbers() {
        let cases =
            [("80", Some(80)), ("0x1F", Some(31)), ("017", Some(15)), ("0", Some(0)), ("-3", Some(-3))];
        for (text, value) in cases {
            assert_eq!(integer(text), value, "{text}");
        }
        for text in ["", "-", "0x", "08", "4294967296", "1.2", "+1", "12a", "--1"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(ip_address("10.0.0.1", &NoNames), Some(0x0a00_0001));
        assert_eq!(ip_address("10.0.0", &NoNames), None);
        assert_eq!(ip_address("10.0.0.256", &NoNames), None);
        assert_eq!(ip_prefix("10.0.0.0/8", &NoNames), Some((0x0a00_0000, 0xff00_0000)));
        assert_eq!(ip_prefix("18.26.4/24", &NoNames), Some((0x121a_0400, 0xffff_ff00)));
        assert_eq!(ip_prefix("1.2.3.4/255.0.0.255", &NoNames), Some((0x0102_0304, 0xff00_00ff)));
        assert_eq!(ip_prefix("0.0.0.0/0", &NoNames), Some((0, 0)));
        assert_eq!(ip_prefix("10.0.0.0/33", &NoNames), None);
        assert_eq!(ip_prefix("10.0.0.0", &NoNames), None);
        assert_eq!(ether_address("0:1:2:3:4:F", &NoNames), Some([0, 1, 2, 3, 4, 15]));
        assert_eq!(ether_address("00-01-02-03-04-0f", &NoNames), Some([0, 1, 2, 3, 4, 15]));
        assert_eq!(ether_address("0:1:2:3:4", &NoNames), None);
        assert_eq!(ether_address("0:1:2:3:4:5:6", &NoNames), None);
    }
}
