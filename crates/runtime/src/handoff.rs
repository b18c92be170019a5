//! Sends packets of other workers to an element that exists on only one worker.

use crate::cx::{Cx, Node};
use crate::facts::DropReason;
use crate::hub::Hub;
use dpdk::Batch;
use std::any::Any;
use std::sync::Arc;

/// Takes an element's place on workers that do not have it: sends packets to the worker that has it.
pub(crate) struct Forwarder {
    hub: Arc<Hub>,
    element: Arc<str>,
    home: usize,
}

impl Forwarder {
    pub(crate) fn new(hub: &Arc<Hub>, element: &str, home: usize) -> Self {
        Self { hub: Arc::clone(hub), element: element.into(), home }
    }
}

impl Node for Forwarder {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.hub.hand_off(self.home, &self.element, port, &mut batch);
        cx.drop_batch(batch, DropReason::HANDOFF_FULL);
    }
    fn pull(&mut self, _port: usize, _max: usize, _out: &mut Batch, _cx: &mut Cx<'_>) {}
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Ok(())
    }
    fn run_task(&mut self, _cx: &mut Cx<'_>) -> bool {
        false
    }
    fn run_timer(&mut self, _id: u32, _cx: &mut Cx<'_>) {}
    fn take_state(&mut self, _old: &mut dyn Node, _cx: &mut Cx<'_>) {}
    fn element(&mut self) -> &mut dyn Any {
        self
    }
}
