//! What receives and sends for the virtual routers of one thread.

use crate::board::{Below, Board, Change, Interface, NOBODY};
use crate::outgoing::BURST;
use crate::side::{OwnQueue, Side};
use dpdk::{Batch, Packet};
use runtime::{Flushed, Soon};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Arc;

/// All physical ports, and the virtual interfaces on them, on one thread.
pub(crate) struct SharedPorts {
    /// By the number of the port; none: it is not open.
    sides: Vec<Option<Side>>,
    board: Arc<Board>,
    /// By the number of their frames' owner.
    interfaces: Vec<Option<Interface>>,
    /// The owner numbers of each router's interfaces, by its number.
    of_router: Vec<Vec<u32>>,
    /// The owner numbers at the ends of each virtual link.
    links: HashMap<u32, [Option<u32>; 2]>,
    sent: Batch,
    /// Whether any port has queues for one router each.
    has_own_queues: bool,
    /// When these were looked at, in cycles.
    looked: u64,
    /// Whether a router that has a whole port gets the port's queues themselves.
    lends: bool,
    /// See [`runtime::Front::longest_queue`] and [`runtime::Front::receives`].
    longest: usize,
    receives: bool,
}

/// How often queues for one router each are looked at for what they have lost, in cycles: about 0.1 s.
const LOOK: u64 = 1 << 28;

/// Counts what the port has lost before a router's own queue, at the router's first interface on it.
#[cold]
fn count_losses(own: &OwnQueue, port: usize, of_router: &[Vec<u32>], interfaces: &[Option<Interface>]) {
    let lost = own.newly_lost();
    let Some(owners) = own.router.and_then(|router| of_router.get(router as usize)) else { return };
    let all = owners.iter().filter_map(|owner| interfaces.get(*owner as usize)?.as_ref());
    let mut here = all.filter(|one| matches!(one.below, Below::Port(at, _) if at == port));
    if let Some(interface) = here.next() {
        interface.queues.count_lost(lost);
    }
}

fn has_own_queues(sides: &[Option<Side>]) -> bool {
    sides.iter().flatten().any(|side| !side.own.is_empty())
}

/// With packets for more interfaces than this, their queues are fetched first.
const FEW: usize = 2;

/// The most packets that are taken for one turn of a router from its own receive queue.
const FETCHED: usize = 3 * BURST;

/// Gives packets to a virtual interface. Returns how many wait there then.
#[inline]
fn give(
    side: &mut Side,
    interfaces: &mut [Option<Interface>],
    owner: u32,
    batch: &mut Batch,
    woken: &mut Vec<u32>,
) -> usize {
    // Whoever has just been removed gets nothing more.
    let Some(Some(interface)) = interfaces.get_mut(owner as usize) else { return 0 };
    let put = interface.queues.put_within(side.room(), batch);
    interface.queues.lose(batch);
    side.waiting += put;
    interface.waiting += put;
    woken.push(interface.router);
    interface.waiting
}

/// Receives from the queues whose frames are all one interface's, and gives them to it. Returns how many
/// came, and how many packets wait at the interface that has most.
fn receive_for_owners(
    side: &mut Side,
    interfaces: &mut [Option<Interface>],
    woken: &mut Vec<u32>,
) -> (usize, usize) {
    let (mut received, mut longest) = (0, 0);
    for queue in 0..side.receive_queues() {
        let Some(owner) = side.owner(queue) else { continue };
        let n = side.receive_from(queue);
        if owner == NOBODY {
            side.reader.drop_all(&mut side.received);
        } else if n > 0 {
            received += n;
            let mut batch = std::mem::take(&mut side.received);
            longest = longest.max(give(side, interfaces, owner, &mut batch, woken));
            batch.clear();
            side.received = batch;
        }
    }
    (received, longest)
}

