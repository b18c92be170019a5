//! Ethernet addresses of virtual interfaces that the file gives none.

use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// An address for an interface: always the same for the same names, locally administered, and not among
/// those taken, which it joins. Also returns whether it is the first choice, which depends on the names
/// alone.
pub(super) fn made(
    host: &str,
    router: &str,
    interface: &str,
    taken: &mut HashSet<[u8; 6]>,
) -> ([u8; 6], bool) {
    (0_u64..)
        .map(|attempt| (candidate(host, router, interface, attempt), attempt == 0))
        .find(|(mac, _)| taken.insert(*mac))
        .unwrap_or_default()
}

/// 46 bits of a hash of the names.
fn candidate(host: &str, router: &str, interface: &str, attempt: u64) -> [u8; 6] {
    // No name has a zero byte, so different names are different texts.
    let digest = Sha256::digest(format!("{host}\0{router}\0{interface}\0{attempt}"));
    let mut mac = [0; 6];
    mac.copy_from_slice(&digest[..6]);
    // A unicast address (bit 0 of the first byte) that is locally administered (bit 1): IEEE 802, section
    // 8.4.
    mac[0] = (mac[0] & !1) | 2;
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_stable_and_differ() {
        let mut taken = HashSet::new();
        let (first, alone) = made("edge", "blue", "DEV0", &mut taken);
        assert_eq!((first[0] & 3, alone), (2, true));
        // Hosts that are restarted, and other hosts' files, depend on it.
        assert_eq!(first, [0x32, 0x12, 0x6c, 0x4f, 0x5f, 0xb9]);
        assert_eq!(made("edge", "blue", "DEV0", &mut HashSet::new()), (first, true));
        // Taken: another one, again always the same.
        let (second, alone) = made("edge", "blue", "DEV0", &mut taken);
        assert!(second != first && !alone);
        assert_eq!(made("edge", "blue", "DEV0", &mut HashSet::from([first])), (second, false));
        for (host, router, interface) in [
            ("edge", "blue", "DEV1"),
            ("edge", "red", "DEV0"),
            ("core", "blue", "DEV0"),
            ("edgeb", "lue", "DEV0"),
        ] {
            assert!(taken.insert(candidate(host, router, interface, 0)), "{host} {router} {interface}");
        }
    }
}
