//! # ClickyInfo
//! Stores styles for Clicky, a program that draws configurations.
//!
//! The router ignores it: it is only accepted. Its arguments are not checked.
//!
//! ## Synopsis
//! `ClickyInfo(STYLE, ...)`
//!
//! ## Arguments
//! - `STYLE`: what Clicky reads.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Takes no part in the data path.
//!
//! ## Example
//! ```click
//! ClickyInfo(STYLE #source { background-color: red });
//! source :: InfiniteSource(LIMIT 3, STOP true) -> Discard;
//! ```
//!
//! ## See also
//! AlignmentInfo, ScheduleInfo

use crate::prelude::*;

/// The `ClickyInfo` element.
pub struct ClickyInfo;

impl Element for ClickyInfo {
    const CLASS: &'static str = "ClickyInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("control/clickyinfo");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        args.ignore_rest();
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn anything_is_accepted() {
        let config = "e :: Null; ClickyInfo; ClickyInfo(STYLE #e { color: red }, NAME x, 1 2 3);";
        assert_eq!(Bench::with_config(config, 1, 1).push(0, b"a").len(), 1);
    }
}