/// Gives what was received to the virtual interfaces. Returns how many packets wait at the one that has most.
fn distribute(side: &mut Side, interfaces: &mut [Option<Interface>], woken: &mut Vec<u32>) -> usize {
    let mut longest = 0;
    side.reader.split(&mut side.received, &mut side.sorted);
    if side.sorted.len() > FEW {
        for (owner, _) in side.sorted.iter_mut() {
            known(interfaces, owner).into_iter().for_each(|interface| interface.queues.prefetch_to());
        }
        for (owner, _) in side.sorted.iter_mut() {
            known(interfaces, owner).into_iter().for_each(|interface| interface.queues.prefetch_end());
        }
    }
    let mut sorted = std::mem::take(&mut side.sorted);
    for (owner, batch) in sorted.iter_mut() {
        longest = longest.max(give(side, interfaces, owner, batch, woken));
    }
    sorted.clear();
    side.sorted = sorted;
    longest
}

impl SharedPorts {
    pub(crate) fn new(sides: Vec<Option<Side>>, board: Arc<Board>, lends: bool) -> Self {
        let has_own_queues = has_own_queues(&sides);
        Self {
            lends,
            has_own_queues,
            looked: dpdk::cycles(),
            sides,
            board,
            interfaces: Vec::new(),
            of_router: Vec::new(),
            links: HashMap::new(),
            longest: 0,
            receives: true,
            sent: Batch::with_capacity(BURST),
        }
    }

    #[cold]
    fn change(&mut self, news: Vec<Change>) {
        for change in news {
            match change {
                Change::Add(owner, interface) => {
                    let at = owner as usize;
                    if self.interfaces.len() <= at {
                        self.interfaces.resize_with(at + 1, || None);
                    }
                    let router = interface.router as usize;
                    if self.of_router.len() <= router {
                        self.of_router.resize_with(router + 1, Vec::new);
                    }
                    self.of_router[router].push(owner);
                    if let Below::Link(link, end) = interface.below {
                        self.links.entry(link).or_default()[end] = Some(owner);
                    }
                    self.interfaces[at] = Some(interface);
                }
                Change::Open(port, side) => {
                    if let Some(place) = self.sides.get_mut(port) {
                        *place = Some(*side);
                    }
                    self.has_own_queues = has_own_queues(&self.sides);
                }
                Change::Queue(port, queue, router) => {
                    let side = self.sides.get_mut(port).and_then(Option::as_mut);
                    if let Some(own) = side.and_then(|side| side.own.get_mut(queue)) {
                        own.router = router;
                    }
                }
                Change::Frames(port, queue, owner) => {
                    if let Some(Some(side)) = self.sides.get_mut(port) {
                        side.set_owner(queue, Some(owner));
                    }
                }
                Change::Close(port) => {
                    // What waits to be sent may still go.
                    if let Some(mut side) = self.sides.get_mut(port).and_then(Option::take) {
                        side.flush();
                    }
                }
                Change::Remove(router) => {
                    for owner in
                        self.of_router.get_mut(router as usize).map(std::mem::take).unwrap_or_default()
                    {
                        let gone = self.interfaces[owner as usize].take();
                        if let Some(Below::Port(at, _) | Below::Whole(at)) =
                            gone.as_ref().map(|gone| &gone.below)
                            && let Some(Some(side)) = self.sides.get_mut(*at)
                        {
                            side.forget(owner);
                            side.waiting -= gone.as_ref().map_or(0, |gone| gone.waiting).min(side.waiting);
                        }
                        if let Some(gone) = &gone
                            && let Below::Whole(number) = gone.below
                            && let Some(side) = self.sides.get_mut(number).and_then(Option::as_mut)
                            && side.lent == Some(owner)
                        {
                            side.take_back(&gone.queues);
                        }
                        if let Some(Below::Link(link, end)) = gone.map(|gone| gone.below)
                            && let Some(ends) = self.links.get_mut(&link)
                        {
                            ends[end] = None;
                        }
                    }
                }
            }
        }
    }
}

