//! Code that the elements that read packets from a file share: when they run, which packets they select,
//! their handlers.

use super::input::Input;
use super::opened::Opened;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::Real2;
use std::sync::Arc;

/// Fraction bits of the sampling probability.
const SHIFT: u32 = 28;
/// How many packets may be skipped in one run of the task.
const PATIENCE: usize = 256;

/// State that all of them have.
pub(in crate::files) struct Common<F> {
    /// The file, which replicas share.
    pub(in crate::files) file: Arc<Opened<F>>,
    /// The `TIMING` argument.
    pub(in crate::files) timing: bool,
    /// The `STOP` argument.
    pub(in crate::files) stop: bool,
    /// The `ACTIVE` argument.
    pub(in crate::files) active: bool,
    /// The probability with which a packet is selected, from [`probability`].
    pub(in crate::files) sample: u32,
}

impl<F> Common<F> {
    /// The router's time at which a packet is to be emitted, if that is in the future; `shift_ns` is the
    /// router's clock minus the file's.
    pub(in crate::files) fn not_yet(&self, packet: &Packet, shift_ns: i64, cx: &Cx<'_>) -> Option<u64> {
        if !self.timing {
            return None;
        }
        let due = (packet.timestamp_ns() as i64).saturating_add(shift_ns);
        u64::try_from(due).ok().filter(|due| *due > cx.now_ns())
    }
    /// Whether a packet is selected.
    pub(in crate::files) fn sampled(&self, cx: &mut Cx<'_>) -> bool {
        self.sample >= 1 << SHIFT || cx.random() >> (64 - SHIFT) < u64::from(self.sample)
    }
}

/// The next packet of a file, or why there is none.
pub(in crate::files) enum Next {
    Packet(Packet),
    /// A packet that the element does not emit, and why.
    Refused(Packet, DropReason),
    /// No packet now, but there may be more.
    PassedOver,
    /// No packet before this time of the router.
    NotYet(u64),
    /// The end time has been reached.
    EndTime,
    /// There are no more packets.
    End,
}

/// An element that reads packets from a file.
pub(in crate::files) trait Reading: Element {
    /// The type as which it reads the file.
    type File: Send + 'static;
    /// The bytes of the file.
    fn input(file: &mut Self::File) -> &mut Input;
    /// The shared state.
    fn common(&self) -> &Common<Self::File>;
    /// The shared state, mutable.
    fn common_mut(&mut self) -> &mut Common<Self::File>;
    /// Reads the next packet.
    fn next(&mut self, cx: &mut Cx<'_>) -> Next;
    /// Called when a packet is emitted.
    fn emits(&mut self) {}
    /// Called when there are no more packets, or the end time has been reached.
    fn ends(&mut self, at_end_time: bool, cx: &mut Cx<'_>);

    /// Continues, if it is active.
    fn wake(&self, cx: &mut Cx<'_>) {
        if self.common().active {
            if cx.output_is_pull(0) {
                cx.set_nonempty(true);
            } else {
                cx.reschedule();
            }
        }
    }

    /// [`Element::run_task`]: pushes a batch of packets.
    fn push_some(&mut self, cx: &mut Cx<'_>) -> bool {
        let (mut emitted, mut seen) = (0, 0);
        while self.common().active && emitted < cx.batch_size() && seen < PATIENCE {
            seen += 1;
            match self.next(cx) {
                Next::Packet(packet) => {
                    self.emits();
                    emitted += 1;
                    cx.output(0, packet);
                }
                Next::Refused(packet, why) => cx.fail(packet, why),
                Next::PassedOver => {}
                Next::NotYet(at_ns) => {
                    cx.timer_at(0, at_ns);
                    return emitted > 0;
                }
                Next::EndTime => {
                    cx.flush_lending(self);
                    self.ends(true, cx);
                    break;
                }
                Next::End => {
                    cx.flush_lending(self);
                    self.ends(false, cx);
                    return emitted > 0;
                }
            }
        }
        if self.common().active {
            cx.reschedule();
        }
        emitted > 0
    }

    /// [`Vector::pull`].
    fn pull_some(&mut self, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let (mut found, mut seen) = (0, 0);
        while self.common().active && found < max && seen < PATIENCE.max(max) {
            seen += 1;
            match self.next(cx) {
                Next::Packet(packet) => {
                    self.emits();
                    found += 1;
                    out.push(packet);
                }
                Next::Refused(packet, why) => cx.fail(packet, why),
                Next::PassedOver => {}
                Next::NotYet(at_ns) => {
                    cx.timer_at(0, at_ns);
                    return cx.set_nonempty(false);
                }
                Next::EndTime => self.ends(true, cx),
                Next::End => {
                    self.ends(false, cx);
                    return cx.set_nonempty(false);
                }
            }
        }
        if !self.common().active {
            cx.set_nonempty(false);
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

/// The handlers that all of them have.
pub(in crate::files) fn handlers<E: Reading>(h: &mut Handlers<E>) {
    h.read("active", |e| e.common().active.to_string());
    h.write("active", |e, v, cx| {
        e.common_mut().active = text::value(v, "type mismatch")?;
        e.wake(cx);
        Ok(())
    });
    h.write("stop", |e, _, cx| {
        e.common_mut().active = false;
        cx.request_stop();
        Ok(())
    });
    h.read("sampling_prob", |e| text::real2(e.common().sample.into(), SHIFT));
    h.shared_read::<Opened<E::File>>("filename", |s, _| Ok(Input::display(&s.path).to_owned()));
    h.shared_read::<Opened<E::File>>("filesize", |s, _| {
        Ok(s.with(|f| E::input(f).size()).flatten().map_or("-".to_owned(), |n| n.to_string()))
    });
    h.shared_read::<Opened<E::File>>("filepos", |s, _| {
        Ok(s.with(|f| E::input(f).position()).unwrap_or(0).to_string())
    });
}
