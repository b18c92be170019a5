//! # Fault
//! Passes packets, and panics or stands still when it is told to, to show what a failure does to the rest.
//!
//! A panic ends the router, as a mistake in an element's code would. A virtual router (`valiant vr run`)
//! starts again after a pause, and the others of its host go on.
//!
//! ## Synopsis
//! `Fault([AFTER, SPIN])`
//!
//! ## Arguments
//! All by keyword.
//! - `AFTER` (*int*, default 0): panics with this packet, counted from 1; 0: with none.
//! - `SPIN` (*int*, 0 to 60000, default 0): holds each packet, and with it the worker, for so many
//!   milliseconds.
//!
//! ## Ports
//! One agnostic input, one output.
//!
//! ## Handlers
//! - `config` (read): the arguments.
//! - `count` (read): packets that have passed.
//! - `panic` (write): panics with the next packet.
//! - `spin` (read/write): the `SPIN` argument.
//!
//! ## Threads
//! Each worker counts the packets of its own.
//!
//! ## Example
//! The thousandth packet ends the router:
//!
//! ```click
//! InfiniteSource(LIMIT 2000, STOP true) -> Fault(AFTER 1000) -> Discard;
//! ```
//!
//! ## See also
//! WorkPackage, RandomSample

use crate::prelude::*;
use std::time::{Duration, Instant};

/// The most of `SPIN`.
const MOST_SPIN_MS: u64 = 60_000;

/// The `Fault` element.
pub struct Fault {
    after: u64,
    spin_ms: u64,
    panics: bool,
    count: u64,
}

impl Element for Fault {
    const CLASS: &'static str = "Fault";
    const PORTS: &'static str = "1/1";
    const PROCESSING: &'static str = "a/a";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("measure/fault");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let after = args.k("AFTER")?.unwrap_or(0);
        let spin_ms: u64 = args.k("SPIN")?.unwrap_or(0);
        if spin_ms > MOST_SPIN_MS {
            return Err(args.error(format!("SPIN is at most {MOST_SPIN_MS}")));
        }
        Ok(Self { after, spin_ms, panics: false, count: 0 })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("config", |e| format!("AFTER {}, SPIN {}", e.after, e.spin_ms));
        h.sum("count", |e| e.count);
        h.write("panic", |e, _, _| {
            e.panics = true;
            Ok(())
        });
        h.read("spin", |e| e.spin_ms.to_string());
        h.write("spin", |e, v, _| match v.trim().parse() {
            Ok(spin) if spin <= MOST_SPIN_MS => {
                e.spin_ms = spin;
                Ok(())
            }
            _ => Err(format!("expected a number of milliseconds, 0 to {MOST_SPIN_MS}")),
        });
    }
}

impl Simple for Fault {
    fn packet(&mut self, packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.count += 1;
        assert!(!self.panics && self.count != self.after, "a panic as asked for, with packet {}", self.count);
        if self.spin_ms > 0 {
            let begin = Instant::now();
            let long = Duration::from_millis(self.spin_ms);
            while begin.elapsed() < long {
                std::hint::spin_loop();
            }
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn it_panics_with_the_packet_that_is_asked_for() {
        let mut bench = Bench::new("Fault(AFTER 3)");
        for _ in 0..2 {
            assert_eq!(bench.push(0, &[7; 60]).len(), 1);
        }
        assert!(catch_unwind(AssertUnwindSafe(|| bench.push(0, &[7; 60]))).is_err());
        let mut bench = Bench::new("Fault");
        assert_eq!(bench.push(0, &[7; 60]).len(), 1);
        bench.write("panic", "");
        assert!(catch_unwind(AssertUnwindSafe(|| bench.push(0, &[7; 60]))).is_err());
    }

    #[test]
    fn a_held_packet_leaves_in_the_end() {
        let mut bench = Bench::new("Fault(SPIN 2)");
        let begin = std::time::Instant::now();
        assert_eq!(bench.push(0, &[7; 60]).len(), 1);
        assert!(begin.elapsed().as_millis() >= 2);
        bench.write("spin", "0");
        assert_eq!((bench.read("config"), bench.read("count")), ("AFTER 0, SPIN 0".into(), "1".into()));
        assert!(bench.try_write("spin", "60001").is_err());
        assert!(Bench::error("Fault(SPIN 60001)").contains("SPIN is at most 60000"));
    }
}