/// An interface, by its number.
#[inline]
fn known(interfaces: &[Option<Interface>], owner: u32) -> Option<&Interface> {
    interfaces.get(owner as usize)?.as_ref()
}

/// Sends an interface's packets by a physical port, if that is open.
#[inline]
fn send(sides: &mut [Option<Side>], port: usize, owner: u32, interface: &Interface, batch: &mut Batch) {
    if let Some(Some(side)) = sides.get_mut(port) {
        let lost = side.send(owner, &interface.outlet, batch);
        interface.queues.count_unsent(lost);
    }
}

/// Lends a port's queues to the router that has the whole port, from its next run on; takes them back if
/// somebody else claims a part of it.
fn lend(interfaces: &[Option<Interface>], number: usize, side: &mut Side) {
    // One with a rate sends by its queue.
    let without_rate = |owner: &u32| !known(interfaces, *owner).is_some_and(|one| one.outlet.has_rate());
    let whole = side.reader.whole().filter(without_rate);
    if side.lent == whole {
        return;
    }
    if let Some(before) = side.lent.and_then(|owner| known(interfaces, owner)) {
        side.take_back(&before.queues);
    }
    if let Some(owner) = whole
        && let Some(interface) = known(interfaces, owner)
        && matches!(interface.below, Below::Whole(port) if port == number)
    {
        side.lend(owner, &interface.queues);
    }
}

impl runtime::Front for SharedPorts {
    fn receive(&mut self, woken: &mut Vec<u32>) -> usize {
        let news = self.board.news();
        if !news.is_empty() {
            self.change(news);
        }
        let mut received = 0;
        let now = dpdk::cycles();
        let look = self.has_own_queues && now.wrapping_sub(self.looked) > LOOK;
        if look {
            self.looked = now;
        }
        self.receives = false;
        for (number, side) in self.sides.iter_mut().enumerate() {
            let Some(side) = side else { continue };
            // Whoever changes the table keeps the old one until all have seen the new one.
            side.reader.refresh();
            if self.lends && (side.lent.is_some() || side.reader.whole().is_some()) {
                lend(&self.interfaces, number, side);
            }
            if let Some(owner) = side.lent {
                // It looks for packets itself.
                woken.extend(known(&self.interfaces, owner).map(|interface| interface.router));
                continue;
            }
            self.receives = true;
            if side.has_owners {
                let (n, longest) = receive_for_owners(side, &mut self.interfaces, woken);
                received += n;
                self.longest = self.longest.max(longest);
            }
            let mut n = side.receive();
            for queue in 0..side.own.len() {
                let own = &side.own[queue];
                if look {
                    count_losses(own, number, &self.of_router, &self.interfaces);
                }
                match own.router {
                    // It takes its packets itself, when it is its turn.
                    Some(router) if own.may_have_waiting() => woken.push(router),
                    // An empty ring is looked at, so that one that the kernel does not fill any more is
                    // renewed.
                    Some(_) if look => n += side.receive_own(queue, BURST),
                    Some(_) => {}
                    // What is left of a router that has gone.
                    None if look => n += side.receive_own(queue, BURST),
                    None => {}
                }
            }
            if n == 0 {
                continue;
            }
            received += n;
            self.longest = self.longest.max(distribute(side, &mut self.interfaces, woken));
        }
        received
    }

    fn receives(&self) -> bool {
        self.receives
    }

    fn waiting(&self) -> usize {
        self.sides.iter().flatten().map(|side| side.waiting).sum()
    }

    fn longest_queue(&mut self) -> usize {
        std::mem::take(&mut self.longest)
    }

