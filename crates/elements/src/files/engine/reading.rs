//! What the elements that read packets from a file have in common: when they run, which packets they select,
//! their handlers.

use super::input::Input;
use super::opened::Opened;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Real2;

/// Fraction bits of the sampling probability.
const SHIFT: u32 = 28;
/// How many packets may be passed over in one run of the task.
pub(in crate::files) const PATIENCE: usize = 256;

/// An element that reads packets from a file.
pub(in crate::files) trait Reading: Element {
    /// What it reads the file as; replicas share an [`Opened`] of it.
    type File: Send + 'static;
    /// The bytes of the file.
    fn input(file: &mut Self::File) -> &mut Input;
    /// The `ACTIVE` argument.
    fn active(&self) -> bool;
    /// Changes it.
    fn set_active(&mut self, active: bool);
    /// The probability that a packet is taken, from [`probability`].
    fn sample(&self) -> u32;

    /// Goes on, if it is active.
    fn wake(&self, cx: &mut Cx<'_>) {
        if self.active() {
            if cx.output_is_pull(0) {
                cx.set_nonempty(true);
            } else {
                cx.reschedule();
            }
        }
    }
}

/// Reads `SAMPLE`, with Click's warnings.
pub(in crate::files) fn probability(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<u32, ArgError> {
    let sample = args.k::<Real2<SHIFT>>("SAMPLE")?.map_or(1 << SHIFT, |p| p.0);
    if sample > 1 << SHIFT {
        cx.warn("SAMPLE probability reduced to 1");
    } else if sample == 0 {
        cx.warn("SAMPLE probability is 0; emitting no packets");
    }
    Ok(sample.min(1 << SHIFT))
}

/// Whether a packet is among the chosen ones.
pub(in crate::files) fn sampled(sample: u32, cx: &mut Cx<'_>) -> bool {
    sample >= 1 << SHIFT || cx.random() >> (64 - SHIFT) < u64::from(sample)
}

/// The handlers that all of them have.
pub(in crate::files) fn handlers<E: Reading>(h: &mut Handlers<E>) {
    h.read("active", |e| e.active().to_string());
    h.write("active", |e, v, cx| {
        e.set_active(text::value(v, "type mismatch")?);
        e.wake(cx);
        Ok(())
    });
    h.write("stop", |e, _, cx| {
        e.set_active(false);
        cx.request_stop();
        Ok(())
    });
    h.read("sampling_prob", |e| text::real2(e.sample().into(), SHIFT));
    h.shared_read::<Opened<E::File>>("filename", |s, _| Ok(Input::display(&s.path).to_owned()));
    h.shared_read::<Opened<E::File>>("filesize", |s, _| {
        Ok(s.with(|f| E::input(f).size()).flatten().map_or("-".to_owned(), |n| n.to_string()))
    });
    h.shared_read::<Opened<E::File>>("filepos", |s, _| {
        Ok(s.with(|f| E::input(f).position()).unwrap_or(0).to_string())
    });
}
