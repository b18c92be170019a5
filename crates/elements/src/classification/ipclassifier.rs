//! # IPClassifier
//! Sorts IP packets by expressions over their headers.
//!
//! ## Synopsis
//! `IPClassifier(PATTERN0, ..., PATTERNn)`
//!
//! ## Arguments
//! - `PATTERN` (*expression*): primitives joined by `and`, `or`, `not` (or `&&`, `||`, `!`), the ternary
//!   `? :` and parentheses; `-`, `any`, `all`, `true` match every packet, `none`, `false` match no packet.
//!   Primitives:
//!   - `[src|dst|src or dst|src and dst] host ADDR`, `... net ADDR/LEN`, `... net ADDR mask MASK`;
//!   - `[src|dst|...] [tcp|udp] port [=|!=|<|>|<=|>=] PORT`;
//!   - `ip proto PROTO`, or a protocol's name alone: `tcp`, `udp`, `icmp`;
//!   - `ip vers|hl|tos|dscp|ect|ce|id|ttl|len VALUE`, `ip frag`, `ip unfrag`;
//!   - `tcp opt syn|fin|rst|psh|ack|urg`, `tcp win VALUE`;
//!   - `icmp type TYPE`;
//!   - `ip[OFFSET:LENGTH] & MASK = VALUE`, and the same for `transp`, `tcp`, `udp`, `icmp`, `ether`.
//!
//!   What a primitive leaves out is taken from the one before it: `src port 80 or 443`.
//!
//!   Primitives about IPv6 packets, which Click does not have, begin with `ip6` or `icmp6`, or have an IPv6
//!   address:
//!   - `ip6`, `ip6 proto PROTO`, or with a protocol's name alone: `ip6 tcp`, `ip6 udp`, `icmp6`;
//!   - `[ip6] [src|dst|src or dst|src and dst] host ADDR`, `... net ADDR/LEN`;
//!   - `ip6 [src|dst|...] [tcp|udp] port [=|!=|<|>|<=|>=] PORT`, `ip6 tcp opt syn|fin|rst|psh|ack|urg`;
//!   - `icmp6 type TYPE`, a number or a name such as `echo` or `neighbor-solicitation`;
//!   - `ip6 class|dscp|ecn|flow|plen|hlim VALUE`;
//!   - `ip6[OFFSET:LENGTH] & MASK = VALUE`, and the same for `ip6 tcp`, `ip6 udp` and `icmp6`.
//!
//!   These are false of IPv4 packets. The transport header is looked for directly behind the fixed header, so
//!   that a packet with extension headers, such as a fragment, has no protocol but that of its first one. The
//!   other primitives read a packet of IPv6 as if it was one of IPv4, as in Click: where both arrive, `ip6`
//!   belongs in a pattern before theirs.
//!
//! ## Ports
//! One push input; one push output for each pattern. A packet leaves by the output of the first pattern that
//! it matches; one that matches none is dropped. Packets should have their IP header marked (CheckIPHeader,
//! MarkIPHeader). A fragment other than the first matches no test of a transport header, and a packet that
//! ends before the bytes that a test looks at does not match that test, so that both match its `not`: see
//! IPFilter.
//!
//! ## Handlers
//! - `program` (read): the decision program, one test on a line.
//! - `patternN` (read/write): the pattern of output N.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! c :: IPClassifier(tcp dst port 80 or 443, udp, -);
//! InfiniteSource(LIMIT 5, STOP true) -> MarkIPHeader -> c;
//! c[0] -> Discard; c[1] -> Discard; c[2] -> Discard;
//! ```
//!
//! ## See also
//! Classifier, IPFilter

use super::engine::program::Engine;
use crate::prelude::*;
use runtime::{CallArgs, Caller, Dynamic, HandlerError};

/// What the handlers of patterns have to know.
struct Patterns {
    element: String,
    outputs: usize,
}

impl Patterns {
    fn handlers(&self) -> Dynamic {
        let readable = (0..self.outputs).map(|n| format!("pattern{n}")).collect();
        Dynamic { readable, writable: true, any: false }
    }

    /// Reads or changes one of the arguments.
    ///
    /// # Errors
    /// There is no such handler, or the pattern is wrong.
    fn call(&self, caller: &mut dyn Caller, args: &CallArgs<'_>) -> Result<String, HandlerError> {
        let number = args.name.strip_prefix("pattern").and_then(|number| number.parse().ok());
        let config = format!("{}.config", self.element);
        let mut patterns: Vec<String> =
            lang::split_args(&caller.read("", &config, "")?).into_iter().map(|arg| arg.text).collect();
        let pattern = number.and_then(|number: usize| patterns.get_mut(number));
        let pattern = pattern.ok_or_else(|| HandlerError::NoHandler(args.name.to_owned()))?;
        if args.write {
            args.value.trim().clone_into(pattern);
            caller.write("", &config, &lang::quote::join_args(&patterns))?;
            return Ok(String::new());
        }
        Ok(std::mem::take(pattern))
    }
}

/// The `IPClassifier` element.
pub struct IpClassifier(Engine);

impl Element for IpClassifier {
    const CLASS: &'static str = "IPClassifier";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::MAC_HEADER).with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::NO_PATTERN_MATCHES.when("the packet matches none of the patterns")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("classification/ipclassifier");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let outputs = cx.n_outputs();
        let element = cx.name().to_owned();
        cx.shared(|| Patterns { element, outputs });
        Engine::compile(args, cx, |patterns, names| classify::ip_classifier(patterns, Some(outputs), names))
            .map(Self)
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("program", |e| e.0.program.text().to_owned());
        h.called_any(Patterns::handlers, |patterns: &Patterns, caller, args| patterns.call(caller, args));
    }
}

impl Step for IpClassifier {
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

impl Vector for IpClassifier {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.0.push_ip(batch, cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// An IPv4 header and the first bytes of a transport header.
    fn packet(proto: u8, dst_port: u16) -> Vec<u8> {
        let mut p = vec![0; 40];
        p[0] = 0x45;
        p[3] = 40;
        p[9] = proto;
        p[22..24].copy_from_slice(&dst_port.to_be_bytes());
        p
    }

    #[test]
    fn sorts_by_protocol_and_port() {
        let mut b = Bench::with_ports("IPClassifier(tcp dst port 80 or 443, udp, -)", 1, 3);
        assert_eq!(b.push(0, &packet(6, 443))[0].0, 0);
        assert_eq!(b.push(0, &packet(17, 443))[0].0, 1);
        assert_eq!(b.push(0, &packet(6, 22))[0].0, 2);
        assert_eq!(b.push(0, &[])[0].0, 2);
    }

    #[test]
    fn errors_name_what_is_wrong() {
        assert!(!Bench::error("IPClassifier(frobnicate 3)").is_empty());
    }
}
