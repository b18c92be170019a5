//! Elements that can be fused: the trait of such an element, and of tuples of their classes.

use crate::cx::{Cx, LONGEST, Members, Part, Reached, Run};
use crate::element::Element;
use crate::facts::StepFacts;
use dpdk::{Batch, Packet};
use std::any::TypeId;

/// The fast path of an element, for most packets: it changes them and sends them to output 0.
///
/// The element's general path ([`crate::Simple::packet`], [`crate::Vector::push`]) must do exactly the same
/// to such packets. The class says that it has a step: [`Element::STEP`].
pub trait Step: Element {
    /// For elements that choose an output for each packet, and after which a chain may continue at any
    /// output: [`Step::step_to`] is used, and it must return `true` for exactly those packets that leave by
    /// the output.
    const CHOOSES: bool = false;

    /// Prepares for a batch: reads the clock, checks whether a copy of shared state is still valid.
    #[inline]
    fn ready(&mut self, _cx: &mut Cx<'_>) {}

    /// Processes a packet on the fast path and returns `true`: the packet leaves by output 0. Or returns
    /// `false` without any change: the packet needs the general path.
    fn step(&mut self, packet: &mut Packet) -> bool;

    /// [`Step::step`] for a packet that leaves by this output, for elements that choose one.
    #[inline]
    fn step_to(&mut self, packet: &mut Packet, output: usize) -> bool {
        output == 0 && self.step(packet)
    }
}

impl StepFacts {
    /// Those of this type.
    #[must_use]
    pub const fn of<T: Step>() -> Self {
        Self { of: TypeId::of::<T>(), chooses: T::CHOOSES }
    }
}

/// Classes that follow each other, as a tuple of element types.
pub trait Chain: 'static {
    /// The names of the classes.
    fn classes() -> Vec<&'static str>;
    /// The facts about the classes' steps.
    fn steps() -> Vec<StepFacts>;
    /// Removes the packets that do not leave element `k`, which chooses outputs, by `output` from `packets`.
    fn part(members: &mut Members<'_, '_>, k: usize, output: u16, packets: &mut Batch, others: &mut Batch);
    /// Passes packets, from the first on, through all elements, until one needs the general path. `outputs`
    /// has the output by which the chain leaves each element.
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
            fn steps() -> Vec<StepFacts> {
                vec![$(const { $type::STEP.expect("a class of a chain declares its step") }),+]
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

/// Classes that can be fused.
#[derive(Clone)]
pub(crate) struct Fusion {
    pub(crate) classes: Vec<&'static str>,
    pub(crate) steps: Vec<StepFacts>,
    pub(crate) part: Part,
    pub(crate) run: Run,
}

impl Fusion {
    pub(crate) fn of<C: Chain>() -> Self {
        let classes = C::classes();
        debug_assert!(classes.len() <= LONGEST);
        Self { classes, steps: C::steps(), part: C::part, run: C::run }
    }
}
