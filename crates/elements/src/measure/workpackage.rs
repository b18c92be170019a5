//! # WorkPackage
//! Spends processor time on each packet, to load a router with a known cost.
//!
//! For each packet it draws `W` pseudo-random numbers, makes `N` accesses to memory, and then waits until it
//! has spent `CYCLES`. Packets leave as they came.
//!
//! ## Synopsis
//! `WorkPackage([S, N, R, PAYLOAD, W, CYCLES])`
//!
//! ## Arguments
//! All by keyword.
//! - `S` (*int*, 0 to 1024, default 0): the size of an array, in megabytes (powers of 1024).
//! - `N` (*int*, 0 to 65535, default 0): accesses for each packet, at random places: reads of four bytes.
//! - `R` (*int*, 0 to 100, default 0): how many percent of the accesses are to the packet rather than to the
//!   array.
//! - `PAYLOAD` (*bool*, default false): whether accesses to the packet are to all of it, or to its first 54
//!   bytes.
//! - `W` (*int*, 0 to 1000000, default 0): pseudo-random numbers for each packet.
//! - `CYCLES` (*int*, 0 to 10000000, default 0): the least time for each packet, in cycles of the processor's
//!   time stamp counter (`valiant bench host` says how fast it counts).
//!
//! ## Ports
//! One agnostic input, one output.
//!
//! ## Handlers
//! - `config` (read): the arguments.
//! - `working_set` (read): the bytes of the array, if there are accesses to it.
//! - `cycles` (read/write): the `CYCLES` argument.
//!
//! ## Threads
//! Each worker has an array and random numbers of its own.
//!
//! ## Example
//! A router whose packets cost at least 1,000 cycles each:
//!
//! ```click
//! InfiniteSource(LIMIT 100, STOP true) -> WorkPackage(CYCLES 1000) -> Discard;
//! ```
//!
//! ## See also
//! MeasureSource, MeasureSink, Null

use crate::prelude::*;

/// The most of each argument, so that a packet cannot hold its worker for long.
const MOST_MB: u32 = 1024;
const MOST_ACCESSES: u32 = 65_535;
const MOST_NUMBERS: u32 = 1_000_000;
const MOST_CYCLES: u64 = 10_000_000;
/// Ethernet, IPv4 and TCP headers without options.
const HEADERS: usize = 54;

/// The `WorkPackage` element.
pub struct WorkPackage {
    array: Vec<u32>,
    accesses: u32,
    in_packet: u32,
    payload: bool,
    numbers: u32,
    cycles: u64,
    random: u64,
    /// The sum of what was read, so that the reads are made.
    sum: u32,
}

impl Element for WorkPackage {
    const CLASS: &'static str = "WorkPackage";
    const PORTS: &'static str = "1/1";
    const PROCESSING: &'static str = "a/a";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("measure/workpackage");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let megabytes = at_most(args, "S", MOST_MB)?;
        let accesses = at_most(args, "N", MOST_ACCESSES)?;
        let in_packet = at_most(args, "R", 100)?;
        let payload = args.k("PAYLOAD")?.unwrap_or(false);
        let numbers = at_most(args, "W", MOST_NUMBERS)?;
        let cycles: u64 = args.k("CYCLES")?.unwrap_or(0);
        if cycles > MOST_CYCLES {
            return Err(args.error(format!("CYCLES is at most {MOST_CYCLES}")));
        }
        if accesses > 0 && in_packet < 100 && megabytes == 0 {
            return Err(args.error("accesses to the array need its size, S"));
        }
        let mut array = Vec::new();
        let len = megabytes as usize * (1 << 20) / size_of::<u32>();
        if array.try_reserve_exact(len).is_err() {
            return Err(args.error(format!("there is no memory for {megabytes} MB")));
        }
        array.resize(len, 1);
        let random = 0x9e37_79b9_7f4a_7c15 ^ (cx.worker().0 as u64 + 1);
        Ok(Self { array, accesses, in_packet, payload, numbers, cycles, random, sum: 0 })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("config", |e| {
            let megabytes = size_of_val(&*e.array) >> 20;
            format!(
                "S {megabytes}, N {}, R {}, PAYLOAD {}, W {}, CYCLES {}",
                e.accesses, e.in_packet, e.payload, e.numbers, e.cycles
            )
        });
        h.read("working_set", |e| {
            (if e.accesses > 0 && e.in_packet < 100 { size_of_val(&*e.array) } else { 0 }).to_string()
        });
        h.read("cycles", |e| e.cycles.to_string());
        h.write("cycles", |e, v, _| match v.trim().parse() {
            Ok(cycles) if cycles <= MOST_CYCLES => {
                e.cycles = cycles;
                Ok(())
            }
            _ => Err(format!("expected a number of cycles, 0 to {MOST_CYCLES}")),
        });
    }
}

