//! # IPNameInfo
//! Represents the names of IP protocols, ports and ICMP types that are always defined.
//!
//! It takes no arguments and need not be used: `udp`, `www`, `echo-reply` and so on have their meaning in
//! every configuration.
//!
//! ## Synopsis
//! `IPNameInfo()`
//!
//! ## Arguments
//! None.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! IPNameInfo();
//! InfiniteSource(LIMIT 3, STOP true) -> IPEncap(udp, 10.0.0.1, 10.0.0.2) -> Discard;
//! ```
//!
//! ## See also
//! AddressInfo, PortInfo

use crate::prelude::*;

/// The `IPNameInfo` element.
pub struct IPNameInfo;

impl Element for IPNameInfo {
    const CLASS: &'static str = "IPNameInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/ipnameinfo");

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn it_takes_no_arguments() {
        assert!(Bench::error("IPNameInfo(x)").contains("too many arguments"));
    }
}
