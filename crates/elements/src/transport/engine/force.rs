//! Code that ForceICMP, ForceTCP and ForceUDP share: the payload of a packet that has room for the header,
//! and what happens to other packets.

use super::datagram::{Datagram, payload_mut};
use crate::prelude::*;

const BAD_LENGTHS: DropReason = DropReason::new("bad lengths");

/// The drop reason of the three.
pub(in crate::transport) const CASES: [DropCase; 1] = [BAD_LENGTHS
    .when("no IP header is marked, the IP payload is too short for the header, or it is not all there")];

/// Changes the IP payload of a packet, which has at least `least` bytes, and is given the sum of the
/// pseudo-header; drops a packet that has none.
pub(in crate::transport) fn change(
    mut packet: Packet,
    least: usize,
    cx: &mut Cx<'_>,
    change: impl FnOnce(&mut [u8], u16, &mut Cx<'_>),
) -> Option<Packet> {
    let found = Datagram::of(&packet).and_then(|d| d.payload_len().map(|len| (len, d.pseudo_sum(len))));
    let payload = found.and_then(|(len, sum)| Some((payload_mut(&mut packet, len.into())?, sum)));
    if let Some((payload, sum)) = payload.filter(|(payload, _)| payload.len() >= least) {
        change(payload, sum, cx);
        return Some(packet);
    }
    cx.log(Level::WARN, &format!("{}: bad lengths", cx.class()));
    cx.drop(packet, BAD_LENGTHS);
    None
}
