//! What every rewriter shares with elements that look after packets about its flows, or make flows for it.

use super::finds::Finds;
use super::headers::FlowId;
use super::input::Input;
use super::translator::{Admitted, Translator};
use std::sync::Arc;
use tables::flows::{Flows, Found, Key, Tuple};

/// What a rewriter publishes.
pub(crate) struct SharedRewriter {
    pub(crate) translator: Arc<Translator>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// An entry that belongs to packets with some addresses and ports.
pub(crate) struct Hit {
    pub(crate) key: Key,
    pub(crate) found: Found,
    /// What they get, in all parts.
    pub(crate) to: Tuple,
}

/// One worker's view of a rewriter.
pub(crate) struct View {
    shared: Arc<SharedRewriter>,
    version: u32,
    flows: Arc<Flows>,
    inputs: Arc<[Input]>,
}

impl View {
    pub(crate) fn of(shared: Arc<SharedRewriter>) -> Self {
        let version = shared.translator.version();
        let (flows, inputs) = (shared.translator.flows(), shared.translator.inputs());
        Self { shared, version, flows, inputs }
    }

    /// Before each batch: a hot swap or a handler may have changed something.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if self.version != self.shared.translator.version() {
            *self = Self::of(Arc::clone(&self.shared));
        }
    }

    pub(crate) fn translator(&self) -> &Translator {
        &self.shared.translator
    }
    fn finds(&self) -> Finds {
        self.shared.translator.finds()
    }

    /// The entry of packets of a protocol with these addresses and ports.
    pub(crate) fn find(&self, number: u8, tuple: Tuple) -> Option<Hit> {
        self.finds().keys(number, tuple).into_iter().flatten().find_map(|key| {
            let found = self.flows.get(&key)?;
            Some(Hit { key, found, to: self.finds().complete(&found, tuple) })
        })
    }

    /// The same; if there is none, an input makes it as for a packet.
    pub(crate) fn find_or_make(
        &self,
        number: u8,
        id: FlowId,
        input: usize,
        (now, random, mark): (u32, u64, u8),
    ) -> Option<Hit> {
        let tuple = id.to_tuple();
        if let Some(hit) = self.find(number, tuple) {
            return Some(hit);
        }
        let [key, _] = self.finds().keys(number, tuple);
        let key = key?;
        let inputs = &self.inputs;
        match self.translator().admit(&self.flows, inputs, input, &key, (now, random, mark)) {
            Admitted::Flow(found) => Some(Hit { key, found, to: self.finds().complete(&found, tuple) }),
            Admitted::Output(_) | Admitted::Dropped(_) => None,
        }
    }
}
