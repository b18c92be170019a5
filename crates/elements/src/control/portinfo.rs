//! # PortInfo
//! Gives names to TCP and UDP ports.
//!
//! ## Synopsis
//! `PortInfo(NAME PORT[/PROTOCOL] [ALIAS ...], ...)`
//!
//! ## Arguments
//! - `NAME PORT/PROTOCOL ALIAS ...` (*word, port, words*): the name, its port number, and other names for the
//!   same port. `PROTOCOL` is `tcp`, `udp`, `tcpudp` (the default: both) or another IP protocol. The lines of
//!   `/etc/services` have this form.
//!
//! Names hold in the compound element in which they are defined and in those inside it, wherever in the file
//! the element is. Names of common ports (`ssh`, `www`, `dns`, ...) are always defined, and so are, after
//! these, all services in the machine's `/etc/services`.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! PortInfo(metrics 9100/tcp, syslog 514/udp log);
//! c :: IPClassifier(dst tcp port metrics, dst udp port log, -);
//! InfiniteSource(LIMIT 3, STOP true) -> MarkIPHeader(0) -> c;
//! c [0] -> Discard; c [1] -> Discard; c [2] -> Discard;
//! ```
//!
//! ## See also
//! AddressInfo, IPNameInfo

use super::engine::names::define;
use crate::prelude::*;

/// The `PortInfo` element.
pub struct PortInfo;

impl Element for PortInfo {
    const CLASS: &'static str = "PortInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/portinfo");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        define(args, cx, |db, arg| db.define_port_info(arg)).map(|()| Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn names_are_known_to_classifiers() {
        let mut bench =
            Bench::with_config("e :: IPClassifier(dst udp port syslog, -); PortInfo(syslog 5514/udp);", 1, 2);
        let mut packet = vec![
            0x45, 0, 0, 28, 0, 0, 0, 0, 9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0x15, 0x8a, 0, 8, 0, 0,
        ];
        let mut port = |bytes: &[u8]| {
            let mut packet = crate::prelude::Packet::from_bytes(bytes).unwrap();
            packet.set_network_header(0, 20);
            packet.set_transport_header(20);
            bench.send(0, packet)[0].0
        };
        assert_eq!(port(&packet), 0);
        packet[23] = 0;
        assert_eq!(port(&packet), 1);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(Bench::error("PortInfo(x)").contains("expected 'NAME PORT/PROTO'"));
    }
}
