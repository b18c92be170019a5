//! What nearly every element file uses.

pub(crate) use runtime::{
    ArgError, Args, Batch, Classify, Combine, ConfigCx, Counter, Cx, Element, Handlers, Notify, Packet,
    Phase, Sharing, Simple, Step, Vector,
};
