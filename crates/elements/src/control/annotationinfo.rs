//! # AnnotationInfo
//! Gives names to places in packets' annotations.
//!
//! ## Synopsis
//! `AnnotationInfo(NAME OFFSET [SIZE], ..., [CHECK_OVERLAP ANNO ...])`
//!
//! ## Arguments
//! - `NAME OFFSET SIZE` (*word, annotation, int*): the name, where the annotation begins, by offset or by
//!   another name, and how many bytes it has. Without `SIZE`, it can be used for any size. Names that are
//!   always defined, such as `PAINT`, cannot be given again.
//! - `CHECK_OVERLAP ANNO ...` (*annotations*): it is an error if two of these have bytes in common. They are
//!   defined by this element, by AnnotationInfo elements before it, or always.
//!
//! Names hold in the compound element in which they are defined and in those inside it, wherever in the file
//! the element is.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! AnnotationInfo(COLOR 16 1, MARK 40 4, CHECK_OVERLAP COLOR MARK);
//! InfiniteSource(LIMIT 3, STOP true) -> Paint(7, COLOR) -> CheckPaint(7) -> Discard;
//! ```
//!
//! ## See also
//! AddressInfo, PortInfo, Paint

use super::engine::names::define;
use crate::prelude::*;
use lang::args::{AnnoOffset, Arg, NameDb};
use lang::split_words;
use runtime::FromArg;

/// The `AnnotationInfo` element.
pub struct AnnotationInfo;

/// What is wrong with an argument `CHECK_OVERLAP ANNO ...`, in Click's words; others are not looked at.
fn overlaps(db: &mut NameDb, arg: &Arg) -> Result<(), Vec<String>> {
    let words: Vec<String> = split_words(&arg.text).into_iter().map(|w| w.text).collect();
    let Some((_, names)) = words.split_first().filter(|(first, _)| *first == "CHECK_OVERLAP") else {
        return Ok(());
    };
    let (mut wrong, mut places) = (Vec::new(), Vec::new());
    for name in names {
        match AnnoOffset::from_arg(name, db) {
            Ok(a) => places.push((name, a.offset..a.offset + a.size.max(1))),
            Err(_) => wrong.push(format!("bad ANNO '{name}'")),
        }
    }
    for (n, (one, place)) in places.iter().enumerate() {
        for (other, there) in &places[n + 1..] {
            if place.start < there.end && there.start < place.end {
                wrong.push(format!("annotations '{one}' and '{other}' conflict"));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

impl Element for AnnotationInfo {
    const CLASS: &'static str = "AnnotationInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/annotationinfo");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        define(args, cx, |db, arg| db.define_annotation_info(arg))?;
        args.rewind();
        define(args, cx, overlaps).map(|()| Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn names_can_be_used() {
        let mut bench = Bench::with_config("e :: Paint(3, COLOR); AnnotationInfo(COLOR 40 1);", 1, 1);
        let out = bench.send(0, crate::prelude::Packet::from_bytes(b"x").unwrap());
        assert_eq!(out[0].1.load_user(40), Some([3]));
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(Bench::error("AnnotationInfo(PAINT 3)").contains("bad NAME 'PAINT'"));
        assert!(Bench::error("AnnotationInfo(X 46 4)").contains("bad entry for 'X'"));
        assert!(Bench::error("AnnotationInfo(X)").contains("bad entry for 'X'"));
    }

    #[test]
    fn overlaps_are_found() {
        let message =
            Bench::error("AnnotationInfo(A 16 4, B 19 2, C 20 1, CHECK_OVERLAP A B C PAINT nowhere)");
        for wrong in
            ["'A' and 'B' conflict", "'B' and 'C' conflict", "'A' and 'PAINT' conflict", "bad ANNO 'nowhere'"]
        {
            assert!(message.contains(wrong), "{wrong}: {message}");
        }
        assert!(!message.contains("'A' and 'C'"), "{message}");
    }
}
