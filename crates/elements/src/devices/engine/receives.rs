//! What elements that receive from a port have in common.

use super::batches::Batches;
use super::port;
use super::rx::Receiver;
use super::steering;
use crate::prelude::*;

/// An element that receives from a port.
pub(in crate::devices) trait Receives: Element {
    fn receiver(&self) -> &Receiver;
    fn receiver_mut(&mut self) -> &mut Receiver;
}

/// The handlers that all of these elements have.
pub(in crate::devices) fn handlers<E: Receives>(h: &mut Handlers<E>) {
    h.counter("count", |e| &e.receiver().count);
    h.read("burst", |e| e.receiver().burst.to_string());
    h.shared_read::<Batches>("batches", |b, _| Ok(b.table()));
    h.write("reset_counts", |e, _, _| {
        e.receiver().count.set(0);
        Ok(())
    });
    h.read("active", |e| e.receiver().active.to_string());
    h.write("active", |e, v, cx| {
        e.receiver_mut().active = v.trim().parse().map_err(|_| "syntax error".to_owned())?;
        cx.reschedule();
        Ok(())
    });
    h.sum("handed", |e| e.receiver().handed() as u64);
    h.list("lanes", |e| e.receiver().lanes());
    steering::handlers(h);
    h.read("mac", |e| {
        e.receiver().port().map_or_else(String::new, |p| lang::args::EtherAddr(p.mac()).to_string())
    });
    h.read("port", |e| e.receiver().port().map_or_else(String::new, port::describe));
    h.read("xstats", |e| e.receiver().port().map_or_else(String::new, port::xstats));
}
