//! What the system and other threads take.

use crate::figure::{Figure, nanoseconds_each};
use crate::memory::Effort;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Nanoseconds of a system call that does nothing (`getppid`).
pub(crate) fn system_call(effort: Effort) -> Option<Figure> {
    const CALLS: usize = 1000;
    nanoseconds_each(effort.samples, effort.sample, CALLS, || {
        for _ in 0..CALLS {
            black_box(nix::unistd::getppid());
        }
    })
}

/// Where a number is that two threads pass to each other, in a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Passed(AtomicU64);

/// Nanoseconds from a store on one processor until another one, which looks all the time, has seen it: half
/// of a round trip.
pub(crate) fn passing(one: usize, other: usize, effort: Effort) -> Option<Figure> {
    const ROUNDS: u64 = 1000;
    let (there, back, stop) = (&Passed::default(), &Passed::default(), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = dpdk::set_affinity(&[other]);
            let mut seen = 0;
            while !stop.load(Ordering::Relaxed) {
                let now = there.0.load(Ordering::Acquire);
                if now != seen {
                    seen = now;
                    back.0.store(now, Ordering::Release);
                }
            }
        });
        let measured = scope.spawn(move || {
            let _ = dpdk::set_affinity(&[one]);
            let mut number = 0;
            let round_trips = nanoseconds_each(effort.samples, effort.sample, ROUNDS as usize, || {
                for _ in 0..ROUNDS {
                    number += 1;
                    there.0.store(number, Ordering::Release);
                    while back.0.load(Ordering::Acquire) != number {
                        std::hint::spin_loop();
                    }
                }
            });
            stop.store(true, Ordering::Relaxed);
            round_trips
        });
        measured.join().ok().flatten().map(|round_trip| round_trip.map(|ns| ns / 2.0))
    })
}

/// Nanoseconds from waking a thread that sleeps on another processor until it runs: half of a round trip.
pub(crate) fn wake_up(one: usize, other: usize, effort: Effort) -> Option<Figure> {
    const ROUNDS: usize = 50;
    let (number, stop) = (&AtomicU64::new(0), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let measured = scope.spawn(move || {
            let _ = dpdk::set_affinity(&[one]);
            let me = std::thread::current();
            std::thread::scope(|inner| {
                let sleeper = inner.spawn(move || {
                    let _ = dpdk::set_affinity(&[other]);
                    let mut seen = 0;
                    while !stop.load(Ordering::Acquire) {
                        let now = number.load(Ordering::Acquire);
                        if now == seen {
                            std::thread::park();
                            continue;
                        }
                        seen = now + 1;
                        number.store(seen, Ordering::Release);
                        me.unpark();
                    }
                });
                let mut samples = Vec::new();
                // An odd number is for the sleeper, an even one is its answer.
                for _ in 0..effort.samples {
                    let began = Instant::now();
                    let mut rounds = 0usize;
                    while rounds < ROUNDS || began.elapsed() < effort.sample {
                        let asked = number.load(Ordering::Relaxed) + 1;
                        number.store(asked, Ordering::Release);
                        sleeper.thread().unpark();
                        while number.load(Ordering::Acquire) == asked {
                            std::thread::park();
                        }
                        rounds += 1;
                    }
                    samples.push(began.elapsed().as_nanos() as f64 / (2.0 * rounds as f64));
                }
                stop.store(true, Ordering::Release);
                sleeper.thread().unpark();
                Figure::of(samples)
            })
        });
        measured.join().ok().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_others_take_is_more_than_nothing_and_ends() {
        let effort = Effort { samples: 3, sample: Duration::from_millis(1) };
        let call = system_call(effort).unwrap();
        let [one, other, ..] = crate::machine::Machine::here().processors()[..] else {
            // Two threads that look all the time on one processor wait for the scheduler.
            return assert!(call.least > 1.0);
        };
        let passing = passing(one, other, effort).unwrap();
        let wake_up = wake_up(one, other, effort).unwrap();
        assert!(call.least > 1.0 && passing.least > 1.0, "{call:?}, {passing:?}");
        // To sleep and to be woken takes some system calls.
        assert!(wake_up.least > call.least, "{wake_up:?}, {call:?}");
    }
}
