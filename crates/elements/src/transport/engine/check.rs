//! Code that CheckICMPHeader, CheckTCPHeader and CheckUDPHeader share: finding bad packets, counting and
//! reporting them.

use super::datagram::Datagram;
use crate::drops::Details;
use crate::ip::engine::header::header;
use crate::prelude::*;
use std::sync::Arc;

/// The possible errors in a packet of the right protocol.
pub(crate) enum Bad {
    Length,
    Checksum,
}

/// A protocol whose headers can be checked.
pub(crate) trait Protocol: Send + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    /// The name in reports.
    const NAME: &'static str;
    const NUMBER: u8;
    /// Another protocol, a bad length, a bad checksum.
    const CASES: [DropCase; 3];
    /// Whether a report begins with the element's declaration (not in Click's CheckUDPHeader).
    const TELL_ELEMENT: bool = true;
    fn check(datagram: &Datagram<'_>) -> Result<(), Bad>;
}

/// The element that checks headers of `P`.
pub struct CheckHeader<P> {
    verbose: bool,
    details: Arc<Details>,
    of: std::marker::PhantomData<fn() -> P>,
}

impl<P: Protocol> Element for CheckHeader<P> {
    const CLASS: &'static str = P::CLASS;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &P::CASES;
    const MANUAL: &'static str = P::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let verbose = args.k("VERBOSE")?.unwrap_or(false);
        let wanted = args.k("DETAILS")?.unwrap_or(false);
        Ok(Self { verbose, details: Details::of(cx, wanted), of: std::marker::PhantomData })
    }

    fn handlers(h: &mut Handlers<Self>) {
        Details::handlers(h);
    }
}

impl<P: Protocol> CheckHeader<P> {
    /// Why a packet is bad.
    #[inline]
    fn fault(packet: &Packet) -> Option<DropReason> {
        let [other, length, checksum] = P::CASES.map(|case| case.reason);
        if header(packet).is_none_or(|h| h.protocol() != P::NUMBER) {
            return Some(other);
        }
        match Datagram::of(packet).map_or(Err(Bad::Length), |d| P::check(&d)) {
            Ok(()) => None,
            Err(Bad::Length) => Some(length),
            Err(Bad::Checksum) => Some(checksum),
        }
    }

    #[cold]
    fn bad(&mut self, packet: Packet, reason: DropReason, cx: &mut Cx<'_>) {
        if self.verbose || self.details.is_first() {
            let report = format!("{} header check failed: {reason}", P::NAME);
            if P::TELL_ELEMENT {
                cx.log(Level::WARN, &format!("{} :: {}: {report}", cx.name(), P::CLASS));
            } else {
                cx.log(Level::WARN, &report);
            }
        }
        cx.reject(packet, reason);
    }
}

impl<P: Protocol> Simple for CheckHeader<P> {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match Self::fault(&packet) {
            None => Some(packet),
            Some(reason) => {
                self.bad(packet, reason, cx);
                None
            }
        }
    }
}

/// The tests that the three elements share.
#[cfg(test)]
pub(crate) mod sample {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;

    /// The element accepts the good packets and reports of the bad ones that their length or checksum is
    /// wrong.
    pub(crate) fn sorts(class: &str, name: &str, good: &[Vec<u8>], short: &[Vec<u8>], wrong: &[Vec<u8>]) {
        let mut bench = Bench::new(&format!("{class}(DETAILS true, VERBOSE true)"));
        for bytes in good {
            assert_eq!(bench.push_packet(0, marked(bytes)), [(0, bytes.clone())]);
        }
        assert_eq!(bench.read("drops"), "0");
        for bytes in short.iter().chain(wrong) {
            assert_eq!(bench.push_packet(0, marked(bytes)), [(1, bytes.clone())]);
        }
        let other = [ip(99, &[0; 40]), b"E".to_vec()];
        for bytes in &other {
            assert_eq!(bench.push_packet(0, marked(bytes)), [(1, bytes.clone())]);
        }
        assert_eq!(bench.push(0, &good[0])[0].0, 1, "unmarked");
        assert_eq!(bench.read("drops"), (short.len() + wrong.len() + 3).to_string());
        assert_eq!(
            bench.read("drop_details"),
            format!(
                "3\tnot {name}\n{}\tbad packet length\n{}\tbad {name} checksum\n",
                short.len(),
                wrong.len()
            )
        );
        let mut bench = Bench::with_ports(&format!("{class}()"), 1, 1);
        assert!(bench.push(0, &good[0]).is_empty());
        assert_eq!(bench.drops(), [(format!("not {name}"), 1)]);
        assert!(bench.try_read("drop_details").is_err());
        assert!(Bench::error(&format!("{class}(VERBOSE maybe)")).contains("VERBOSE"));
    }
}
