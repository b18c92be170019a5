//! Memory: lines in random order, and streams.

use crate::figure::{Figure, nanoseconds_each};
use measure::rng::Rng;
use memmap2::{Advice, MmapMut};
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The size of a cache line, in bytes.
pub(crate) const LINE: usize = 64;

type Line = [u8; LINE];

/// Memory in huge pages, where the system gives some.
pub(crate) struct Block(MmapMut);

impl Block {
    /// So many bytes, all of them in use.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let mut memory = MmapMut::map_anon(bytes.next_multiple_of(LINE).max(LINE))?;
        // Without huge pages it is slower, and measured as that.
        let _ = memory.advise(Advice::HugePage);
        memory.fill(1);
        Ok(Self(memory))
    }

    fn lines_mut(&mut self) -> &mut [Line] {
        self.0.as_chunks_mut().0
    }
}

/// Where a line says that the next one is.
fn next(line: &Line) -> usize {
    let [a, b, c, d, ..] = *line;
    u32::from_ne_bytes([a, b, c, d]) as usize
}

/// Has the lines name each other, so that whoever follows them comes to all of them in random order before
/// one comes again (Sattolo's algorithm).
fn link(lines: &mut [Line], rng: &mut Rng) {
    let mut order: Vec<u32> = (0..lines.len() as u32).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64) as usize);
    }
    for (line, next) in lines.iter_mut().zip(order) {
        line[..4].copy_from_slice(&next.to_ne_bytes());
    }
}

/// Reads so many lines, each of which says where the next one is.
fn follow(lines: &[Line], steps: usize, mut at: usize) -> usize {
    for _ in 0..steps {
        at = lines.get(at).map_or(0, next);
    }
    at
}

/// Numbers that look random and cost next to nothing: a step of a linear generator (Knuth's MMIX).
fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Reads so many random lines, none of which has to wait for another.
fn read_at_once(lines: &[Line], count: usize, state: &mut u64) -> usize {
    let lines = lines.get(..1 << lines.len().ilog2()).unwrap_or(lines);
    let mask = lines.len() - 1;
    (0..count).map(|_| next(&lines[step(state) as usize & mask])).fold(0, usize::wrapping_add)
}

/// Writes a number to so many random lines.
fn write_at_once(lines: &mut [Line], count: usize, state: &mut u64) {
    let mask = (1 << lines.len().ilog2()) - 1;
    for _ in 0..count {
        let at = step(state) as usize & mask;
        lines[at][8..16].copy_from_slice(&1u64.to_ne_bytes());
    }
}

/// What a line costs among so many bytes.
#[derive(Clone, Debug)]
pub(crate) struct Among {
    /// The bytes in which the lines are.
    pub(crate) bytes: usize,
    /// Nanoseconds of a line that must have come before the next one is known.
    pub(crate) in_turn: Figure,
    /// The same if the processor may wait for as many as it can.
    pub(crate) at_once: Figure,
}

/// How long and how often each thing is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) samples: usize,
    pub(crate) sample: Duration,
}

/// Lines among 16 KB, and twice as many bytes each time up to all of a block.
pub(crate) fn lines(block: &mut Block, effort: Effort) -> Vec<Among> {
    const LEAST: usize = 16 << 10;
    const STEPS: usize = 4096;
    let (mut rng, mut all) = (Rng::new(1), Vec::new());
    let most = block.0.len();
    for bytes in std::iter::successors(Some(LEAST), |bytes| bytes.checked_mul(2)).take_while(|&n| n <= most) {
        let Some(lines) = block.lines_mut().get_mut(..bytes / LINE) else { break };
        link(lines, &mut rng);
        let (mut at, mut state) = (0, 1);
        // All of them once, so that what fits into a cache is there.
        at = follow(lines, lines.len(), at);
        let in_turn = nanoseconds_each(effort.samples, effort.sample, STEPS, || {
            at = black_box(follow(lines, STEPS, at));
        });
        let at_once = nanoseconds_each(effort.samples, effort.sample, STEPS, || {
            black_box(read_at_once(lines, STEPS, &mut state));
        });
        if let (Some(in_turn), Some(at_once)) = (in_turn, at_once) {
            all.push(Among { bytes, in_turn, at_once });
        }
    }
    all
}

/// What is done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// All of it is read in order.
    Read,
    /// A constant is written to all of it in order.
    Write,
    /// One half is copied to the other.
    Copy,
    /// A constant is written to random lines, each of which is read and written back for it: the benchmark of
    /// RouteBricks, section 5.3.
    RandomWrite,
}

