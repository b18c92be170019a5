//! # IPFilter
//! Passes or drops IP packets by a list of rules.
//!
//! A fragment other than the first has no transport header, and a packet may end before the bytes that a test
//! reads; such a packet does not match the test, not even one with `!=` or `<`. **`not` turns that around:**
//! `not (tcp opt syn)` is true of every later fragment, of every packet that ends before the flags, and of
//! everything that is not TCP. So list what may pass (`tcp opt ack or tcp opt rst`), not what may not. If
//! fragments arrive from untrusted networks, put an IPReassembler in front: a filter and the host behind it
//! can read a TCP header in tiny or overlapping fragments differently (RFC 1858, RFC 3128).
//! `conf/firewall.click` does both. To drop all fragments, begin with `drop ip frag`.
//!
//! ## Synopsis
//! `IPFilter(ACTION PATTERN, ...)`
//!
//! ## Arguments
//! - `ACTION` (*`allow`, `deny`, `drop`, or an output's number*): what happens to a packet whose first
//!   matching rule this is. `allow` means output 0; `drop` and `deny` mean dropped. (`deny` meant output 1 in
//!   early versions of Click, so it warns if the element has several outputs.)
//! - `PATTERN` (*expression*): as for IPClassifier.
//!
//! ## Ports
//! One push input; any number of push outputs. A packet that no rule matches is dropped. Packets should have
//! their IP header marked (CheckIPHeader, MarkIPHeader).
//!
//! ## Handlers
//! - `program` (read): the decision program, one test on a line.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> MarkIPHeader
//!   -> IPFilter(allow tcp dst port 22, deny src net 10.0.0.0/8, allow all)
//!   -> Discard;
//! ```
//!
//! ## See also
//! IPClassifier, Classifier, IPReassembler

use super::engine::program::Engine;
use crate::prelude::*;

/// The `IPFilter` element.
pub struct IpFilter(Engine);

impl Element for IpFilter {
    const CLASS: &'static str = "IPFilter";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::MAC_HEADER).with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::NO_PATTERN_MATCHES.when("no rule matches, or the rule says to drop")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("classification/ipfilter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let outputs = cx.n_outputs();
        Engine::compile(args, cx, |rules, names| classify::ip_filter(rules, Some(outputs), names)).map(Self)
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("program", |e| e.0.program.text().to_owned());
    }
}

impl Step for IpFilter {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        self.0.is_usual_by_ip(packet)
    }
    fn run(&mut self, packets: &mut [Packet], _cx: &mut Cx<'_>) -> usize {
        self.0.usual_by_ip(packets)
    }
    fn output(&self) -> usize {
        self.0.usual
    }
}

impl Vector for IpFilter {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.0.push_ip(batch, cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_first_matching_rule_decides() {
        let mut b =
            Bench::with_ports("IPFilter(deny src host 10.0.0.1, allow src net 10.0.0.0/8, drop all)", 1, 1);
        let from = |a: [u8; 4]| {
            let mut p = vec![0; 20];
            p[0] = 0x45;
            p[12..16].copy_from_slice(&a);
            p
        };
        assert!(b.push(0, &from([10, 0, 0, 1])).is_empty());
        assert_eq!(b.push(0, &from([10, 0, 0, 2])).len(), 1);
        assert!(b.push(0, &from([11, 0, 0, 2])).is_empty());
    }
}
