//! `valiant cluster status` and `matrix`: asking running nodes for their state and their traffic.

mod interval;
mod matrix;
mod outputs;
mod snapshot;
mod status;
mod view;

pub(crate) use matrix::matrix;
pub(crate) use snapshot::{ANSWER, unheard};
pub(crate) use status::status;
