//! The optimiser: runs of elements that are executed as one.
//!
//! A *chain* is a run of elements, each connected to the next from output 0 (of a classifier: from any output) to input 0,
//! whose classes somebody has registered together ([`crate::Registry::fuse`]). A packet for which every element of the chain
//! does what it usually does goes through all of them in one loop, compiled for just these classes, without being staged and
//! dispatched between them. From the first packet that is not usual (a bad header, an expired TTL, an unknown neighbour) the
//! rest of the vector takes the elements one by one, as it would without the optimiser.
//!
//! The graph stays as it is. Every element keeps its place, name, state, handlers and counters; a chain only borrows them.
//! So handlers work, drops are counted where they happen, and a hot swap changes between optimised and plain routers. What
//! can be told apart is the order in which elements see a packet that comes back by a side output into its own chain, and
//! cycles, which are shared out evenly among a chain's elements.

use crate::class::Class;
use crate::cx::Cx;
use crate::element::{Element, Node, Sharing};
use crate::ports::{Kind, Sides};
use dpdk::{Batch, Packet};
use lang::Config;
use std::cell::RefMut;

/// The most elements in a chain.
pub(crate) const LONGEST: usize = 8;

/// What an element does to most packets: change them and let them go by output 0.
///
/// The element's general path ([`crate::Simple::packet`], [`crate::Vector::push`]) must do exactly the same to such packets.
pub trait Step: Element {
    /// The element chooses an output for each packet, and a chain may go on at any of them: [`Step::step_to`] is used, and it is
    /// `true` for exactly those packets that leave by the output.
    const CHOOSES: bool = false;

    /// Prepares for a vector: reads the clock, looks whether a copy of shared state is still good.
    #[inline]
    fn ready(&mut self, _cx: &mut Cx<'_>) {}

    /// Does what the element does to a usual packet and returns `true`: the packet leaves by output 0. Or returns `false`,
    /// and nothing has changed: the packet needs the general path.
    fn step(&mut self, packet: &mut Packet) -> bool;

    /// [`Step::step`] for a packet that leaves by this output, for elements that choose one.
    #[inline]
    fn step_to(&mut self, packet: &mut Packet, output: usize) -> bool {
        output == 0 && self.step(packet)
    }
}

/// How far a chain got: so many packets are through, and the next one through so many of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    pub(crate) packets: usize,
    pub(crate) elements: usize,
}

/// The elements of a chain, borrowed for one vector.
pub struct Members<'a, 'b>(pub(crate) &'a mut [Option<RefMut<'b, Box<dyn Node>>>]);

pub(crate) type Part = fn(&mut Members<'_, '_>, usize, u16, &mut Batch, &mut Batch);
pub(crate) type Run = fn(&mut Members<'_, '_>, &[u16], &mut [Packet], &mut Cx<'_>) -> Reached;

/// Classes that follow each other, as a tuple of element types.
pub trait Chain: 'static {
    /// The names of the classes.
    fn classes() -> Vec<&'static str>;
    /// See [`Step::CHOOSES`].
    fn choosing() -> Vec<bool>;
    /// Takes the packets that do not leave element `k`, which chooses outputs, by `output` out of `packets`.
    fn part(members: &mut Members<'_, '_>, k: usize, output: u16, packets: &mut Batch, others: &mut Batch);
    /// Takes packets, from the first on, through all elements, until one needs the general path. `outputs` says where the chain
    /// leaves each element.
    fn run(
        members: &mut Members<'_, '_>,
        outputs: &[u16],
        packets: &mut [Packet],
        cx: &mut Cx<'_>,
    ) -> Reached;
}