    fn fetch(&mut self, router: u32, woken: &mut Vec<u32>) {
        if !self.has_own_queues {
            return;
        }
        let Some(owners) = self.of_router.get(router as usize) else { return };
        let ports = owners.iter().filter_map(|owner| known(&self.interfaces, *owner));
        let waiting: usize = ports.map(|interface| interface.queues.waiting()).sum();
        let mut room = FETCHED.saturating_sub(waiting);
        for side in self.sides.iter_mut().flatten() {
            for queue in 0..side.own.len() {
                if side.own[queue].router != Some(router) {
                    continue;
                }
                let n = side.receive_own(queue, room);
                if n > 0 {
                    room = room.saturating_sub(n);
                    // What another router's frames were in it for, for a moment, goes to that one.
                    distribute(side, &mut self.interfaces, woken);
                }
            }
        }
        // It runs now in any case.
        woken.retain(|woken| *woken != router);
    }

    fn prefetch(&self, router: u32, what: Soon) {
        let owners = self.of_router.get(router as usize).map_or(&[][..], Vec::as_slice);
        for interface in owners.iter().filter_map(|owner| known(&self.interfaces, *owner)) {
            match what {
                Soon::Queues => {
                    interface.queues.prefetch();
                    dpdk::prefetch(&*interface.outlet, 1);
                }
                Soon::Lists if interface.waiting > 0 => interface.queues.prefetch_list(),
                Soon::Packets if interface.waiting > 0 => interface.queues.prefetch_packets(BURST),
                Soon::Lists | Soon::Packets => {}
            }
        }
    }

    fn collect(&mut self, router: u32, woken: &mut Vec<u32>) {
        let Some(owners) = self.of_router.get(router as usize) else { return };
        for owner in owners {
            let Some(Some(interface)) = self.interfaces.get_mut(*owner as usize) else { continue };
            // What it has not taken still waits.
            let taken = interface.waiting - interface.queues.waiting().min(interface.waiting);
            if taken > 0
                && let Below::Port(side, _) | Below::Whole(side) = interface.below
                && let Some(Some(side)) = self.sides.get_mut(side)
            {
                interface.waiting -= taken;
                side.waiting -= taken.min(side.waiting);
            }
            let Some(interface) = known(&self.interfaces, *owner) else { continue };
            while interface.queues.take(BURST, &mut self.sent) > 0 {
                match &interface.below {
                    Below::Port(side, encap) => {
                        let given = self.sent.len();
                        encap.put_on(&mut self.sent);
                        interface.queues.count_unsent(given - self.sent.len());
                        send(&mut self.sides, *side, *owner, interface, &mut self.sent);
                    }
                    Below::Whole(side) => {
                        send(&mut self.sides, *side, *owner, interface, &mut self.sent);
                    }
                    Below::Link(link, end) => {
                        let peer = self.links.get(link).and_then(|ends| ends[1 - end]);
                        let peer = peer.and_then(|peer| self.interfaces.get(peer as usize)?.as_ref());
                        if let Some(peer) = peer {
                            // What one router has noted on its packets is not for the other.
                            self.sent.iter_mut().for_each(Packet::forget_annotations);
                            peer.queues.put(&mut self.sent);
                            peer.queues.lose(&mut self.sent);
                            woken.push(peer.router);
                        }
                    }
                    Below::Nothing => {}
                }
                // An interface that is connected to nothing.
                interface.queues.count_unsent(self.sent.len());
                self.sent.clear();
            }
        }
    }

    fn flush(&mut self) -> Flushed {
        let mut all = Flushed::Nothing;
        for side in self.sides.iter_mut().flatten() {
            match side.flush() {
                Flushed::Some => all = Flushed::Some,
                Flushed::Blocked if all == Flushed::Nothing => all = Flushed::Blocked,
                Flushed::Blocked | Flushed::Nothing => {}
            }
        }
        all
    }

    fn descriptors(&self) -> Option<Vec<RawFd>> {
        let all: Option<Vec<_>> = self.sides.iter().flatten().map(Side::descriptors).collect();
        all.map(|all| all.concat())
    }
}