/// A number given by keyword, 0 if it is not there.
fn at_most(args: &mut Args<'_>, name: &str, most: u32) -> Result<u32, ArgError> {
    let value: u32 = args.k(name)?.unwrap_or(0);
    if value <= most { Ok(value) } else { Err(args.error(format!("{name} is at most {most}"))) }
}

impl WorkPackage {
    /// The next pseudo-random number (Marsaglia's xorshift).
    #[inline]
    fn draw(&mut self) -> u64 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        x
    }

    /// Reads at `N` random places.
    fn access(&mut self, data: &[u8]) {
        let reach = if self.payload { data.len() } else { data.len().min(HEADERS) };
        for _ in 0..self.accesses {
            let draw = self.draw();
            let (place, percent) = ((draw >> 32) as usize, (draw as u32) % 100);
            let read = if percent < self.in_packet {
                let words = reach / size_of::<u32>();
                let at = place.checked_rem(words).unwrap_or(0) * size_of::<u32>();
                data.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word))
            } else {
                let at = place.checked_rem(self.array.len()).unwrap_or(0);
                self.array.get(at).copied().unwrap_or(0)
            };
            self.sum = self.sum.wrapping_add(read);
        }
        std::hint::black_box(self.sum);
    }
}

impl Simple for WorkPackage {
    fn packet(&mut self, packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        let begin = if self.cycles > 0 { dpdk::cycles() } else { 0 };
        for _ in 0..self.numbers {
            std::hint::black_box(self.draw());
        }
        if self.accesses > 0 {
            self.access(packet.data());
        }
        while self.cycles > 0 && dpdk::cycles().wrapping_sub(begin) < self.cycles {
            std::hint::spin_loop();
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_leave_as_they_came_after_the_stated_cycles() {
        let mut bench = Bench::new("WorkPackage(S 1, N 9, R 50, PAYLOAD true, W 3, CYCLES 20000)");
        let begin = dpdk::cycles();
        for len in [0, 1, 3, 4, 60, 1500] {
            let bytes = vec![7; len];
            let out = bench.push(0, &bytes);
            assert_eq!((out.len(), &out[0].1), (1, &bytes));
        }
        assert!(dpdk::cycles() - begin >= 6 * 20_000);
        assert_eq!(bench.read("config"), "S 1, N 9, R 50, PAYLOAD true, W 3, CYCLES 20000");
        bench.write("cycles", "0");
        assert_eq!(bench.read("cycles"), "0");
        assert!(bench.try_write("cycles", "10000001").is_err());
    }

    #[test]
    fn what_it_cannot_do_is_an_error() {
        for (arguments, wrong) in [
            ("N 1", "accesses to the array need its size, S"),
            ("S 1025", "S is at most 1024"),
            ("R 101", "R is at most 100"),
            ("CYCLES 10000001", "CYCLES is at most 10000000"),
        ] {
            let error = Bench::error(&format!("WorkPackage({arguments})"));
            assert!(error.contains(wrong), "{arguments}: {error}");
        }
    }
}
