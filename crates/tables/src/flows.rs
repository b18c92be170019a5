//! A table of flows: what a translator of addresses or a load balancer remembers of each connection.
//!
//! A flow has two entries, one for each direction. An entry is found by what packets of its direction have
//! in their headers (the [`Key`]) and says what is to be there instead (the [`Tuple`]). The key of the other
//! direction follows from that: source and destination of the tuple swapped. So nothing else is kept, and an
//! entry of 32 bytes is half a cache line.
//!
//! **Sharing.** All workers find entries, without a lock and without writing, but for the time and the flags
//! of an entry, which [`Flows::touch`] stores when they have changed. Adding and removing hold the locks of
//! the parts of the table, of 16, where the two entries belong. An entry that is being changed while it is
//! read is not found; whoever finds nothing adds, and adding looks again under the lock. So a reader may
//! miss, but never sees half of one flow and half of another: it reads the key again after the rest.
//!
//! **Growth.** Memory comes in segments of 512 entries. A part of the table has a directory of segments, that
//! is indexed by the low bits of the hash (extendible hashing). A segment without room for an entry is split
//! by one more bit of the hash, which moves at most 512 entries, each to the same place in the new segment.
//! No segment is ever given back while the table lives, so that readers need no protection. In its segment an
//! entry has one of 32 places; the *tags* of these, 16 bits of the hash for each, fill one cache line, which
//! shows where the entry is, or that there is none. The tags of all entries lie together and are a sixteenth
//! of the table, which the processor's cache may hold when it cannot hold the entries.
//!
//! The caller passes the time in, in units of its choice, of which 24 bits are kept, and decides what the
//! flags mean.

mod entry;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize, fence};
use std::sync::{Mutex, MutexGuard};

use locks::IgnorePoison;

use crate::mem::{ALIGN, Zeroed};
use crate::search::equal16;
use crate::seed::seeds;
pub use entry::{Both, Found, Key, LONGEST, New, Refused, Tuple};
use entry::{FLAGS, GENERATION, KIND, MARK, NOTED, OUTPUT, OWNER, REPLY, WITHOUT_GENERATION, since};

/// Parts of the table that have locks of their own.
const PARTS: usize = 16;
/// 32-bit words in an entry.
const WORDS: usize = 8;
/// Entries in a segment.
const ENTRIES: usize = 512;
const SEGMENT: usize = ENTRIES * WORDS;
/// Places that an entry may have in its segment: their tags are a cache line.
const PLACES: usize = 32;
/// Lines of tags in a segment, and the words of such a line.
const TAG_LINES: usize = ENTRIES / PLACES;
const TAG_WORDS: usize = PLACES / 2;
/// The most bits of the hash that choose a segment of a part: four times as many segments as there can be, on
/// average.
const DIRECTORY_BITS: u32 = 16;
/// The most flows of any table.
pub const MOST_FLOWS: usize = 1 << 24;

#[cfg(not(miri))]
type Memory = Zeroed<{ PARTS * SEGMENT * 2 }, { 1 << 30 }>;
#[cfg(miri)]
type Memory = Zeroed<{ PARTS * SEGMENT * 2 }, { PARTS * SEGMENT * 4 }>;
type Directory = Zeroed<{ PARTS << DIRECTORY_BITS }, { PARTS << DIRECTORY_BITS }>;
#[cfg(not(miri))]
type Tags = Zeroed<{ PARTS * SEGMENT * 2 / TAG_WORDS }, { (1 << 30) / TAG_WORDS }>;
#[cfg(miri)]
type Tags = Zeroed<{ PARTS * SEGMENT * 2 / TAG_WORDS }, { PARTS * SEGMENT * 4 / TAG_WORDS }>;

/// Entries in a line of the processor's cache.
const PER_CACHE_LINE: usize = 64 / (WORDS * size_of::<u32>());
/// The other directions of so many flows are loaded into the cache together when the table is looked over.
const TOGETHER: usize = 32;

/// From which size of the table on large pages are worth their memory.
const LARGE: usize = 64;

/// Where looking over a table has got to; a value for each thread that does it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    part: usize,
    at: usize,
}

