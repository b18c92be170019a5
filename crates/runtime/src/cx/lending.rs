//! Elements that are in the middle of a call and lend themselves to handlers.

use super::graph::{Cx, Lenders};
use dpdk::Batch;
use std::any::Any;
use std::cell::RefCell;

/// An element that is lent.
struct Lent<'e, 'o> {
    slot: u32,
    element: RefCell<&'e mut dyn Any>,
    outer: Option<&'o dyn Lenders>,
}

impl Lenders for Lent<'_, '_> {
    fn with(&self, slot: u32, f: &mut dyn FnMut(&mut dyn Any)) -> bool {
        if self.slot == slot
            && let Ok(mut element) = self.element.try_borrow_mut()
        {
            f(&mut **element);
            return true;
        }
        self.outer.is_some_and(|outer| outer.with(slot, f))
    }
}

impl Cx<'_> {
    /// Lends the calling element, `element`, to handlers while `f` runs: what `f` does may cause calls of the
    /// element's own handlers (a `COUNT_CALL` that runs a script, packets that are delivered or pulled
    /// meanwhile), and they act at once, as in Click. Afterwards the element must expect that its handlers
    /// have been called.
    pub fn lend<R>(&mut self, element: &mut dyn Any, f: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let lent = Lent { slot: self.me, element: RefCell::new(element), outer: self.lent };
        f(&mut Cx {
            graph: self.graph,
            core: &mut *self.core,
            me: self.me,
            base: self.base,
            lent: Some(&lent),
        })
    }
    /// [`Cx::pull`] by an element that lends itself meanwhile: a packet on its way up to here may cause calls
    /// of its handlers.
    pub fn pull_lending(&mut self, element: &mut dyn Any, port: usize, max: usize, out: &mut Batch) -> usize {
        self.lend(element, |cx| cx.pull(port, max, out))
    }
    /// [`Cx::flush`] of an element that lends itself meanwhile.
    pub fn flush_lending(&mut self, element: &mut dyn Any) {
        self.lend(element, |cx| cx.flush());
    }
}