impl Traffic {
    pub(crate) const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Copy, Self::RandomWrite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::RandomWrite => "random_write",
        }
    }

    /// Does it once; how many bytes were read and written.
    fn pass(self, block: &mut Block, state: &mut u64) -> usize {
        const LINES: usize = 65_536;
        let bytes = block.0.len();
        match self {
            Self::Read => {
                let (words, _) = block.0.as_chunks::<8>();
                black_box(words.iter().map(|word| u64::from_ne_bytes(*word)).fold(0, u64::wrapping_add));
                bytes
            }
            Self::Write => {
                *state = state.wrapping_add(1);
                block.0.fill(*state as u8);
                bytes
            }
            Self::Copy => {
                let (from, to) = block.0.split_at_mut(bytes / 2);
                let length = from.len().min(to.len());
                to[..length].copy_from_slice(&from[..length]);
                2 * length
            }
            Self::RandomWrite => {
                write_at_once(block.lines_mut(), LINES, state);
                2 * LINES * LINE
            }
        }
    }
}

/// Bytes a second, of all these processors together, each with a block of its own.
pub(crate) fn stream(
    traffic: Traffic,
    processors: &[usize],
    blocks: &mut [Block],
    effort: Effort,
) -> Option<Figure> {
    Figure::of((0..effort.samples).map(|_| stream_once(traffic, processors, blocks, effort.sample)).collect())
}

fn stream_once(traffic: Traffic, processors: &[usize], blocks: &mut [Block], sample: Duration) -> f64 {
    let (stop, ready) = (&AtomicBool::new(false), &Barrier::new(processors.len().min(blocks.len()) + 1));
    std::thread::scope(|scope| {
        let threads: Vec<_> = processors
            .iter()
            .zip(blocks)
            .map(|(&processor, block)| {
                scope.spawn(move || {
                    let _ = dpdk::set_affinity(&[processor]);
                    let mut state = processor as u64 + 1;
                    traffic.pass(block, &mut state);
                    ready.wait();
                    let (began, mut bytes) = (Instant::now(), 0);
                    while !stop.load(Ordering::Relaxed) {
                        bytes += traffic.pass(block, &mut state);
                    }
                    bytes as f64 / began.elapsed().as_secs_f64()
                })
            })
            .collect();
        ready.wait();
        std::thread::sleep(sample);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_the_lines_comes_to_all_of_them() {
        for count in [1, 2, 3, 100, 4096] {
            let mut lines = vec![[0; LINE]; count];
            link(&mut lines, &mut Rng::new(7));
            let mut seen = vec![false; count];
            let mut at = 0;
            for _ in 0..count {
                assert!(!std::mem::replace(&mut seen[at], true), "{count}: {at} comes again");
                at = follow(&lines, 1, at);
            }
            assert_eq!((at, follow(&lines, count, 0)), (0, 0), "{count}");
        }
    }

    #[test]
    fn writes_are_spread_over_all_lines() {
        let mut lines = vec![[0; LINE]; 64];
        let mut state = 1;
        write_at_once(&mut lines, 1000, &mut state);
        assert!(lines.iter().all(|line| line[8..16] == 1u64.to_ne_bytes()));
        assert_eq!(read_at_once(&lines, 10, &mut state), 0);
        // Only as many as a power of two are used.
        let mut lines = vec![[0; LINE]; 100];
        write_at_once(&mut lines, 1000, &mut state);
        assert!(lines[64..].iter().all(|line| line == &[0; LINE]));
    }

    #[test]
    fn all_sizes_and_all_traffic_are_measured() {
        let effort = Effort { samples: 2, sample: Duration::from_millis(1) };
        let mut block = Block::new(64 << 10).unwrap();
        let among = lines(&mut block, effort);
        assert_eq!(among.iter().map(|a| a.bytes >> 10).collect::<Vec<_>>(), [16, 32, 64]);
        assert!(among.iter().all(|a| a.in_turn.least > 0.0 && a.at_once.least > 0.0), "{among:?}");
        let mut blocks = [block, Block::new(64 << 10).unwrap()];
        for traffic in Traffic::ALL {
            let rate = stream(traffic, &[0, 0], &mut blocks, effort);
            assert!(rate.is_some_and(|rate| rate.least > 0.0), "{traffic:?}");
        }
        assert!(blocks[0].0[8..].iter().any(|&byte| byte != 1), "nothing was written");
    }
}