/// What only the holder of a part's lock uses: how many bits of the hash are the same in all entries of a
/// segment, for each item of the directory.
struct Depths(Vec<u8>);

struct Part {
    /// One less than the length of its directory.
    mask: AtomicU32,
    writer: Mutex<Depths>,
}

/// One part or two that are locked.
struct Locked<'a> {
    low: (usize, MutexGuard<'a, Depths>),
    high: Option<MutexGuard<'a, Depths>>,
}

impl Locked<'_> {
    /// Of one of the parts.
    fn depths(&mut self, part: usize) -> &mut Depths {
        match &mut self.high {
            Some(high) if part != self.low.0 => high,
            _ => &mut self.low.1,
        }
    }
}

/// The table.
pub struct Flows {
    entries: Memory,
    tags: Tags,
    parts: [Part; PARTS],
    /// Of each part, `1 << DIRECTORY_BITS` numbers of segments.
    directory: Directory,
    /// How many segments are in use.
    segments: Mutex<usize>,
    seeds: [u64; 4],
    flows: AtomicUsize,
    limit: AtomicUsize,
}

/// The part of the table where a hash belongs.
#[inline(always)]
fn part_of(hash: u64) -> usize {
    (hash >> 60) as usize
}

/// The line of tags in its segment where an entry belongs.
#[inline(always)]
fn line_of(hash: u64) -> usize {
    (hash >> 32) as usize % TAG_LINES
}

/// What the hash of an entry looks like among the tags; 0 is a place without an entry.
#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    ((hash >> 40) as u16).max(1)
}

/// The hash of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hash(u64);

/// Where an entry of a key belongs, and what its tag is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    line: u32,
    tag: u16,
}

impl Wanted {
    /// The places of its line with a tag.
    #[inline(always)]
    fn places(self, tags: &Tags, tag: u16) -> Places {
        Places { first: self.line * PLACES as u32, which: equal16(tags, self.line as usize, tag) }
    }
}

/// Where an entry may be: at the places of a line whose tag is that of the entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    /// The first entry of the line.
    first: u32,
    /// A bit for each place.
    which: u32,
}

impl Places {
    /// Whether there are none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.which == 0
    }
}

impl Iterator for Places {
    type Item = usize;
    /// The number of an entry.
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let place = self.which.trailing_zeros();
        let at = self.first + place;
        (self.which != 0).then(|| {
            self.which &= self.which - 1;
            at as usize
        })
    }
}

/// A flow that is idle, in one direction at least, and where its other direction may be.
#[derive(Debug, Default)]
struct Idle {
    part: usize,
    key: Key,
    forward: Found,
    hash: u64,
    wanted: Wanted,
    places: Places,
}

/// Puts a segment into a part's directory.
fn set_item(directory: &Directory, part: usize, at: usize, segment: usize) {
    for item in directory.slice(part << DIRECTORY_BITS | at, 1) {
        item.store(segment as u32, Release);
    }
}