macro_rules! chain {
    ($($name:ident $type:ident),+) => {
        impl<$($type: Step),+> Chain for ($($type,)+) {
            fn classes() -> Vec<&'static str> {
                vec![$($type::CLASS),+]
            }
            fn choosing() -> Vec<bool> {
                vec![$($type::CHOOSES),+]
            }
            fn part(
                members: &mut Members<'_, '_>,
                k: usize,
                output: u16,
                packets: &mut Batch,
                others: &mut Batch,
            ) {
                let [$(Some($name)),+] = &mut *members.0 else { return };
                let mut at = 0;
                $(
                    if $type::CHOOSES
                        && at == k
                        && let Some(element) = $name.element().downcast_mut::<$type>()
                    {
                        packets.filter_map_in_place(|mut packet| {
                            if element.step_to(&mut packet, output.into()) {
                                return Some(packet);
                            }
                            others.push(packet);
                            None
                        });
                    }
                    at += 1;
                )+
                let _ = (at, k);
            }
            fn run(
                members: &mut Members<'_, '_>,
                outputs: &[u16],
                packets: &mut [Packet],
                cx: &mut Cx<'_>,
            ) -> Reached {
                let [$(Some($name)),+] = &mut *members.0 else { return Reached::NOWHERE };
                let ($(Some($name),)+) = ($($name.element().downcast_mut::<$type>(),)+) else {
                    return Reached::NOWHERE;
                };
                $($name.ready(cx);)+
                for (done, packet) in packets.iter_mut().enumerate() {
                    let mut passed = 0;
                    $(
                        let usual = match $type::CHOOSES {
                            true => $name.step_to(packet, outputs.get(passed).map_or(0, |o| usize::from(*o))),
                            false => $name.step(packet),
                        };
                        if !usual {
                            return Reached { packets: done, elements: passed };
                        }
                        passed += 1;
                    )+
                    let _ = passed;
                }
                Reached { packets: packets.len(), elements: 0 }
            }
        }
    };
}

chain!(a A, b B);
chain!(a A, b B, c C);
chain!(a A, b B, c C, d D);
chain!(a A, b B, c C, d D, e E);
chain!(a A, b B, c C, d D, e E, f F);
chain!(a A, b B, c C, d D, e E, f F, g G);
chain!(a A, b B, c C, d D, e E, f F, g G, h H);

impl Reached {
    pub(crate) const NOWHERE: Self = Self { packets: 0, elements: 0 };
}

/// Classes that can be executed as one.
#[derive(Clone)]
pub(crate) struct Fusion {
    classes: Vec<&'static str>,
    choosing: Vec<bool>,
    part: Part,
    run: Run,
}

impl Fusion {
    pub(crate) fn of<C: Chain>() -> Self {
        let classes = C::classes();
        debug_assert!(classes.len() <= LONGEST);
        Self { classes, choosing: C::choosing(), part: C::part, run: C::run }
    }
}

/// A chain in a graph, at its first element.
#[derive(Clone)]
pub(crate) struct Fused {
    /// The slots of its elements.
    pub(crate) members: Box<[u32]>,
    /// Where the chain leaves each of them.
    pub(crate) outputs: Box<[u16]>,
    pub(crate) choosing: Box<[bool]>,
    pub(crate) part: Part,
    pub(crate) run: Run,
}

/// The longest chain that begins at each element, if one does.
///
/// Chains may overlap: two interfaces that lead to one header check have a chain each, with the check in both.
pub(crate) fn find(
    config: &Config,
    classes: &[Class],
    sides: &[Sides],
    fusions: &[Fusion],
) -> Vec<Option<Fused>> {
    // Where packets go from each output that pushes to an input 0: (output, element), by output.
    let mut next: Vec<Vec<(usize, usize)>> = vec![Vec::new(); classes.len()];
    for c in &config.connections {
        let pushed = sides[c.from.element].outputs.get(c.from.port) == Some(&Kind::Push);
        if c.to.port == 0 && pushed {
            next[c.from.element].push((c.from.port, c.to.element));
        }
    }
    next.iter_mut().for_each(|n| n.sort_unstable());
    let along = |head: usize, fusion: &Fusion| -> Option<Fused> {
        let mut members: Vec<u32> = Vec::with_capacity(fusion.classes.len());
        let mut outputs: Vec<u16> = Vec::with_capacity(fusion.classes.len());
        let mut at = head;
        for (i, class) in fusion.classes.iter().enumerate() {
            let known = &classes[at];
            if known.name != *class || known.sharing == Sharing::Single || members.contains(&(at as u32)) {
                return None;
            }
            members.push(at as u32);
            let wanted = fusion.classes.get(i + 1);
            let (output, to) = next[at].iter().find(|(output, to)| {
                (*output == 0 || fusion.choosing[i]) && wanted.is_none_or(|w| classes[*to].name == *w)
            })?;
            outputs.push(*output as u16);
            at = *to;
        }
        Some(Fused {
            members: members.into(),
            outputs: outputs.into(),
            choosing: fusion.choosing.as_slice().into(),
            part: fusion.part,
            run: fusion.run,
        })
    };
    (0..classes.len())
        .map(|head| fusions.iter().filter_map(|f| along(head, f)).max_by_key(|f| f.members.len()))
        .collect()
}
