//! Few rules of any kind: for each byte of a key that one of them looks at, and each value of that byte, a
//! row of bits says which rules that value suits. The rows of a key's bytes together have the rules that
//! match it (Lakshman and Stiliadis, "High-speed policy-based packet forwarding using efficient
//! multi-dimensional range matching", SIGCOMM 1998, with bytes in place of fields). What that costs grows
//! with the number of rules, and not with that of their masks.
//!
//! It is made anew when rules come and go; a reader keeps the one that it has.

use crate::key::{Field, Key, WORDS};
use crate::ports::{self, Ports};
use crate::tuple::{Entry, FOREVER, Found, Scope};

/// Values of a byte, and of a port.
const VALUES: usize = 256;
const PORTS: usize = 1 << 16;
/// Words of rows that are looked at together.
const CHUNK: usize = 4;
/// After so many bytes it is looked whether a rule is left.
const LOOK: usize = 4;

/// A rule, or a part of one that has ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few {
    pub(crate) mask: Key,
    pub(crate) entry: Entry,
    pub(crate) died: u64,
}

impl Few {
    /// One that counts from now on.
    pub(crate) fn new(mask: Key, entry: Entry) -> Self {
        Self { mask, entry, died: FOREVER }
    }
}

/// What the rule of a bit does, and from which version and until which it counts.
#[derive(Clone, Copy, Debug)]
struct Slot {
    found: Found,
    born: u64,
    died: u64,
}

impl Slot {
    fn counts(&self, scope: Scope) -> bool {
        (self.born..self.died).contains(&scope.version) && self.found.order >= scope.first
    }
}

/// What of a key chooses a row: a byte, or a port if rules have ranges of it.
#[derive(Debug)]
struct Stride {
    word: usize,
    shift: u32,
    /// The number of the row of each value of a port; a byte is that number itself.
    ports: Option<Box<[u16]>>,
    /// Where its rows begin.
    start: usize,
}

impl Stride {
    fn byte(word: usize, shift: u32) -> Self {
        Self { word, shift, ports: None, start: 0 }
    }