impl Flows {
    /// An empty table for up to `limit` flows, at most [`MOST_FLOWS`]; `None` if there is no memory.
    #[must_use]
    pub fn new(limit: usize) -> Option<Self> {
        let (entries, tags) = (Memory::new(PARTS * SEGMENT)?, Tags::new(PARTS * TAG_LINES * TAG_WORDS)?);
        let directory = Directory::new(PARTS << DIRECTORY_BITS)?;
        for part in 0..PARTS {
            // Each part begins with a segment.
            set_item(&directory, part, 0, part);
        }
        let part = || Part { mask: AtomicU32::new(0), writer: Mutex::new(Depths(vec![0])) };
        Some(Self {
            entries,
            tags,
            parts: std::array::from_fn(|_| part()),
            directory,
            segments: Mutex::new(PARTS),
            seeds: seeds(),
            flows: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit.clamp(1, MOST_FLOWS)),
        })
    }

    /// The same table, empty still, with a hash that does not change from run to run: for simulated time,
    /// where nobody outside chooses keys that collide.
    #[must_use]
    pub fn with_fixed_hash(mut self) -> Self {
        self.seeds = [1, 2, 3, 4].map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self
    }

    /// How many flows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flows.load(Relaxed)
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many there may be.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }
    /// Changes how many there may be, at most [`MOST_FLOWS`]. Those that are too many stay until they are
    /// removed.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit.clamp(1, MOST_FLOWS), Relaxed);
    }
    /// Bytes that the entries take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        *self.segments.lock().ignore_poison() * (SEGMENT + TAG_LINES * TAG_WORDS) * size_of::<u32>()
    }

    #[inline(always)]
    fn hash(&self, key: &Key) -> u64 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let Key { tuple: Tuple { src, dst, ports }, kind } = *key;
        let [a, b, c, d] = self.seeds;
        let addresses = u64::from(src) << 32 | u64::from(dst);
        let ports = u64::from(ports) << 8 | u64::from(kind);
        fold(fold(addresses ^ a, ports ^ b) ^ c, d | 1)
    }

    #[inline(always)]
    fn segment(&self, hash: u64) -> usize {
        let part = part_of(hash);
        let mask = u64::from(self.parts[part].mask.load(Acquire));
        self.item(part, (hash & mask) as usize)
    }

    /// The segment at a place of a part's directory. Who sees an older one finds nothing there, or an entry
    /// that has been copied.
    #[inline(always)]
    fn item(&self, part: usize, at: usize) -> usize {
        self.directory.load_masked(part << DIRECTORY_BITS | at) as usize
    }

    /// Loads the directory's item of a hash into the cache.
    #[inline(always)]
    fn prefetch_item(&self, hash: u64) {
        let part = part_of(hash);
        let mask = u64::from(self.parts[part].mask.load(Relaxed));
        self.directory.prefetch(part << DIRECTORY_BITS | (hash & mask) as usize);
    }

    /// What is looked for with this hash.
    #[inline(always)]
    fn wanted(&self, hash: u64) -> Wanted {
        let line = self.segment(hash) * TAG_LINES + line_of(hash);
        Wanted { line: line as u32, tag: tag_of(hash) }
    }

    /// Begins to look for a key: loads what says where its tags are into the cache. What is returned is for
    /// [`Flows::tags()`].
    ///
    /// Each step is to be taken for many keys at a time, in a loop that does nothing else. A processor waits
    /// for the address of memory that it is to load, which takes long in a large table in a virtual machine,
    /// and finds several addresses at a time only if the instructions that ask for them are close to each
    /// other.
    #[inline(always)]
    pub fn begin(&self, key: &Key) -> Hash {
        let hash = self.hash(key);
        self.prefetch_item(hash);
        Hash(hash)
    }

    /// Loads the tags into the cache. What is returned is for [`Flows::places`].
    #[inline(always)]
    pub fn tags(&self, Hash(hash): Hash) -> Wanted {
        let wanted = self.wanted(hash);
        self.tags.prefetch(wanted.line as usize * TAG_WORDS);
        wanted
    }

    /// Where the entry may be, whose memory is loaded into the cache. What is returned is for
    /// [`Flows::find`].
    #[inline(always)]
    pub fn places(&self, wanted: Wanted) -> Places {
        let places = wanted.places(&self.tags, wanted.tag);
        if let Some(at) = places.clone().next() {
            self.entries.prefetch(at * WORDS);
        }
        places
    }

    /// Loads the memory where an entry would be added into the cache; [`Flows::tags()`] has loaded the tags.
    #[inline(always)]
    pub fn prefetch_room(&self, wanted: Wanted) {
        if let Some(at) = wanted.places(&self.tags, 0).next() {
            self.entries.prefetch(at * WORDS);
        }
    }

    /// The words of the entry with this number, to be read.
    #[inline(always)]
    fn words(&self, at: usize) -> &[AtomicU32; WORDS] {
        self.entries.chunk_masked(at * WORDS)
    }

    /// The words of the entry with this number, to be read and written.
    #[inline(always)]
    fn entry(&self, at: usize) -> &[AtomicU32; WORDS] {
        // Beyond what is writable this would panic, but all segments of the directory are.
        self.entries.slice(at * WORDS, WORDS).first_chunk().expect("a slice of that length")
    }

    /// The entry of a hash.
    #[inline]
    fn find_hashed(&self, key: &Key, hash: u64) -> Option<Found> {
        self.find(key, self.places(self.wanted(hash)))
    }

    #[inline(always)]
    fn load(&self, at: usize, key: &Key) -> Option<Found> {
        let words = self.words(at);
        let matches = |control: u32| {
            let Tuple { src, dst, ports } = key.tuple;
            let kind = (control ^ u32::from(key.kind)) & KIND;
            kind | words[0].load(Relaxed) ^ src
                | words[1].load(Relaxed) ^ dst
                | words[2].load(Relaxed) ^ ports
                == 0
        };
        let control = words[3].load(Acquire);
        if !matches(control) {
            return None;
        }
        let to =
            Tuple { src: words[4].load(Relaxed), dst: words[5].load(Relaxed), ports: words[6].load(Relaxed) };
        let state = words[7].load(Relaxed);
        // Had another thread put another flow there meanwhile, this shows it.
        fence(Acquire);
        let again = words[3].load(Relaxed);
        (again == control && matches(again)).then_some(Found { to, at: at as u32, control, state })
    }

    /// Finds the entry of a key at the places that [`Flows::places`] has returned.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, key: &Key, mut places: Places) -> Option<Found> {
        places.find_map(|at| self.load(at, key))
    }

    /// Finds the entry of a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Found> {
        self.find_hashed(key, self.hash(key))
    }

    /// Notes that a packet of an entry has come, and which flags are set now. That is stored if it has
    /// changed the flags, or the time by `coarse` at least.
    #[inline(always)]
    pub fn touch(&self, found: &Found, now: u32, flags: u8, coarse: u32) {
        if found.idle(now) >= coarse || flags != found.flags() {
            let words = self.entry(found.at as usize);
            // Unless another thread has put another flow there meanwhile.
            if words[3].load(Relaxed) == found.control {
                words[7].store(now << FLAGS | u32::from(flags), Relaxed);
            }
        }
    }

    /// Locks two parts, in an order that is the same for everybody.
    fn lock(&self, a: usize, b: usize) -> Locked<'_> {
        let (low, high) = (a.min(b), a.max(b));
        let lock = |part: usize| self.parts[part].writer.lock().ignore_poison();
        Locked { low: (low, lock(low)), high: (high > low).then(|| lock(high)) }
    }

    /// Finds the entry of a key, and waits for whoever is changing it: what is not found here is not there.
    #[must_use]
    pub fn find_surely(&self, key: &Key) -> Option<Found> {
        let hash = self.hash(key);
        let _locked = self.lock(part_of(hash), part_of(hash));
        self.find_hashed(key, hash)
    }

    /// Adds a flow.
    ///
    /// # Errors
    /// Nothing has changed then.
    pub fn add(&self, new: &New, now: u32) -> Result<Found, Refused> {
        let reply = new.reply_key();
        let (hash, reply_hash) = (self.hash(&new.key), self.hash(&reply));
        let mut locked = self.lock(part_of(hash), part_of(reply_hash));
        if self.find_hashed(&new.key, hash).is_some() {
            return Err(Refused::Exists);
        }
        // A flow from an address and port to itself has one entry.
        let both = reply != new.key;
        if both && self.find_hashed(&reply, reply_hash).is_some() {
            return Err(Refused::ReplyTaken);
        }
        if self.flows.fetch_add(1, Relaxed) >= self.limit() {
            self.flows.fetch_sub(1, Relaxed);
            return Err(Refused::Full);
        }
        let control = |output: u8| {
            let (owner, mark) = (u32::from(new.owner) << OWNER, u32::from(new.mark) << MARK);
            u32::from(new.key.kind) & KIND | u32::from(output) << OUTPUT | owner | mark
        };
        let state = now << FLAGS;
        let [forward_output, reply_output] = new.outputs;
        let value = (control(reply_output) | REPLY, new.key.tuple.reversed(), state);
        let replies =
            if both { self.add_one(&mut locked, reply_hash, &reply, value).map(drop) } else { Ok(()) };
        // A flow to itself is found by its replies' entry, as they come later: only its first packet is no
        // reply.
        let kept = if both { forward_output } else { reply_output };
        let value = (control(kept), new.to, state);
        let added = replies.and_then(|()| self.add_one(&mut locked, hash, &new.key, value));
        if added.is_err() {
            // The entry of replies may have been moved by a split.
            if let Some(replies) = both.then(|| self.find_hashed(&reply, reply_hash)).flatten() {
                self.clear(replies.at as usize);
            }
            self.flows.fetch_sub(1, Relaxed);
        }
        added.map(|found| found.with_output(forward_output))
    }

    /// Adds an entry that is not there, in a part that is locked.
    fn add_one(
        &self,
        locked: &mut Locked<'_>,
        hash: u64,
        key: &Key,
        value: (u32, Tuple, u32),
    ) -> Result<Found, Refused> {
        let part = part_of(hash);
        loop {
            if let Some(at) = self.wanted(hash).places(&self.tags, 0).next() {
                return Ok(self.write(at, hash, key, value));
            }
            self.split(locked.depths(part), part, hash)?;
        }
    }

    fn write(&self, at: usize, hash: u64, key: &Key, (control, to, state): (u32, Tuple, u32)) -> Found {
        let words = self.entry(at);
        let generation = (words[3].load(Relaxed) >> GENERATION).wrapping_add(1) << GENERATION;
        let control = control | generation;
        // What is written from here on is seen after the clearing of this entry, by those who read it now.
        fence(Release);
        let Tuple { src, dst, ports } = key.tuple;
        let values = [src, dst, ports, 0, to.src, to.dst, to.ports, state];
        for (n, (word, value)) in words.iter().zip(values).enumerate() {
            if n != 3 {
                word.store(value, Relaxed);
            }
        }
        words[3].store(control, Release);
        self.set_tag(at, tag_of(hash));
        Found { to, at: at as u32, control, state }
    }

    /// Stores the tag of an entry; the holder of the lock is the only one who does.
    fn set_tag(&self, at: usize, tag: u16) {
        for word in self.tags.slice(at / 2, 1) {
            let shift = at % 2 * 16;
            let other = word.load(Relaxed) & !(0xffff << shift);
            word.store(other | u32::from(tag) << shift, Release);
        }
    }

    fn clear(&self, at: usize) {
        self.set_tag(at, 0);
        let control = &self.entry(at)[3];
        control.store(control.load(Relaxed) >> GENERATION << GENERATION, Release);
    }

    /// The key of the entry there, and the entry, if there is one.
    fn read(&self, at: usize) -> Option<(Key, Found)> {
        let words = self.entry(at);
        let kind = (words[3].load(Acquire) & KIND) as u8;
        let tuple =
            Tuple { src: words[0].load(Relaxed), dst: words[1].load(Relaxed), ports: words[2].load(Relaxed) };
        let key = Key { tuple, kind };
        (kind != 0).then(|| self.load(at, &key)).flatten().map(|found| (key, found))
    }

    /// Splits the segment where a hash belongs. Readers find entries in the old one until they have been
    /// copied, and the new one is in the directory before they are cleared.
    fn split(&self, Depths(depths): &mut Depths, part: usize, hash: u64) -> Result<(), Refused> {
        let length = depths.len();
        let at = (hash & (length as u64 - 1)) as usize;
        let depth = u32::from(depths[at]);
        if depth >= DIRECTORY_BITS {
            return Err(Refused::NoMemory);
        }
        let old = self.segment(hash) * ENTRIES;
        let new = self.another_segment()?;
        if 1 << depth == length {
            for n in 0..length {
                set_item(&self.directory, part, length + n, self.item(part, n));
            }
            depths.extend_from_within(..);
            self.parts[part].mask.store((2 * length - 1) as u32, Release);
        }
        let mut moved = Vec::with_capacity(ENTRIES);
        for n in 0..ENTRIES {
            let Some((key, found)) = self.read(old + n) else { continue };
            let hash = self.hash(&key);
            if hash >> depth & 1 == 1 {
                let control = found.control & WITHOUT_GENERATION;
                self.write(new * ENTRIES + n, hash, &key, (control, found.to, found.state));
                moved.push(old + n);
            }
        }
        let (same, bit) = ((1usize << depth) - 1, 1usize << depth);
        for (n, item) in depths.iter_mut().enumerate() {
            if n & same == at & same {
                *item = depth as u8 + 1;
                if n & bit != 0 {
                    set_item(&self.directory, part, n, new);
                }
            }
        }
        moved.into_iter().for_each(|at| self.clear(at));
        Ok(())
    }

    fn another_segment(&self) -> Result<usize, Refused> {
        let mut segments = self.segments.lock().ignore_poison();
        let new = *segments;
        let end = (new + 1) * SEGMENT;
        let tags = end / PLACES * TAG_WORDS / WORDS;
        let fits = end <= self.entries.mask() + 1 && tags <= self.tags.mask() + 1;
        // Memory is made writable in large pages, of which a segment is a part.
        let grown = |at: usize| !at.is_multiple_of(ALIGN / size_of::<u32>());
        if !fits
            || !(grown(new * SEGMENT) || self.entries.grow(end))
            || !(grown(new * TAG_LINES * TAG_WORDS) || self.tags.grow(tags))
        {
            return Err(Refused::NoMemory);
        }
        // Before anybody reads: for large pages.
        self.entries.touch(new * SEGMENT);
        self.tags.touch(new * TAG_LINES * TAG_WORDS);
        *segments += 1;
        // What comes later is in large pages from the beginning.
        if *segments == LARGE {
            self.entries.advise_huge();
            self.tags.advise_huge();
        }
        Ok(new)
    }

    /// Notes for both entries of a flow that the caller keeps more of it elsewhere ([`Found::is_noted`]). Who
    /// has found an entry before does not see that. Returns whether there is such a flow.
    pub fn note(&self, key: &Key) -> bool {
        let hash = self.hash(key);
        let Some(found) = self.find_hashed(key, hash) else { return false };
        let other = found.other_key(key);
        let other_hash = self.hash(&other);
        let _locked = self.lock(part_of(hash), part_of(other_hash));
        // It may be another flow by now.
        let to = found.to;
        let Some(found) = self.find_hashed(key, hash).filter(|found| found.to == to) else { return false };
        for found in self.find_hashed(&other, other_hash).iter().chain([&found]) {
            self.entry(found.at as usize)[3].store(found.control | NOTED, Release);
        }
        true
    }

    /// Removes the flow whose packets, of either direction, have this key. Returns the entry that was found
    /// by it.
    pub fn remove(&self, key: &Key) -> Option<Found> {
        let hash = self.hash(key);
        let found = self.find_hashed(key, hash)?;
        let other = found.other_key(key);
        let other_hash = self.hash(&other);
        let _locked = self.lock(part_of(hash), part_of(other_hash));
        // It may be another flow by now.
        let to = found.to;
        let found = self.find_hashed(key, hash).filter(|found| found.to == to)?;
        let other_found = self
            .find_hashed(&other, other_hash)
            .filter(|other| other.to.reversed() == key.tuple && other.at != found.at);
        self.clear_both(&found, other_found.as_ref());
        Some(found)
    }

    /// Removes a flow that [`Flows::look_over`] has shown, unless it has been removed or moved since, if
    /// `still` says so of what it is now: nobody changes it any more but by [`Flows::touch`].
    pub fn remove_seen(&self, both: &Both, still: impl FnOnce(&Both) -> bool) -> bool {
        let _locked = self.lock(both.parts[0], both.parts[1]);
        let again = |seen: &Found, key: &Key| {
            self.load(seen.at as usize, key).filter(|found| found.control == seen.control)
        };
        let Some(forward) = again(&both.forward, &both.key) else { return false };
        let other = both.forward.other_key(&both.key);
        let reply = match &both.reply {
            // It was just being moved.
            None => self.find_hashed(&other, self.hash(&other)),
            Some(reply) => match again(reply, &other) {
                None => return false,
                reply => reply,
            },
        };
        let removes = still(&Both { forward, reply, ..*both });
        if removes {
            self.clear_both(&forward, reply.filter(|reply| reply.at != forward.at).as_ref());
        }
        removes
    }

    fn clear_both(&self, found: &Found, other: Option<&Found>) {
        self.clear(found.at as usize);
        other.iter().for_each(|other| self.clear(other.at as usize));
        self.flows.fetch_sub(1, Relaxed);
    }

    /// How many times 32 entries there is room for, which is what [`Flows::look_over`] counts.
    #[must_use]
    pub fn lines(&self) -> usize {
        *self.segments.lock().ignore_poison() * TAG_LINES
    }

    /// Looks over up to `lines` times 32 entries from a cursor on, within the parts of the table, of 16, that
    /// `mine` accepts. `each` sees each flow whose forward packets have been absent for `idle` at least; it
    /// may remove it ([`Flows::remove_seen`]). Returns whether the end of the table has been reached; the
    /// cursor is at the beginning then.
    pub fn look_over(
        &self,
        cursor: &mut Cursor,
        lines: usize,
        (now, idle): (u32, u32),
        mine: impl Fn(usize) -> bool,
        mut each: impl FnMut(&Both),
    ) -> bool {
        let mut seen = Vec::with_capacity(TOGETHER + PLACES);
        let mut left = lines;
        let mut ends = true;
        'parts: while let Some(part) = self.parts.get(cursor.part) {
            let directory = part.mask.load(Acquire) as usize + 1;
            while mine(cursor.part) && cursor.at < directory * TAG_LINES {
                let Some(rest) = left.checked_sub(1) else {
                    ends = false;
                    break 'parts;
                };
                left = rest;
                let (item, line) = (cursor.at / TAG_LINES, cursor.at % TAG_LINES);
                cursor.at += 1;
                let segment = self.item(cursor.part, item);
                // The directory has a segment more than once: it is looked over where it stands first.
                let bits = item.checked_ilog2().map_or(0, |bit| item - (1 << bit));
                let before = item > 0 && self.item(cursor.part, bits) == segment;
                if before {
                    cursor.at = (item + 1) * TAG_LINES;
                    continue;
                }
                self.look_at(cursor.part, segment * TAG_LINES + line, now, idle, &mut seen);
                if seen.len() >= TOGETHER {
                    self.show(&mut seen, &mut each);
                }
            }
            *cursor = Cursor { part: cursor.part + 1, at: 0 };
        }
        self.show(&mut seen, &mut each);
        if ends {
            *cursor = Cursor::default();
        }
        ends
    }

    /// Looks at the entries whose tags are in a line, and adds those that are idle.
    fn look_at(&self, part: usize, line: usize, now: u32, idle: u32, seen: &mut Vec<Idle>) {
        // The next line's, while this one's are read.
        self.tags.prefetch((line + 1) * TAG_WORDS);
        for entry in (0..PLACES).step_by(PER_CACHE_LINE) {
            self.entries.prefetch(((line + 1) * PLACES + entry) * WORDS);
        }
        for at in (Places { first: (line * PLACES) as u32, which: !equal16(&self.tags, line, 0) }) {
            let words = self.words(at);
            let old = since(now, words[7].load(Relaxed) >> FLAGS) >= idle;
            if old
                && words[3].load(Relaxed) & REPLY == 0
                && let Some((key, forward)) = self.read(at)
            {
                let hash = self.hash(&forward.other_key(&key));
                self.prefetch_item(hash);
                seen.push(Idle { part, key, forward, hash, ..Idle::default() });
            }
        }
    }

    /// Shows what is idle, and forgets it. Of all of them the other directions are loaded into the cache
    /// together: they are anywhere in the table.
    fn show(&self, seen: &mut Vec<Idle>, each: &mut impl FnMut(&Both)) {
        for idle in seen.iter_mut() {
            idle.wanted = self.wanted(idle.hash);
            self.tags.prefetch(idle.wanted.line as usize * TAG_WORDS);
        }
        for idle in seen.iter_mut() {
            idle.places = self.places(idle.wanted);
        }
        for Idle { part, key, forward, hash, places, .. } in seen.drain(..) {
            let reply = self.find(&forward.other_key(&key), places);
            each(&Both { key, forward, reply, parts: [part, part_of(hash)] });
        }
    }

    /// Calls `each` for all entries of the table.
    pub fn for_each(&self, mut each: impl FnMut(&Key, &Found)) {
        let segments = *self.segments.lock().ignore_poison();
        for at in 0..segments * ENTRIES {
            if let Some((key, found)) = self.read(at) {
                each(&key, &found);
            }
        }
    }
}
