//! # RoundRobinIPMapper
//! Chooses one of several patterns in turn for each new flow of an IPRewriter.
//!
//! ## Synopsis
//! `RoundRobinIPMapper(SADDR1 SPORT1 DADDR1 DPORT1 FOUTPUT1 ROUTPUT1, ...)`
//!
//! ## Arguments
//! - `PATTERN FOUTPUT ROUTPUT` (*text*, any number): a pattern, or the name of one in an IPRewriterPatterns
//!   element, and the outputs of the IPRewriter for packets and for replies.
//!
//! An IPRewriter that has this element's name in the place of an INPUTSPEC tries the patterns for a new flow,
//! beginning with the one after that which was taken last, until one has a port that is free.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Shared by all workers.
//!
//! ## Example
//! ```click
//! servers :: RoundRobinIPMapper(- - 10.0.0.1 80 0 1, - - 10.0.0.2 80 0 1);
//! rewriter :: IPRewriter(servers, drop);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(198.51.100.9, 5000, 192.0.2.1, 80) -> rewriter;
//! rewriter [0] -> IPPrint(to) -> IPMirror -> [1] rewriter;
//! rewriter [1] -> IPPrint(from) -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, IPRewriterPatterns

use super::engine::headers::FlowId;
use super::engine::input::{Known, Mapped, Mapper, SharedMapper, mapped, named};
use crate::prelude::*;
use lang::split_words;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The `RoundRobinIPMapper` element.
pub struct RoundRobinIPMapper;

struct InTurn {
    patterns: Vec<Mapped>,
    next: AtomicUsize,
}

impl Mapper for InTurn {
    fn offer(&self, _flow: FlowId, take: &mut dyn FnMut(&Mapped) -> ControlFlow<()>) {
        let many = self.patterns.len();
        for _ in 0..many {
            let turn = self.next.fetch_add(1, Relaxed) % many.max(1);
            if self.patterns.get(turn).is_some_and(|pattern| take(pattern).is_break()) {
                return;
            }
        }
    }
    fn fits(&self, outputs: usize) -> bool {
        self.patterns.iter().flat_map(|pattern| pattern.outputs).all(|output| usize::from(output) < outputs)
    }
}

impl Element for RoundRobinIPMapper {
    const CLASS: &'static str = "RoundRobinIPMapper";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("nat/roundrobinipmapper");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        // Whether the outputs are there is known when an IPRewriter uses this.
        let known = Known { names: &args.names().clone(), patterns: named(cx), outputs: usize::MAX };
        let (mut patterns, mut first) = (Vec::new(), None);
        for arg in args.rest_args() {
            let words = split_words(&arg.text);
            let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            match mapped(&words, &known) {
                Ok(pattern) => patterns.push(pattern),
                Err(wrong) => {
                    let error = args.error_at(&arg, wrong);
                    first.get_or_insert(error);
                }
            }
        }
        if first.is_none() && patterns.is_empty() {
            first = Some(args.error("no patterns"));
        }
        match first {
            Some(error) => Err(error),
            None => {
                cx.shared(|| SharedMapper(Arc::new(InTurn { patterns, next: AtomicUsize::new(0) })));
                Ok(Self)
            }
        }
    }
}
