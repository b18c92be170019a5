//! The bits that some rules look at, side by side in a few words, and those that all of them demand alike.

use crate::bits::Few;
use crate::key::{FIELDS, Field, Key, WORDS};
use crate::ports::{self, Ports};

/// The most words.
pub(crate) const MOST: usize = 8;

/// Bits of a field that rules look at: where they are in a key, and where in the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    word: usize,
    shift: u32,
    /// How many bits.
    pub(crate) bits: u32,
    pub(crate) column: usize,
    /// The number of its lowest bit there.
    pub(crate) at: u32,
    /// Rules have ranges of it, which are there in [`Ports`].
    pub(crate) ports: Option<u32>,
    /// Which address it is a part of, if any: the number of the side.
    pub(crate) side: Option<usize>,
}

impl Piece {
    /// The bits themselves.
    fn mask(self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }

    /// What a word of the columns has of it.
    pub(crate) fn of(self, columns: &[u64]) -> u64 {
        columns[self.column] >> self.at & self.mask()
    }
}

/// A rule in columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    pub(crate) value: [u64; MOST],
    pub(crate) mask: [u64; MOST],
    pub(crate) ports: Ports,
}

#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Words of a key, and the bits that all rules demand there, with their values.
    common: Vec<(usize, u64, u64)>,
    pub(crate) pieces: Vec<Piece>,
    count: usize,
}

/// The bits of a port of which rules have ranges, if they do: where the range is in [`Ports`].
fn ranged<'a, I: Iterator<Item = &'a Few>>(rules: impl Fn() -> I) -> impl Fn(usize, u32) -> Option<u32> {
    let has = |at: u32| rules().any(|few| few.entry.ports.range(at) != Ports::ANY.range(at));
    let fields = ports::FIELDS.map(|(field, at)| (field.place(), at, has(at)));
    move |word, shift| {
        let place =
            |(place, _, has): &&((usize, u32, u32), u32, bool)| *has && (place.0, place.1) == (word, shift);
        fields.iter().find(place).map(|(_, at, _)| *at)
    }
}

impl Columns {
    /// Those of some rules. None: they would be more than [`MOST`].
    pub(crate) fn new<'a, I: Iterator<Item = &'a Few>>(rules: impl Fn() -> I) -> Option<Self> {
        let ranged = ranged(&rules);
        let (mut any, mut all, mut ones, mut zeros) =
            ([0u64; WORDS], [u64::MAX; WORDS], [0u64; WORDS], [0u64; WORDS]);
        for few in rules() {
            for word in 0..WORDS {
                let (mask, value) = (few.mask.0[word], few.entry.value.0[word]);
                any[word] |= mask;
                all[word] &= mask;
                ones[word] |= mask & value;
                zeros[word] |= mask & !value;
            }
        }
        let mut new = Self::default();
        let mut pieces = Vec::new();
        for field in FIELDS.into_iter().chain([Field::Layers]) {
            let (word, shift, bits) = field.place();
            let whole = (u64::MAX >> (u64::BITS - bits)) << shift;
            let ports = ranged(word, shift);
            let alike = if ports.is_some() { 0 } else { whole & all[word] & !(ones[word] & zeros[word]) };
            if alike != 0 {
                new.common.push((word, alike, ones[word] & alike));
            }
            let used = if ports.is_some() { whole } else { any[word] & whole & !alike };
            if used != 0 {
                let first = used.trailing_zeros();
                let bits = u64::BITS - used.leading_zeros() - first;
                let side = match field {
                    Field::SrcHigh | Field::SrcLow => Some(0),
                    Field::DstHigh | Field::DstLow => Some(1),
                    Field::EthSrc => Some(2),
                    Field::EthDst => Some(3),
                    _ => None,
                };
                pieces.push(Piece { word, shift: first, bits, column: 0, at: 0, ports, side });
            }
        }
        // The widest first, each where there is room.
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.bits));
        let mut taken: Vec<u32> = vec![0];
        for piece in &mut pieces {
            let at = taken.iter().position(|taken| taken + piece.bits <= u64::BITS).unwrap_or_else(|| {
                taken.push(0);
                taken.len() - 1
            });
            (piece.column, piece.at) = (at, taken[at]);
            taken[at] += piece.bits;
        }
        // Common bits of one word are looked at together.
        new.common.sort_unstable();
        new.common.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                (first.1, first.2) = (first.1 | next.1, first.2 | next.2);
            }
            same
        });
        (new.pieces, new.count) = (pieces, taken.len());
        (new.count <= MOST).then_some(new)
    }

    /// How many words there are, at least one.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether rules have ranges of ports.
    pub(crate) fn have_ranges(&self) -> bool {
        self.pieces.iter().any(|piece| piece.ports.is_some())
    }

    /// Whether a key has what all rules demand.
    #[inline]
    pub(crate) fn suit(&self, key: &Key) -> bool {
        self.common.iter().fold(0, |differ, (word, bits, value)| differ | key.0[*word] & bits ^ value) == 0
    }

    /// Adds what keys have to columns that are 0.
    #[inline]
    pub(crate) fn pack<const N: usize>(&self, keys: &[Key], packed: &mut [[u64; N]]) {
        for piece in &self.pieces {
            let (mask, column) = (piece.mask(), piece.column % N);
            for (key, packed) in keys.iter().zip(packed.iter_mut()) {
                packed[column] |= (key.0[piece.word] >> piece.shift & mask) << piece.at;
            }
        }
    }

    fn pack_key(&self, key: &Key) -> [u64; MOST] {
        let mut packed = [[0; MOST]];
        self.pack(std::slice::from_ref(key), &mut packed);
        packed[0]
    }

    /// A rule in columns.
    pub(crate) fn pack_rule(&self, few: &Few) -> Packed {
        let (mut mask, mut ports) = (few.mask, few.entry.ports);
        for (field, at) in ports::FIELDS {
            let (word, shift, _) = field.place();
            let is_ranged = self.pieces.iter().any(|piece| piece.ports == Some(at));
            let bits = mask.get(field);
            if is_ranged && ports::is_prefix(bits) {
                // As a range it says the same.
                let value = few.entry.value.get(field) & bits;
                let range = crate::rule::Range { field, first: value, last: value | !bits & field.most() };
                ports = ports.within(&range).unwrap_or(Ports::NONE);
                mask.0[word] &= !(field.most() << shift);
            }
        }
        let (value, mask) = (self.pack_key(&few.entry.value), self.pack_key(&mask));
        let value = std::array::from_fn(|at| value[at] & mask[at]);
        Packed { value, mask, ports }
    }

    /// The mask and the value that a rule in columns has: [`Self::pack_rule`] the other way round.
    pub(crate) fn unpack(&self, value: &[u64], mask: &[u64]) -> (Key, Key) {
        let (mut masks, mut values) = (Key::default(), Key::default());
        for (word, bits, value) in &self.common {
            masks.0[*word] |= bits;
            values.0[*word] |= value;
        }
        for piece in &self.pieces {
            masks.0[piece.word] |= piece.of(mask) << piece.shift;
            values.0[piece.word] |= piece.of(value) << piece.shift;
        }
        (masks, values)
    }
}
