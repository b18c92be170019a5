//! Asking running nodes how they are, and what they send to each other.

mod interval;
mod matrix;
mod outputs;
mod snapshot;
mod status;
mod view;

pub(crate) use matrix::matrix;
pub(crate) use snapshot::{ANSWER, unheard};
pub(crate) use status::status;
