//! A central scheduler, for adaptive single-path routing (RouteBricks, section 3.2): it sees all links of a
//! mesh.

use crate::shape::Shape;

/// The flows on each link.
#[derive(Debug)]
pub(crate) struct Scheduler {
    on: Vec<u32>,
    /// Flows that it has given a path, while packets are counted.
    pub(crate) decisions: u64,
}

/// The links of a path from one node to another, via a third one or, if that is the other one, not.
fn path(shape: &Shape, src: u16, dst: u16, via: u16) -> impl Iterator<Item = u32> {
    let second = (via != dst).then(|| shape.line(via, dst));
    std::iter::once(shape.line(src, via)).chain(second)
}

impl Scheduler {
    pub(crate) fn new(lines: usize) -> Self {
        Self { on: vec![0; lines], decisions: 0 }
    }

    /// Gives a flow the path whose fuller link has the fewest flows: the direct one if it is as good. Returns
    /// the node that its packets go to first.
    pub(crate) fn place(&mut self, shape: &Shape, ports: u16, src: u16, dst: u16) -> u16 {
        let load = |line: u32| self.on.get(line as usize).copied().unwrap_or(0);
        let fuller = |via: &u16| path(shape, src, dst, *via).map(load).max().unwrap_or(0);
        let others = (0..ports).filter(|via| *via != src && *via != dst);
        // The first of several that are as good.
        let via = std::iter::once(dst).chain(others).min_by_key(fuller).unwrap_or(dst);
        self.add(shape, (src, dst, via), 1);
        via
    }

    /// A flow has ended, or begins, on a path.
    pub(crate) fn add(&mut self, shape: &Shape, (src, dst, via): (u16, u16, u16), flows: i32) {
        for line in path(shape, src, dst, via) {
            if let Some(on) = self.on.get_mut(line as usize) {
                *on = on.saturating_add_signed(flows);
            }
        }
    }
}
