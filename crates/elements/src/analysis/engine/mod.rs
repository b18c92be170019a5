//! What the section shares. Read `notifier.rs` first: which elements tell others that an aggregate has ended.

pub(super) mod counts;
pub(super) mod flows;
pub(super) mod ipfield;
pub(super) mod notifier;
pub(super) mod rates;
pub(super) mod traceinfo;