    fn of(&self, key: &Key) -> usize {
        let value = key.0[self.word] >> self.shift;
        match &self.ports {
            None => value as usize % VALUES,
            Some(rows) => rows.get(value as usize % PORTS).copied().unwrap_or(0).into(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Bits {
    /// Those first that leave the fewest rules.
    strides: Vec<Stride>,
    /// Words of a row.
    words: usize,
    /// Of each stride, its rows.
    rows: Rows,
    /// In the order in which rules go before others, so that the first bit counts.
    slots: Vec<Slot>,
}

impl Bits {
    pub(crate) fn new(mut rules: Vec<Few>) -> Self {
        rules.sort_unstable_by_key(|few| few.entry.found.rank());
        let words = rules.len().div_ceil(64);
        let words = if words > 2 { words.next_multiple_of(CHUNK) } else { words };
        let slot = |few: &Few| Slot { found: few.entry.found, born: few.entry.born, died: few.died };
        let mut new = Making { words, strides: Vec::new() };
        let ranges: Vec<(Field, u32)> = ports::FIELDS
            .into_iter()
            .filter(|(_, at)| rules.iter().any(|few| few.entry.ports.range(*at) != Ports::ANY.range(*at)))
            .collect();
        for (field, at) in &ranges {
            new.add_ports(*field, *at, &rules);
        }
        // What is in rows of ports is in no others.
        for few in &mut rules {
            for (field, _) in &ranges {
                if ports::is_prefix(few.mask.get(*field)) {
                    few.mask.set(*field, 0);
                }
            }
        }
        for word in 0..WORDS {
            for shift in (0..u64::BITS).step_by(8) {
                let stride = Stride::byte(word, shift);
                if rules.iter().any(|few| stride.of(&few.mask) != 0) {
                    new.add_byte(stride, &rules);
                }
            }
        }
        let (strides, rows) = new.done(&rules);
        Self { words, strides, rows, slots: rules.iter().map(slot).collect() }
    }

    /// How many rules there are, whether they count or not.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Finds the best rule of each key, if it goes before what was found.
    pub(crate) fn find_many(&self, keys: &[Key], scope: Scope, found: &mut [Found]) {
        match &self.rows {
            Rows::One(rows) => self.find_in(rows, keys, scope, found),
            Rows::Two(rows) => self.find_in(rows, keys, scope, found),
            Rows::More(rows) => self.find_in(rows, keys, scope, found),
        }
    }

    fn find_in<const N: usize>(&self, rows: &[[u64; N]], keys: &[Key], scope: Scope, found: &mut [Found]) {
        let mut starts = [0; WORDS * 8 + ports::FIELDS.len()];
        let chunks = self.words / N;
        let first = self.first(scope) / (N * 64);
        for (key, found) in keys.iter().zip(found) {
            for (start, stride) in starts.iter_mut().zip(&self.strides) {
                *start = (stride.start + stride.of(key)) * chunks;
            }
            let starts = &starts[..self.strides.len()];
            for chunk in first..chunks {
                // Of those from here on, none goes before the first.
                if self.slots.get(chunk * N * 64).is_none_or(|slot| found.rank() <= slot.found.rank()) {
                    break;
                }
                let left = left(rows, starts, chunk);
                if left != [0; N] && self.best(chunk * N, &left, scope, found) {
                    break;
                }
            }
        }
    }

    /// Before this place there are only rules of groups that do not count.
    fn first(&self, scope: Scope) -> usize {
        match self.slots.first() {
            Some(slot) if slot.found.order < scope.first => {
                self.slots.partition_point(|slot| slot.found.order < scope.first)
            }
            _ => 0,
        }
    }

    /// Takes the first rule of these bits that counts, if it goes before what was found. Whether there is
    /// one.
    fn best(&self, first: usize, left: &[u64], scope: Scope, found: &mut Found) -> bool {
        for (word, left) in left.iter().enumerate() {
            let mut left = *left;
            while left != 0 {
                let slot = self.slots.get((first + word) * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
                if let Some(slot) = slot.filter(|slot| slot.counts(scope)) {
                    if slot.found.rank() < found.rank() {
                        *found = slot.found;
                    }
                    return true;
                }
            }
        }
        false
    }
}

/// The bits of the rules that match, of one chunk.
fn left<const N: usize>(rows: &[[u64; N]], starts: &[usize], chunk: usize) -> [u64; N] {
    let mut left = [u64::MAX; N];
    for starts in starts.chunks(LOOK) {
        for start in starts {
            let row = rows.get(start + chunk).unwrap_or(&[0; N]);
            left.iter_mut().zip(row).for_each(|(left, row)| *left &= row);
        }
        if left == [0; N] {
            break;
        }
    }
    left
}

/// Rows in chunks of as many words as they have, or four.
#[derive(Debug)]
enum Rows {
    One(Vec<[u64; 1]>),
    Two(Vec<[u64; 2]>),
    More(Vec<[u64; CHUNK]>),
}

impl Default for Rows {
    fn default() -> Self {
        Self::One(Vec::new())
    }
}

/// Strides that are being made, each with its rows.
struct Making {
    words: usize,
    strides: Vec<(Stride, Vec<u64>)>,
}

impl Making {
    /// All strides, those first that leave the fewest rules for a packet that suits one of them.
    fn done(mut self, rules: &[Few]) -> (Vec<Stride>, Rows) {
        let words = self.words;
        self.strides.sort_by_cached_key(|(stride, rows)| -> u64 {
            let rows_of = |few: &Few| &rows[stride.of(&few.entry.value) * words..][..words];
            let each = rules
                .iter()
                .map(|few| rows_of(few).iter().map(|word| u64::from(word.count_ones())).sum::<u64>());
            each.sum()
        });
        let (mut strides, mut all) = (Vec::new(), Vec::new());
        for (stride, rows) in self.strides {
            strides.push(Stride { start: all.len() / words, ..stride });
            all.extend(rows);
        }
        let rows = match words {
            1 => Rows::One(all.as_chunks().0.to_vec()),
            2 => Rows::Two(all.as_chunks().0.to_vec()),
            _ => Rows::More(all.as_chunks().0.to_vec()),
        };
        (strides, rows)
    }

    /// Adds a stride with so many rows, in which the rules of `any` have their bits. Returns the rows.
    fn add(&mut self, stride: Stride, rows: usize, any: &[u64]) -> &mut Vec<u64> {
        self.strides.push((stride, any.repeat(rows)));
        let last = self.strides.len() - 1;
        &mut self.strides[last].1
    }

    /// The bits of those rules for which `of` says so.
    fn any(&self, rules: &[Few], of: impl Fn(&Few) -> bool) -> Vec<u64> {
        let mut any = vec![0u64; self.words];
        for (number, _) in rules.iter().enumerate().filter(|(_, few)| of(few)) {
            any[number / 64] |= 1 << (number % 64);
        }
        any
    }

    /// Adds a byte.
    fn add_byte(&mut self, stride: Stride, rules: &[Few]) {
        let any = self.any(rules, |few| stride.of(&few.mask) == 0);
        let parts: Vec<(usize, usize)> =
            rules.iter().map(|few| (stride.of(&few.mask), stride.of(&few.entry.value))).collect();
        let words = self.words;
        let rows = self.add(stride, VALUES, &any);
        for (number, (mask, value)) in parts.into_iter().enumerate().filter(|(_, (mask, _))| *mask != 0) {
            for other in others(!mask % VALUES) {
                rows[(value & mask | other) * words + number / 64] |= 1 << (number % 64);
            }
        }
    }

    /// Adds a port, of which rules have ranges.
    fn add_ports(&mut self, field: Field, at: u32, rules: &[Few]) {
        // The values that suit each rule. If its mask is no prefix, bytes have what it says.
        let ranges = |few: &Few| -> (usize, usize) {
            let (first, last) = few.entry.ports.range(at);
            let mask = few.mask.get(field) as usize;
            let (value, free) = (few.entry.value.get(field) as usize & mask, !mask % PORTS);
            let (first, last) = (usize::from(first), usize::from(last));
            if ports::is_prefix(mask as u64) {
                (first.max(value), last.min(value | free))
            } else {
                (first, last)
            }
        };
        let is_any = |few: &Few| ranges(few) == (0, PORTS - 1);
        let any = self.any(rules, is_any);
        // Ports between two ends of ranges have one row.
        let ends = rules.iter().map(ranges).flat_map(|(first, last)| [first, last + 1]);
        let mut ends: Vec<usize> = ends.chain([0, PORTS]).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut numbers = vec![0; PORTS].into_boxed_slice();
        for (row, pair) in ends.windows(2).enumerate() {
            numbers[pair[0]..pair[1]].fill(row as u16);
        }
        let (word, shift, _) = field.place();
        let stride = Stride { word, shift, ports: Some(numbers.clone()), start: 0 };
        let words = self.words;
        let rows = self.add(stride, ends.len() - 1, &any);
        for (number, few) in rules.iter().enumerate().filter(|(_, few)| !is_any(few)) {
            let (first, last) = ranges(few);
            // Nothing is in both its mask and its range, if they do not meet.
            let suit = if first <= last { numbers[first]..numbers[last] + 1 } else { 0..0 };
            for row in suit {
                rows[usize::from(row) * words + number / 64] |= 1 << (number % 64);
            }
        }
    }
}

/// All numbers that have only these bits.
fn others(bits: usize) -> impl Iterator<Item = usize> {
    let mut next = Some(0usize);
    std::iter::from_fn(move || {
        let this = next?;
        next = Some(this.wrapping_sub(bits) & bits).filter(|next| *next != 0);
        Some(this)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Field;

    fn few(number: u64, mask: u64, value: u64) -> Few {
        let mut key = [Key::default(); 2];
        key[0].set(Field::SrcLow, mask);
        key[1].set(Field::SrcLow, value);
        let found = Found { order: 0, number, verdict: 0, mark: 0 };
        Few::new(key[0], Entry { value: key[1], ports: Ports::ANY, found, born: 1 })
    }

    fn find(bits: &Bits, value: u64, version: u64) -> Option<u64> {
        let (mut key, mut found) = (Key::default(), [Found::NOTHING]);
        key.set(Field::SrcLow, value);
        bits.find_many(&[key], Scope { version, first: 0 }, &mut found);
        (!found[0].is_nothing()).then_some(found[0].number)
    }

    #[test]
    fn any_bits_may_count_whatever_the_number_of_rules() {
        for many in [1, 64, 65, 128, 129, 1000] {
            let rules = (0..many).map(|n| few(n, 0xff00_ff81, ((n << 16) | (n % 2)) << 8 | n & 0x81));
            let bits = Bits::new(rules.rev().collect());
            for n in 0..many {
                let first = (0..many).find(|other| {
                    let of = |n: u64| (((n << 16) | (n % 2)) << 8 | n & 0x81) & 0xff00_ff81;
                    of(*other) == of(n)
                });
                assert_eq!(
                    find(&bits, ((n << 16) | (n % 2)) << 8 | n & 0x81 | 0x00aa_007e, 1),
                    first,
                    "{many}"
                );
            }
            assert_eq!(find(&bits, 0x0000_0200, 1), None);
        }
    }

    #[test]
    fn ports_and_their_ranges() {
        let rule = |number, mask: u64, value: u64, first: u64, last: u64| {
            let mut few = few(number, 0, 0);
            few.mask.set(Field::DstPort, mask);
            few.entry.value.set(Field::DstPort, value);
            few.entry.ports = Ports(Ports::ANY.0 & 0xffff_ffff | (last << 16 | first) << 32);
            few
        };
        let rules = [
            rule(0, 0, 0, 1024, 65535),
            rule(1, 0xffff, 53, 0, 65535),
            rule(2, 0, 0, 0, 5),
            rule(3, 0xff00, 0x0300, 0, 65535),
            rule(4, 0x00f1, 0x0011, 0, 65535),
            rule(5, 0, 0, 0, 65535),
        ];
        let bits = Bits::new(rules.to_vec());
        assert_eq!(bits.strides.len(), 2, "the port, and a byte for the mask that is no prefix");
        for port in (0..2000).chain((2000..=65535).step_by(97)) {
            let first = match port {
                1024.. => 0,
                53 => 1,
                ..=5 => 2,
                0x300..=0x3ff => 3,
                _ if port & 0xf1 == 0x11 => 4,
                _ => 5,
            };
            let (mut key, mut found) = (Key::default(), [Found::NOTHING]);
            key.set(Field::DstPort, port);
            bits.find_many(&[key], Scope { version: 1, first: 0 }, &mut found);
            assert_eq!(found[0].number, first, "{port}");
        }
    }

    #[test]
    fn rules_count_in_their_versions() {
        let mut old = few(3, 0xff, 7);
        old.died = 5;
        let mut new = few(4, 0xff, 7);
        new.entry.born = 5;
        let bits = Bits::new(vec![new, old, few(9, 0, 0)]);
        assert_eq!([0, 1, 4, 5, 6].map(|v| find(&bits, 7, v)), [None, Some(3), Some(3), Some(4), Some(4)]);
        assert_eq!((find(&bits, 8, 1), find(&Bits::default(), 7, 1)), (Some(9), None));
    }
}
