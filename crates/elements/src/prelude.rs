//! The names that nearly every element file uses.

pub(crate) use crate::drops;
pub(crate) use runtime::{
    ArgError, Args, Batch, Combine, ConfigCx, Counter, Cx, DropCase, DropReason, Element, Fields, Handlers,
    Level, Notify, Opens, Outside, Packet, Phase, Role, Sharing, Simple, Step, StepFacts, Vector,
};
