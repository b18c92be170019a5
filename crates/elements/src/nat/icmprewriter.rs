//! # ICMPRewriter
//! Translates ICMP errors about the flows of IPRewriters and their kin.
//!
//! ## Synopsis
//! `ICMPRewriter(MAPS [, DST_ANNO, REPLY_ANNO, SOURCE])`
//!
//! ## Arguments
//! - `MAPS` (*text*): the names of rewriters, separated by spaces: IPRewriter, TCPRewriter, UDPRewriter,
//!   ICMPPingRewriter, IPAddrRewriter, IPAddrPairRewriter. After a colon may stand a number: an error about a
//!   packet of this rewriter leaves by that output plus the one that its reply has there.
//! - `DST_ANNO` (*bool*, keyword, default true): whether the destination annotation becomes the new
//!   destination.
//! - `REPLY_ANNO` (*annotation*, keyword): an annotation of one byte that an error about a flow gets from the
//!   flow's first packet, as replies do; the rewriter has the same keyword.
//! - `SOURCE` (*bool*, keyword, default true; false under the name `click`): whether an error from the
//!   translated side gets the address that the flow has on the other one as its source (RFC 5508 REQ-5), so
//!   that no inside address is seen outside.
//!
//! An ICMP error has the IP header of the packet that it is about, and 8 bytes or more after that. If these
//! are what a rewriter has made of a packet, its sender would not know them: addresses, ports or identifier,
//! and checksums of the packet in the error become what the sender has sent, and the error goes to the
//! sender. The flow is not kept alive by that, nor ended (RFC 5508 REQ-6). Errors are the types destination
//! unreachable, source quench, redirect, time exceeded and parameter problem.
//!
//! Sequence numbers of the TCP packet in an error stay as they are, also where a rewriter adjusts them.
//!
//! ## What the RFCs ask of a NAT
//! RFC 4787 REQ-12, RFC 5382 REQ-9 and RFC 5508 REQ-3 to REQ-7: see the table in IPRewriter.
//!
//! ## Ports
//! One push input; push outputs. Translated errors leave by output 0, or by those that colons in `MAPS` say.
//! Other errors and other ICMP messages leave by output 1, if there is one and `MAPS` has no colons. The IP
//! header must have been marked.
//!
//! ## Threads
//! Each worker looks into the tables of the rewriters, which all share, without a lock.
//!
//! ## Example
//! ```click
//! // A router on the way says that a packet lived too long.
//! nat :: IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 1);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(10.0.0.7, 5000, 198.51.100.9, 53) -> nat;
//! nat [0] -> ICMPError(203.0.113.1, timeexceeded) -> ICMPRewriter(nat) -> IPPrint(error) -> Discard;
//! nat [1] -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, ICMPPingRewriter, IPAddrRewriter, ICMPError

use super::engine::errors::About;
use super::engine::rewriter::{SharedRewriter, View};
use crate::prelude::*;
use lang::args::{Anno, Raw};
use lang::split_words;

const NOT_ICMP: DropReason = DropReason::new("not ICMP");
const NO_ERROR: DropReason = DropReason::new("no ICMP error");
const NO_FLOW: DropReason = DropReason::new("about no translated flow");

/// The `ICMPRewriter` element.
pub struct ICMPRewriter {
    maps: Vec<(View, Option<usize>)>,
    annotate: bool,
    reply_anno: Option<usize>,
    source: bool,
    outputs: usize,
    /// Whether what is not translated leaves by output 1.
    passes: bool,
}

impl Element for ICMPRewriter {
    const CLASS: &'static str = "ICMPRewriter";
    const PORTS: &'static str = "1/1-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Last;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA.with(Fields::USER);
    const DROPS: &'static [DropCase] = &[
        NOT_ICMP.when("it is of another protocol"),
        NO_ERROR.when("it is no ICMP error with an IP header in it, and there is no output for these"),
        NO_FLOW.when("no rewriter has a flow that the error is about, and there is no output for these"),
    ];
    const MANUAL: &'static str = manual!("nat/icmprewriter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let Raw(text) = args.mp("MAPS")?;
        let annotate = args.k_or("DST_ANNO", true)?;
        let reply_anno = args.k::<Anno<1>>("REPLY_ANNO")?.map(|anno| usize::from(anno.0));
        let source = args.k_or("SOURCE", !cx.as_click())?;
        let (mut maps, mut first) = (Vec::new(), None);
        for word in split_words(&text) {
            match map(&word.text, cx) {
                Ok(map) => maps.push(map),
                Err(wrong) => {
                    let error = args.error(wrong);
                    first.get_or_insert(error);
                }
            }
        }
        if maps.is_empty() && first.is_none() {
            first = Some(args.error("no IP rewriters supplied"));
        }
        let outputs = cx.n_outputs().max(1);
        let passes = outputs > 1 && maps.iter().all(|(_, offset)| offset.is_none());
        match first {
            Some(error) => Err(error),
            None => Ok(Self { maps, annotate, reply_anno, source, outputs, passes }),
        }
    }
}

/// A rewriter, and the first of the outputs for its flows.
fn map(text: &str, cx: &ConfigCx<'_>) -> Result<(View, Option<usize>), String> {
    let none = || format!("{text} not an IP rewriter");
    let (name, offset) = match text.split_once(':') {
        None => (text, None),
        Some((name, offset)) => (name, Some(offset.parse::<u8>().map_err(|_| none())?)),
    };
    let shared = cx.find(name).and_then(|id| cx.shared_by::<SharedRewriter>(id)).ok_or_else(none)?;
    let outputs = cx.n_outputs();
    if offset.is_some_and(|offset| usize::from(offset) + shared.outputs > outputs) {
        let many = if outputs == 1 { "output" } else { "outputs" };
        return Err(format!("{text} port offset requires more than {outputs} {many}"));
    }
    Ok((View::of(shared), offset.map(usize::from)))
}

impl ICMPRewriter {
    /// Translates a packet if it is an error about a flow. Returns its output.
    ///
    /// # Errors
    /// Why it has not been translated.
    fn translate(&self, packet: &mut Packet) -> Result<usize, DropReason> {
        let about = About::of(packet).ok_or(NO_ERROR)?;
        let hit = self.maps.iter().find_map(|(view, offset)| {
            let hit = view.find(about.protocol, about.reply)?;
            let output = offset.map_or(0, |first| first + usize::from(hit.found.output()));
            Some((hit, output))
        });
        // A hot swap may have kept a flow to an output that is not there any more.
        let (hit, output) = hit.filter(|(_, output)| *output < self.outputs).ok_or(NO_FLOW)?;
        let dst = about.translate(packet, hit.to, self.source);
        if let Some(dst) = dst.filter(|_| self.annotate) {
            packet.set_dst_ip(dst);
        }
        if let Some(at) = self.reply_anno
            && hit.found.is_reply()
        {
            packet.store_user(at, [hit.found.mark()]);
        }
        Ok(output)
    }
}

impl Vector for ICMPRewriter {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.maps.iter_mut().for_each(|(view, _)| view.refresh());
        for mut packet in batch.drain(..) {
            let icmp = packet.network_header_chunk::<10>().is_some_and(|h| h[9] == wire::protocol::ICMP);
            match self.translate(&mut packet) {
                _ if !icmp => cx.drop(packet, NOT_ICMP),
                Ok(output) => cx.output(output, packet),
                Err(_) if self.passes => cx.output(1, packet),
                Err(why) => cx.drop(packet, why),
            }
        }
        cx.recycle(batch);
    }
}
