//! What nearly every element file uses.

pub(crate) use runtime::{
    ArgError, Args, Batch, Classify, Combine, ConfigCx, Counter, Cx, Element, Fields, Handlers, Notify,
    Packet, Phase, Role, Sharing, Simple, Step, Vector,
};
