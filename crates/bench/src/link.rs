//! What a PCI Express link carries.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A PCI Express link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Transfers a second of each lane, in thousands of millions.
    pub gigatransfers: f64,
    /// Lanes.
    pub lanes: u32,
}

/// Bytes of a PCI Express packet beside its data: header with 64-bit address 16, sequence number 2, checksum
/// 4, framing 2 (PCI Express 3.0, sections 2.2 and 3.5).
const AROUND: f64 = 24.0;
/// Data bytes of one packet to the NIC, which most systems use.
const MOST_DATA: f64 = 256.0;
/// A descriptor, and what the NIC writes back of it.
const DESCRIPTOR: f64 = 16.0;
/// Descriptors that a NIC reads or writes together.
const DESCRIPTORS: f64 = 4.0;

impl Link {
    /// Gb/s in each direction that are left of the transfers by the line code: 8b/10b up to 5 GT/s, 128b/130b
    /// up to 32, 242 of 256 bytes above.
    #[must_use]
    pub fn gbps(self) -> f64 {
        let code = match self.gigatransfers {
            ..=5.0 => 8.0 / 10.0,
            ..=32.0 => 128.0 / 130.0,
            _ => 242.0 / 256.0,
        };
        self.gigatransfers * f64::from(self.lanes) * code
    }

    /// Frames a second, of `bytes` without the FCS, that the NIC can be given or can give: data in packets
    /// of at most 256 bytes, and a descriptor of 16 bytes for each frame, four of them together.
    #[must_use]
    pub fn frames(self, bytes: u32) -> f64 {
        let bytes = f64::from(bytes);
        let data = bytes + (bytes / MOST_DATA).ceil() * AROUND;
        let descriptor = DESCRIPTOR + AROUND / DESCRIPTORS;
        self.gbps() * 1e9 / 8.0 / (data + descriptor)
    }

    /// The link of a PCI device, by its directory in `/sys`, "current" or "max"; `None`: it has none, or the
    /// speed is not known.
    pub(crate) fn read(device: &Path, which: &str) -> Option<Self> {
        let text = |what: &str| fs::read_to_string(device.join(format!("{which}_link_{what}"))).ok();
        // As in "16.0 GT/s PCIe".
        let gigatransfers = text("speed")?.split(' ').next()?.parse().ok()?;
        let lanes = text("width")?.trim().parse().ok()?;
        (lanes > 0).then_some(Self { gigatransfers, lanes })
    }

    pub(crate) fn json(self) -> Value {
        json!({"gigatransfers": self.gigatransfers, "lanes": self.lanes, "gbps": self.gbps()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_the_rates_of_the_standard() {
        let link = |gigatransfers, lanes| Link { gigatransfers, lanes };
        for (link, gbps) in
            [(link(2.5, 8), 16.0), (link(8.0, 8), 63.0), (link(16.0, 16), 252.1), (link(64.0, 4), 242.0)]
        {
            assert!((link.gbps() - gbps).abs() < 0.1, "{link:?}: {}", link.gbps());
        }
        // RouteBricks' server gave a NIC on such a link 12.3 Gb/s (section 4.1): large frames have more.
        let large = link(2.5, 8).frames(1514) * 1514.0 * 8.0 / 1e9;
        assert!((12.3..16.0).contains(&large), "{large}");
        assert!(link(2.5, 8).frames(60) * 8.0 * 60.0 / 1e9 < large);
    }
}
