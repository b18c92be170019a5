//! The processor's time-stamp counter.

/// The time-stamp counter, in cycles of its constant rate. Not serializing: good for costs of some tens of
/// cycles and more.
#[inline]
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and Linux leaves it enabled in user space.
    unsafe { core::arch::x86_64::_rdtsc() }
}
