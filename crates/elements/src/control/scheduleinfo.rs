//! # ScheduleInfo
//! Sets how often elements' tasks run, compared with each other.
//!
//! ## Synopsis
//! `ScheduleInfo(ELEMENT PARAM, ...)`
//!
//! ## Arguments
//! - `ELEMENT PARAM` (*element, real number*): the task of `ELEMENT` runs `PARAM` times as often as one that
//!   is not named, whose parameter is 1. If `ELEMENT` is a compound element, the parameters of all elements
//!   inside it are multiplied by `PARAM`. The largest parameter is 32.
//!
//! A ScheduleInfo inside a compound element applies to the elements there. One further out overrides it: if
//! it names an element inside, that is the element's parameter, whatever is set inside or for the compound
//! elements between.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path. Shares are those of tasks on the same worker.
//!
//! ## Example
//! ```click
//! // c/i runs 4 * 0.5 = 2 times as often as the other source.
//! c :: { i :: InfiniteSource(LIMIT 3, STOP true) -> output; ScheduleInfo(i 0.5) } -> Discard;
//! InfiniteSource(LIMIT 3) -> Discard;
//! ScheduleInfo(c 4);
//! ```
//!
//! ## See also
//! StaticThreadSched

use crate::prelude::*;
use lang::args::{parse_real2, split_words};
use runtime::{DEFAULT_TICKETS, MAX_TICKETS};
use std::collections::BTreeMap;

/// Binary digits of a parameter's fraction: a parameter of 1 is [`DEFAULT_TICKETS`].
const FRACTION_BITS: u32 = 10;

/// The `ScheduleInfo` element.
pub struct ScheduleInfo;

/// The tickets of an element by the parameters that are given in each scope (the empty one, `a/`, `a/b/`),
/// and whether they had to be reduced.
fn tickets(element: &str, shares: &BTreeMap<(String, String), u32>) -> (u32, bool) {
    let mut names: Vec<&str> = element.match_indices('/').map(|(slash, _)| &element[..slash]).collect();
    names.push(element);
    let mut params = vec![None; names.len()];
    // From the innermost scope outwards.
    for depth in (0..names.len()).rev() {
        let scope = if depth == 0 { String::new() } else { format!("{}/", names[depth - 1]) };
        let mut found = false;
        for at in (depth..names.len()).rev() {
            let given = shares.get(&(scope.clone(), names[at][scope.len()..].to_owned()));
            if found {
                params[at] = None;
            } else if let Some(&given) = given {
                params[at] = Some(given);
                found = true;
            }
        }
    }
    let scale = |t: u64, p: u32| (t.saturating_mul(u64::from(p))) >> FRACTION_BITS;
    let product = params.into_iter().flatten().fold(u64::from(DEFAULT_TICKETS), scale);
    let limited = u32::try_from(product).unwrap_or(MAX_TICKETS).clamp(1, MAX_TICKETS);
    (limited, product > u64::from(MAX_TICKETS))
}

impl Element for ScheduleInfo {
    const CLASS: &'static str = "ScheduleInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/scheduleinfo");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let scope = cx.name().rfind('/').map_or("", |slash| &cx.name()[..=slash]).to_owned();
        let mut failed = None;
        for arg in args.rest_args() {
            let words = split_words(&arg.text);
            if words.is_empty() {
                continue;
            }
            let param = match &words[..] {
                [_, param] => parse_real2(&param.text, FRACTION_BITS).ok(),
                _ => None,
            };
            match param {
                Some(param) => {
                    cx.scheduling().shares.insert((scope.clone(), words[0].text.clone()), param);
                }
                None => {
                    let text = format!("expected 'ELEMENTNAME PARAM', got '{}'", arg.text);
                    failed = Some(args.error_at(&arg, text));
                }
            }
        }
        let names: Vec<String> = cx.config().elements.iter().map(|e| e.name.clone()).collect();
        for name in names {
            let (tickets, reduced) = tickets(&name, &cx.scheduling().shares);
            if tickets != DEFAULT_TICKETS {
                cx.scheduling().tickets.insert(name, tickets);
            } else {
                cx.scheduling().tickets.remove(&name);
            }
            if reduced {
                cx.warn(format!("ScheduleInfo too high; reduced to {}", MAX_TICKETS >> FRACTION_BITS));
            }
        }
        failed.map_or(Ok(Self), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn parameters_of_nested_scopes_multiply() {
        let shares = |list: &[(&str, &str, u32)]| {
            list.iter().map(|(s, n, p)| (((*s).to_owned(), (*n).to_owned()), *p)).collect::<BTreeMap<_, _>>()
        };
        let inner = [("c/", "i", 512), ("", "c", 4096)];
        assert_eq!(tickets("c/i", &shares(&inner)), (2048, false));
        assert_eq!(tickets("c/j", &shares(&inner)), (4096, false));
        assert_eq!(tickets("d", &shares(&inner)), (1024, false));
        let overridden = [("c/", "i", 512), ("", "c", 4096), ("", "c/i", 10 << 10)];
        assert_eq!(tickets("c/i", &shares(&overridden)), (10 << 10, false));
        let deep = [("a/b/", "i", 512), ("a/", "b", 2048), ("", "a", 2048)];
        assert_eq!(tickets("a/b/i", &shares(&deep)), (2048, false));
        assert_eq!(tickets("x", &shares(&[("", "x", 99 << 10)])), (MAX_TICKETS, true));
    }

    #[test]
    fn tasks_get_their_tickets() {
        let mut bench = Bench::with_config(
            "e :: { u :: InfiniteSource(ACTIVE false) -> output; ScheduleInfo(u 0.5) }; ScheduleInfo(e 4);",
            0,
            1,
        );
        assert_eq!(bench.read("e/u.tickets"), "2048");
        assert!(Bench::error("ScheduleInfo(x)").contains("expected 'ELEMENTNAME PARAM', got 'x'"));
    }
}
