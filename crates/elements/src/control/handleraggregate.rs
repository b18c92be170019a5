//! # HandlerAggregate
//! Adds up a handler of several elements.
//!
//! FastClick's.
//!
//! ## Synopsis
//! `HandlerAggregate(ELEMENT NAME, ELEMENT NAME, ...)`
//!
//! ## Arguments
//! - `ELEMENT` (*element*, keyword): an element; as often as there are elements.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `add` (read, parameter): `add HANDLER` is the sum of this handler's values of the elements.
//! - `avg` (read, parameter): `avg HANDLER` is their mean; `nan` without elements.
//!
//! A value counts as far as it begins with a number, else as 0. A handler that an element does not have is an
//! error.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> a :: Counter -> Discard;
//! InfiniteSource(LIMIT 4) -> b :: Counter -> Discard;
//! both :: HandlerAggregate(ELEMENT a, ELEMENT b);
//! Script(wait 10ms, print $(both.add count), stop);
//! ```
//!
//! ## See also
//! Script, Counter

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::ElementName;
use runtime::{CallArgs, Caller, HandlerError};

/// The elements' full names.
struct Aggregated(Vec<String>);

/// The `HandlerAggregate` element.
pub struct HandlerAggregate;

/// The number that a text begins with, as C's `atof` reads it.
fn number(value: &str) -> f64 {
    let value = value.trim_start();
    let like = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let mut rest = &value[..value.find(|c| !like(c)).unwrap_or(value.len())];
    loop {
        if let Ok(number) = rest.parse() {
            return number;
        }
        match rest.char_indices().next_back() {
            Some((last, _)) => rest = &rest[..last],
            None => return 0.0,
        }
    }
}

fn sum(of: &Aggregated, caller: &mut dyn Caller, args: &CallArgs<'_>) -> Result<f64, HandlerError> {
    let handler = args.value.trim();
    of.0.iter()
        .try_fold(0.0, |sum, name| Ok(sum + number(&caller.read("", &format!("{name}.{handler}"), "")?)))
}

impl Element for HandlerAggregate {
    const CLASS: &'static str = "HandlerAggregate";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/handleraggregate");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let elements = args.all::<ElementName>("ELEMENT")?;
        cx.shared(|| Aggregated(elements.into_iter().map(|e| e.0).collect()));
        Ok(Self)
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.called_read("add", |of: &Aggregated, caller, args| Ok(text::general(sum(of, caller, args)?)));
        h.called_read("avg", |of: &Aggregated, caller, args| {
            let mean = sum(of, caller, args)? / of.0.len() as f64;
            Ok(if mean.is_nan() { "nan".to_owned() } else { text::general(mean) })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::number;
    use crate::testing::Bench;

    #[test]
    fn adds_up_and_averages() {
        let config = "e :: HandlerAggregate(ELEMENT a, ELEMENT c/b); a :: Counter; c :: { input -> b :: Counter -> output };
            InfiniteSource(DATA abc, LIMIT 3) -> a -> c -> Discard; InfiniteSource(DATA abc, LIMIT 4) -> c; n :: HandlerAggregate;";
        let mut bench = Bench::with_config(config, 0, 0);
        bench.run();
        assert_eq!((bench.read("add count"), bench.read("avg count")), ("10".into(), "5".into()));
        assert_eq!((bench.read("add byte_count"), bench.read("add class")), ("30".into(), "0".into()));
        assert_eq!((bench.read("n.add count"), bench.read("n.avg count")), ("0".into(), "nan".into()));
        assert!(bench.try_read("add zonk").is_err());
        assert!(Bench::error("HandlerAggregate(ELEMENT x)").contains("does not name an element"));
    }

    #[test]
    fn numbers_at_the_beginning_count() {
        for (text, want) in [
            ("12", 12.0),
            (" -1.5e3 x", -1500.0),
            ("7 packets\n", 7.0),
            ("1e", 1.0),
            ("3-4", 3.0),
            ("x1", 0.0),
            ("", 0.0),
            ("1.2.3", 1.2),
        ] {
            assert_eq!(number(text), want, "{text}");
        }
    }
}
