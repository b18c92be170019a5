//! The receive queues that are for one interface alone, or for one router.

use super::Host;
use crate::board::{Change, NOBODY};
use crate::setup::{Connection, InterfaceSetup};
use demux::Tag;
use dpdk::{SteerRule, SteerTag};
use std::collections::BTreeMap;
use tracing::warn;

impl Host {
    /// Gives an interface all frames of a receive queue.
    pub(super) fn give_queue(&mut self, number: usize, queue: u16, owner: u32) -> Result<(), String> {
        let looks =
            |setup: &InterfaceSetup| matches!(setup.below, Connection::Port(port, _) if port == number);
        let others = self.routers.values().any(|hosted| hosted.setup.interfaces.iter().any(looks));
        let threads = self.crew.threads();
        let Some(Some(port)) = self.ports.get_mut(number) else { return Ok(()) };
        let (name, has) = (&port.name, port.owners.len());
        let looked_at = port.owners.iter().filter(|owner| owner.is_none()).count();
        let Some(place) = port.owners.get_mut(usize::from(queue)) else {
            return Err(format!(
                "{name}: there is no receive queue {queue}: the port was opened with {has}, counted from 0; if the \
                 device has more, stop the host and start it again, so that they are opened"
            ));
        };
        if place.is_some_and(|owner| owner != NOBODY) {
            return Err(format!("{name}: the receive queue {queue} is another interface's already"));
        }
        let several = port.port.device_queues(queue);
        if several > 1 {
            return Err(format!(
                "{name}: {has} receive queues are opened, and the device has more, so that queue {queue} stands for \
                 {several} of them; give the device {has}: `ethtool -L {} combined {has}`",
                port.port.name()
            ));
        }
        if others && looked_at == 1 && place.is_none() {
            return Err(format!(
                "{name}: the receive queue {queue} is the last one for other interfaces; stop the host and start it \
                 again, so that there is another one"
            ));
        }
        *place = Some(owner);
        let (thread, at) = (usize::from(queue) % threads, usize::from(queue) / threads);
        self.boards[thread].post(Change::Frames(number, at, owner));
        self.crew.wake();
        Ok(())
    }

    /// The frames of receive queues that were an interface's are nobody's: it may come again, and they are
    /// not for others.
    pub(super) fn take_frames_from(&mut self, owner: u32) {
        let threads = self.crew.threads();
        for (number, port) in self.ports.iter_mut().enumerate() {
            for (queue, place) in port.iter_mut().flat_map(|port| port.owners.iter_mut().enumerate()) {
                if *place == Some(owner) {
                    *place = Some(NOBODY);
                    self.boards[queue % threads].post(Change::Frames(number, queue / threads, NOBODY));
                }
            }
        }
    }

    /// Whether an interface's packets have receive queues of their own.
    pub(super) fn has_own_queue(&self, interface: &InterfaceSetup, router: u32) -> bool {
        let port = interface.port().and_then(|port| self.ports.get(port)?.as_ref());
        port.is_some_and(|port| port.own.of(router).is_some())
    }

    /// Distributes the receive queues of ports that have some for one router each, and tells ports which
    /// frames are put into which; `period`: one has passed. Whatever queue a frame is in, it reaches its
    /// router.
    pub(super) fn distribute_queues(&mut self, period: bool) {
        for (number, port) in self.ports.iter_mut().enumerate() {
            let Some(port) = port.as_mut().filter(|port| !port.own.queues().is_empty()) else { continue };
            let (mut packets, mut owners, mut rest) = (Vec::new(), BTreeMap::new(), None);
            for hosted in self.routers.values() {
                let Some(running) = &hosted.running else { continue };
                let both = hosted.setup.interfaces.iter().zip(&running.interfaces);
                let mut here = both.filter(|(setup, _)| setup.port() == Some(number)).peekable();
                if here.peek().is_none() {
                    continue;
                }
                let mut sum = 0;
                for (setup, attached) in here {
                    let stats = attached.port.stats();
                    sum += stats.rx_packets + stats.rx_missed;
                    owners.insert(attached.owner, running.number);
                    if setup.default || matches!(setup.below, Connection::WholePort(_)) {
                        rest = Some(running.number);
                    }
                }
                packets.push((running.number, sum));
            }
            if period {
                // Asks the kernel what the queues have lost.
                let _ = port.port.stats();
            }
            let before = port.own.queues().to_vec();
            port.own.distribute(&packets, period);
            for (queue, (had, has)) in before.iter().zip(port.own.queues()).enumerate() {
                if had != has {
                    self.boards.iter().for_each(|board| board.post(Change::Queue(number, queue, *has)));
                }
            }
            if period && before == port.own.queues() {
                continue;
            }
            let group = |router: u32| port.own.of(router).map_or(0, |queue| queue as u16 + 1);
            let claims = port.table.claims();
            let mut rules: Vec<SteerRule> = (claims.chunk_by(|a, b| a.0.tag == b.0.tag))
                .flat_map(|same| {
                    // An owner alone gets all frames with its tag.
                    let alone = same.iter().all(|(_, owner)| *owner == same[0].1);
                    same.iter().filter_map(move |(claim, owner)| {
                        Some((steer_tag(claim.tag)?, claim.mac.filter(|_| !alone), *owner))
                    })
                })
                .filter_map(|(tag, mac, owner)| {
                    Some(SteerRule { tag, mac, group: group(*owners.get(&owner)?) })
                })
                .collect();
            let rest = rest.map(|router| SteerRule { tag: SteerTag::Rest, mac: None, group: group(router) });
            rules.extend(rest);
            if let Err(e) = port.port.steer(&rules) {
                warn!(target: "vr", "{}: {e}", port.name);
            }
        }
        self.crew.wake();
    }

    /// A router that ends has no receive queues any more.
    pub(super) fn take_queues_from(&mut self, router: u32) {
        for (number, port) in self.ports.iter_mut().enumerate() {
            let Some(queue) = port.as_mut().and_then(|port| port.own.take_from(router)) else { continue };
            self.boards.iter().for_each(|board| board.post(Change::Queue(number, queue, None)));
        }
    }
}

/// A tag as ports know it; none: they cannot tell it.
fn steer_tag(tag: Tag) -> Option<SteerTag> {
    match tag {
        Tag::None => Some(SteerTag::Untagged),
        Tag::Vlan(id) => Some(SteerTag::Vlan(id)),
        Tag::Qinq(outer, inner) => Some(SteerTag::Qinq(outer, inner)),
        Tag::Mpls(label) => Some(SteerTag::Mpls(label)),
        Tag::Vni(_) => None,
    }
}
