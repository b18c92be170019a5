//! What a `FromDevice` does with packets before it emits them, as its arguments say.

use crate::files::engine::link::{Link, force_ip};
use crate::prelude::*;

pub(in crate::devices) const ANOTHER_PROTOCOL: DropReason = DropReason::new("another protocol");

pub(in crate::devices) struct Screen {
    /// The length that packets are cut to.
    snaplen: Option<usize>,
    /// Whether only IP packets leave by the first output.
    force_ip: bool,
    /// The only EtherType, or 0.
    protocol: u16,
}

impl Screen {
    /// `None` if there is nothing to do.
    pub(in crate::devices) fn new(snaplen: Option<u32>, force_ip: bool, protocol: u16) -> Option<Self> {
        let snaplen = snaplen.map(|snaplen| snaplen as usize);
        (snaplen.is_some() || force_ip || protocol != 0).then_some(Self { snaplen, force_ip, protocol })
    }

    /// Leaves in the batch what goes to the first output.
    pub(in crate::devices) fn apply(&self, batch: &mut Batch, cx: &mut Cx<'_>) {
        batch.filter_map_in_place(|mut packet| {
            let protocol = packet.data().get(12..14).and_then(|field| field.first_chunk());
            if self.protocol != 0 && protocol.is_none_or(|field| u16::from_be_bytes(*field) != self.protocol)
            {
                cx.drop(packet, ANOTHER_PROTOCOL);
                return None;
            }
            let surplus = self.snaplen.map_or(0, |most| packet.len().saturating_sub(most));
            if surplus > 0 {
                packet.take(surplus);
                packet.set_extra_length(packet.extra_length().saturating_add(surplus as u32));
            }
            if !self.force_ip || force_ip(&mut packet, Link::ETHER) {
                return Some(packet);
            }
            match cx.n_outputs() {
                2 => cx.output(1, packet),
                _ => cx.drop(packet, drops::NO_IP_HEADER),
            }
            None
        });
    }
}
