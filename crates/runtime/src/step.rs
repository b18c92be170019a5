//! The fast path of an element: what happens to most packets, without anything that can go wrong.

use crate::cx::{Cx, Passed, StepFacts};
use crate::element::Element;
use dpdk::Packet;
use std::any::{Any, TypeId};

/// The fast path of an element, for most packets: it changes them and sends them to one output.
///
/// The element's general path ([`crate::Simple::packet`], [`crate::Vector::push`]) must do exactly the same
/// to such packets. The class says that it has a step: [`Element::STEP`]. A batch passes the element in one
/// loop over its packets, in place, and is handed on whole. From the first packet that needs the general path
/// (a bad header, an expired TTL, an unknown neighbor) the rest of the batch takes it.
pub trait Step: Element {
    /// Prepares for a batch: reads the clock, checks whether a copy of shared state is still valid.
    #[inline]
    fn ready(&mut self, _cx: &mut Cx<'_>) {}

    /// Processes a packet on the fast path and returns `true`: the packet leaves by [`Step::output`]. Or
    /// returns `false` without any change: the packet needs the general path.
    fn step(&mut self, packet: &mut Packet) -> bool;

    /// Passes the packets of a batch, from the first on, along the fast path, and returns how many it has
    /// passed: all, or those before the first that needs the general path. For elements that do something
    /// once for a batch.
    #[inline]
    fn run(&mut self, packets: &mut [Packet], cx: &mut Cx<'_>) -> usize {
        self.ready(cx);
        let mut done = 0;
        // Four packets in a round: there are fewer branches, and the processor can predict the loop's end.
        let (fours, rest) = packets.as_chunks_mut::<4>();
        for four in fours {
            for packet in four {
                if !self.step(packet) {
                    return done;
                }
                done += 1;
            }
        }
        for packet in rest {
            if !self.step(packet) {
                return done;
            }
            done += 1;
        }
        done
    }

    /// The output by which packets leave the fast path. An element that chooses one of several outputs for
    /// each packet returns the one that it has chosen most recently.
    #[inline]
    fn output(&self) -> usize {
        0
    }
}

impl StepFacts {
    /// Those of this type.
    #[must_use]
    pub const fn of<T: Step>() -> Self {
        Self { of: TypeId::of::<T>(), run: run::<T> }
    }
}

/// Passes the packets of a batch along the fast path of `element`, up to the first that needs the general
/// path.
fn run<T: Step>(element: &mut dyn Any, packets: &mut [Packet], cx: &mut Cx<'_>) -> Passed {
    let Some(element) = element.downcast_mut::<T>() else { return Passed { packets: 0, output: 0 } };
    Passed { packets: element.run(packets, cx), output: element.output() }
}
