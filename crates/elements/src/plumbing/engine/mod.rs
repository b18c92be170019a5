//! Code that the elements of this section share, and that other sections use.
//!
//! Read first: `text.rs`, how handlers write and read numbers and times; `bucket.rs` is the token bucket of
//! all elements that limit a rate.

pub(crate) mod bucket;
pub(crate) mod call;
pub(super) mod crc;
pub(crate) mod expression;
pub(crate) mod gates;
pub(super) mod payload;
pub(in crate::plumbing) mod quota;
pub(super) mod rate;
pub(crate) mod text;
pub(in crate::plumbing) mod udpframe;
