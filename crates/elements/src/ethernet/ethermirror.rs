//! # EtherMirror
//! Swaps the source and destination of each packet's Ethernet header.
//!
//! ## Synopsis
//! `EtherMirror()`
//!
//! ## Arguments
//! None.
//!
//! ## Ports
//! One input, one output; agnostic. Packets begin with their Ethernet header.
//!
//! ## Handlers
//! None.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> EtherMirror -> Discard;
//! ```
//!
//! ## See also
//! EtherRewrite, EtherEncap, IPMirror

use crate::prelude::*;
use wire::Ethernet;

/// The `EtherMirror` element.
pub struct EtherMirror;

impl Element for EtherMirror {
    const CLASS: &'static str = "EtherMirror";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::TOO_SHORT_FOR_ETHERNET];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ethernet/ethermirror");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Step for EtherMirror {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let header = Ethernet::new_mut(packet.data_mut());
        header.map(|mut header| header.swap_addresses()).is_some()
    }
}

impl Simple for EtherMirror {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.drop(packet, drops::NO_ETHERNET_HEADER);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn swaps() {
        let mut b = Bench::new("EtherMirror");
        let out = b.push(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0, 77]);
        assert_eq!(out[0].1, [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 8, 0, 77]);
        assert!(b.push(0, &[0; 13]).is_empty());
        assert_eq!(b.drops(), [("no Ethernet header".to_owned(), 1)]);
    }
}
