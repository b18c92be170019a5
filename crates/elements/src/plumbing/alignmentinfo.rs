//! # AlignmentInfo
//! Declares how the packets at elements' inputs are aligned.
//!
//! `click-align` writes it. Valiant reads headers at any alignment and does not use it; the arguments are
//! checked.
//!
//! ## Synopsis
//! `AlignmentInfo(ELEMENT [CHUNK OFFSET ...], ...)`
//!
//! ## Arguments
//! - `ELEMENT CHUNK OFFSET ...` (*element, pairs of ints*): at input N of the element, the address of a
//!   packet's first byte is the Nth `OFFSET` modulo the Nth `CHUNK`. Elements that do not exist are ignored.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> Align(4, 2) -> s :: Strip(14) -> Discard;
//! AlignmentInfo(s 4 2);
//! ```
//!
//! ## See also
//! Align

use super::engine::text;
use crate::prelude::*;
use lang::args::split_words;

/// The `AlignmentInfo` element.
pub struct AlignmentInfo;

impl Element for AlignmentInfo {
    const CLASS: &'static str = "AlignmentInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/alignmentinfo");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        for (n, argument) in args.rest().iter().enumerate() {
            let words = split_words(argument);
            let Some((name, numbers)) = words.split_first() else {
                cx.warn(format!("empty configuration argument {n}"));
                continue;
            };
            if cx.find(&name.text).is_none() {
                continue;
            }
            if numbers.len() % 2 != 0 {
                return Err("expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'".into());
            }
            for (at, number) in numbers.iter().enumerate() {
                let wrong = if at % 2 == 0 { "expected CHUNK" } else { "expected OFFSET" };
                text::value::<i32>(&number.text, wrong)?;
            }
        }
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn arguments_are_checked() {
        let mut bench = Bench::with_config("e :: Null; AlignmentInfo(e 4 2, nobody 1);", 1, 1);
        assert_eq!(bench.push(0, b"a").len(), 1);
        assert!(Bench::error("AlignmentInfo(e 4)").contains("CHUNK OFFSET"));
        assert!(Bench::error("AlignmentInfo(e x 1)").contains("expected CHUNK"));
        assert!(Bench::error("AlignmentInfo(e 1 x)").contains("expected OFFSET"));
    }
}
