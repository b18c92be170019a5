//! # Null
//! Passes packets on unchanged.
//!
//! ## Synopsis
//! `Null()`
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Threads
//! Each worker has its own.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Null -> Discard;
//! ```
//!
//! ## See also
//! Idle

use crate::prelude::*;

/// The `Null` element.
pub struct Null;

impl Element for Null {
    const CLASS: &'static str = "Null";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = manual!("plumbing/null");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for Null {
    fn packet(&mut self, packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn passes_packets_unchanged() {
        let mut bench = Bench::new("Null()");
        assert_eq!(bench.push(0, b"abc"), [(0, b"abc".to_vec())]);
    }
}
