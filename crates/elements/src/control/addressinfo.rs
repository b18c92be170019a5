//! # AddressInfo
//! Gives names to addresses.
//!
//! ## Synopsis
//! `AddressInfo(NAME ADDRESS [ADDRESS ...], ...)`
//!
//! ## Arguments
//! - `NAME ADDRESS ...` (*word, addresses*): the name, and its value: an IPv4 address, an IPv4
//!   network (`10.0.0.0/8`), both at once (`10.0.0.1/8`), an IPv6 address or network, an Ethernet address, or
//!   another name.
//!
//! A name may have one address of each kind; the argument that it is used for decides which one is meant. A
//! suffix decides where the argument does not: `NAME:ip`, `NAME:ipnet`, `NAME:bcast`, `NAME:gw`, `NAME:ip6`,
//! `NAME:ip6net`, `NAME:eth`. Names hold in the compound element in which they are defined and in those
//! inside it, wherever in the file the element is.
//!
//! A name that no AddressInfo defines may be that of an interface of the machine: its first address of each
//! kind, its network, and as `NAME:gw` the gateway of its default route, as they are when the configuration
//! is read.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! AddressInfo(mauer 10.0.0.1/8 00:50:BA:85:84:A9, mazu 10.0.0.10);
//! InfiniteSource(LIMIT 3, STOP true) -> IPEncap(udp, mauer, mazu) -> Discard;
//! ```
//!
//! ## See also
//! PortInfo, IPNameInfo

use super::engine::names::define;
use crate::prelude::*;

/// The `AddressInfo` element.
pub struct AddressInfo;

impl Element for AddressInfo {
    const CLASS: &'static str = "AddressInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/addressinfo");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        define(args, cx, |db, arg| db.define_address_info(arg)).map(|()| Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use crate::testing::Bench;

    #[test]
    fn names_hold_before_their_definition_and_inwards() {
        let mut bench = Bench::with_config(
            "e :: { input -> SetIPAddress(b) -> output; AddressInfo(b a) };
             AddressInfo(a 10.0.0.7);",
            1,
            1,
        );
        let (_, packet) = {
            let batch = [Packet::from_bytes(b"....").unwrap()].into_iter().collect();
            bench.router().inject("e/SetIPAddress@1", 0, batch);
            bench.take().remove(0)
        };
        assert_eq!(packet.dst_ip(), [10, 0, 0, 7]);
        let error = Bench::error("SetIPAddress(b); { AddressInfo(b 1.0.0.1) }");
        assert!(error.contains("parse error"), "{error}");
    }

    #[test]
    fn all_errors_are_reported() {
        let error = Bench::error("AddressInfo(a, b 1.0.0.1 ?)");
        assert!(error.contains("expected 'NAME [ADDRS]'"), "{error}");
        assert!(error.contains("'?' is not a recognizable address"), "{error}");
    }
}
