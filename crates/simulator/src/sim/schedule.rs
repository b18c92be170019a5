//! Single-path routing, which RouteBricks rejects (section 3.2): by the direct link, or as a central scheduler
//! says that sees all links.

use super::Sim;
use crate::config::SinglePath;
use cluster::{Choice, NodeId};

/// The state of a central scheduler.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// Flows on each line.
    on: Vec<u32>,
    /// Flows that it has given a path, while packets are counted.
    pub(super) decisions: u64,
}

impl Scheduler {
    pub(super) fn new(lines: usize) -> Self {
        Self { on: vec![0; lines], decisions: 0 }
    }

    fn load(&self, line: u32) -> u32 {
        self.on.get(line as usize).copied().unwrap_or(0)
    }

    fn add(&mut self, line: u32, flows: i32) {
        if let Some(on) = self.on.get_mut(line as usize) {
            *on = on.saturating_add_signed(flows);
        }
    }
}

impl Sim {
    /// The lines of a path from one node to another, via a third one or not.
    fn lines_of(&self, src: u16, dst: u16, via: u16) -> impl Iterator<Item = u32> + use<> {
        let second = (via != dst).then(|| self.shape.line(via, dst));
        [self.shape.line(src, via)].into_iter().chain(second)
    }

    /// The only path of a flow's packets; none: the nodes balance them.
    pub(super) fn single_path(&mut self, src: u16, dst: u16, flow: u32, counting: bool) -> Option<Choice> {
        let how = self.config.single_path.filter(|_| src != dst)?;
        if how == SinglePath::Static {
            return Some(Choice::Direct);
        }
        let via = match self.flows[flow].via {
            Some(via) => via,
            None => self.place(src, dst, flow, counting),
        };
        Some(if via == dst { Choice::Direct } else { Choice::Via(NodeId(via)) })
    }

    /// Gives a flow the path whose fuller link has the fewest flows: the direct one if it is as good.
    fn place(&mut self, src: u16, dst: u16, flow: u32, counting: bool) -> u16 {
        let fuller =
            |via: u16| self.lines_of(src, dst, via).map(|line| self.scheduler.load(line)).max().unwrap_or(0);
        let others = (0..self.config.ports).filter(|via| *via != src && *via != dst);
        // The first of several that are as good.
        let via = std::iter::once(dst).chain(others).min_by_key(|via| fuller(*via)).unwrap_or(dst);
        self.flows[flow].via = Some(via);
        self.lines_of(src, dst, via).for_each(|line| self.scheduler.add(line, 1));
        self.scheduler.decisions += u64::from(counting);
        via
    }

    /// A flow has ended.
    pub(super) fn unplace(&mut self, src: u16, dst: u16, flow: u32) {
        if let Some(via) = self.flows[flow].via {
            self.lines_of(src, dst, via).for_each(|line| self.scheduler.add(line, -1));
        }
    }
}
