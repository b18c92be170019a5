//! # IPRewriterPatterns
//! Names patterns that IPRewriter and similar elements use.
//!
//! ## Synopsis
//! `IPRewriterPatterns(NAME SADDR SPORT DADDR DPORT, ...)`
//!
//! ## Arguments
//! - `NAME PATTERN` (*text*, any number): a name, and the pattern that it stands for, as IPRewriter takes it
//!   without its two outputs. Inputs that use the same name take ports from the same range in turn.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Shared by all workers.
//!
//! ## Example
//! ```click
//! IPRewriterPatterns(outside 192.0.2.1 1024-65535# - -);
//! nat :: IPRewriter(pattern outside 0 1, pattern outside 0 1, drop);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(10.0.0.7, 5000, 198.51.100.9, 53) -> nat;
//! Idle -> [1] nat;
//! nat [0] -> IPPrint(out) -> IPMirror -> [2] nat;
//! nat [1] -> IPPrint(back) -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, RoundRobinIPMapper

use super::engine::input::Named;
use super::engine::pattern::Pattern;
use crate::prelude::*;
use lang::split_words;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The `IPRewriterPatterns` element.
pub struct IPRewriterPatterns;

impl Element for IPRewriterPatterns {
    const CLASS: &'static str = "IPRewriterPatterns";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("nat/iprewriterpatterns");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let names = args.names().clone();
        let (mut named, mut first) = (HashMap::new(), None);
        for arg in args.rest_args() {
            let words = split_words(&arg.text);
            let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            let Some((name, pattern)) = words.split_first() else { continue };
            let wrong = match (Pattern::parse(pattern, &names), named.entry((*name).to_owned())) {
                (_, Entry::Occupied(_)) => format!("pattern '{name}' defined twice"),
                (Ok(pattern), Entry::Vacant(place)) => {
                    place.insert(Arc::new(pattern));
                    continue;
                }
                (Err(wrong), _) => format!("pattern '{name}': {wrong}"),
            };
            let error = args.error_at(&arg, wrong);
            first.get_or_insert(error);
        }
        match first {
            Some(error) => Err(error),
            None => {
                cx.shared(|| Named(named));
                Ok(Self)
            }
        }
    }
}
