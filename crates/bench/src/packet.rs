//! What memory allows for packets.

use crate::memory::LINE;
use serde_json::{Value, json};

/// Frame sizes, in bytes with the FCS.
pub(crate) const SIZES: [u32; 3] = [64, 512, 1518];
const FCS: u32 = 4;
/// Each byte of a packet that is forwarded crosses the memory bus so often where no cache holds it: from the
/// NIC, to the processor, from it, to the NIC (RouteBricks, section 5.3).
const CROSSINGS: f64 = 4.0;
/// Lines that forwarding a packet touches at least, if no cache holds them: two of its buffer's descriptor,
/// its header, and the NIC's descriptor.
pub(crate) const LINES: f64 = 4.0;
/// Bits of a frame on the wire beside it: preamble, delimiter and gap (IEEE 802.3).
const ON_THE_WIRE: f64 = 20.0 * 8.0;

/// A bound on packets a second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) name: String,
    /// For each of [`SIZES`].
    pub(crate) rates: [f64; SIZES.len()],
}

impl Bound {
    /// By so many bytes a second of all memory.
    pub(crate) fn of_traffic(name: &str, bytes_per_second: f64) -> Self {
        let rate = |size: u32| {
            let lines = f64::from((size - FCS).div_ceil(LINE as u32));
            bytes_per_second / (CROSSINGS * lines * LINE as f64)
        };
        Self { name: name.to_owned(), rates: SIZES.map(rate) }
    }

    /// By so many nanoseconds for each line, on one core.
    pub(crate) fn of_lines(name: &str, nanoseconds: f64) -> Self {
        Self { name: name.to_owned(), rates: [1e9 / (LINES * nanoseconds); SIZES.len()] }
    }

    pub(crate) fn json(&self) -> Value {
        let one = |(size, rate): (u32, f64)| json!({"frame_bytes": size, "pps": rate, "gbps_on_the_wire": gbps(size, rate)});
        json!({"by": self.name, "frames": SIZES.into_iter().zip(self.rates).map(one).collect::<Vec<_>>()})
    }
}

/// The rate on the wire, in Gb/s.
pub(crate) fn gbps(size: u32, rate: f64) -> f64 {
    rate * (f64::from(size) * 8.0 + ON_THE_WIRE) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_what_a_packet_takes() {
        let traffic = Bound::of_traffic("memory", 25.6e9);
        // One line, eight, and 24.
        assert_eq!(traffic.rates, [1e8, 1.25e7, 1e8 / 24.0]);
        assert_eq!(Bound::of_lines("lines", 25.0).rates, [1e7; 3]);
        // 64-byte frames at 10 Gb/s.
        assert!((gbps(64, 14_880_952.0) - 10.0).abs() < 1e-6);
    }
}
