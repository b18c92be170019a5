//! Single-path routing, which RouteBricks rejects (section 3.2): by the direct link, or as a central
//! scheduler says.

use super::Sim;
use crate::config::SinglePath;
use cluster::{Choice, NodeId};

impl Sim {
    /// The only path of a flow's packets; none: the nodes balance them.
    pub(super) fn single_path(&mut self, src: u16, dst: u16, flow: u32, counting: bool) -> Option<Choice> {
        let how = self.config.single_path.filter(|_| src != dst)?;
        if how == SinglePath::Static {
            return Some(Choice::Direct);
        }
        let via = match self.flows[flow].via {
            Some(via) => via,
            None => {
                let via = self.scheduler.place(&self.shape, self.config.ports, src, dst);
                self.scheduler.decisions += u64::from(counting);
                self.flows[flow].via = Some(via);
                via
            }
        };
        Some(if via == dst { Choice::Direct } else { Choice::Via(NodeId(via)) })
    }

    /// A flow has ended.
    pub(super) fn release(&mut self, src: u16, dst: u16, flow: u32) {
        if let Some(via) = self.flows[flow].via {
            self.scheduler.add(&self.shape, (src, dst, via), -1);
        }
    }
}
