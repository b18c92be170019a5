//! The memory that both processes have.
//!
//! # What the `unsafe` here rests on
//!
//! 1. `base` is the start of `layout.bytes()` bytes, which are mapped, readable and writable as long as the
//!    `Region` lives, and aligned to a page. The memory is a sealed file: nobody can make it shorter.
//! 2. Every place is computed from the layout: a [`Place`] is made only for a ring that the layout has, and
//!    its functions mask the number of the slot. `layout.rs` has the test that all of them lie within.
//! 3. The peer may write at any time. So no reference to ordinary memory is ever made into the region: what
//!    is shared by agreement are atomics; frames are copied by pointers, and whatever comes of a copy while
//!    the peer writes is bytes, each of which is valid.

use crate::layout::{
    BUFFER, COOKIE, DESCRIPTOR, DESCRIPTORS, Direction, FLAGS, HEAD, LENGTH, Layout, OFFSET, POLLED, STRIDE,
    TAIL,
};
use crate::lines;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// What the memory is made of.
enum Backing {
    File(OwnedFd),
    /// Of this process alone, for tests.
    #[cfg(test)]
    Heap(std::alloc::Layout),
}

/// Memory with rings and buffers, which a peer may have too.
pub struct Region {
    base: NonNull<u8>,
    layout: Layout,
    backing: Backing,
}

// SAFETY: the memory is only accessed by atomics and copies (3), whichever thread does it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Region {
    /// Makes the memory, with empty rings in it.
    ///
    /// # Errors
    /// There is not as much.
    pub fn new(layout: Layout) -> io::Result<Arc<Self>> {
        let file = memfd_create(c"valiant-memif", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let bytes = layout.bytes();
        if u32::try_from(bytes).is_err() {
            // Descriptors have offsets of 32 bits.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // All of it is there from the start, so that no access finds memory exhausted.
        fallocate(&file, FallocateFlags::empty(), 0, bytes as i64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, of no memory that is in use.
        let base = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) }?;
        Ok(Self { base: base.cast(), layout, backing: Backing::File(file) }.prepared())
    }

    /// The same, of this process alone.
    #[cfg(test)]
    pub(crate) fn on_heap(layout: Layout) -> Arc<Self> {
        let memory = std::alloc::Layout::from_size_align(layout.bytes(), 4096).expect("a size");
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(memory) }).expect("memory");
        Self { base, layout, backing: Backing::Heap(memory) }.prepared()
    }

    /// Empty rings.
    fn prepared(self) -> Arc<Self> {
        let this = Arc::new(self);
        let layout = this.layout;
        for direction in [Direction::Out, Direction::In] {
            for ring in 0..layout.rings() {
                let Some(place) = Place::new(&this, direction, ring) else { continue };
                place.u32_at(0).store(COOKIE, Ordering::Relaxed);
                if direction == Direction::In {
                    place.u16_at(FLAGS).store(POLLED, Ordering::Relaxed);
                }
                for slot in 0..layout.slots() as u16 {
                    place.describe(slot, BUFFER as u32);
                }
            }
        }
        this
    }

    /// Its layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The file that it is, to be given to the peer.
    pub(crate) fn file(&self) -> Option<&OwnedFd> {
        match &self.backing {
            Backing::File(file) => Some(file),
            #[cfg(test)]
            Backing::Heap(_) => None,
        }
    }

    /// Writes anything anywhere, as a peer may do.
    #[cfg(test)]
    pub(crate) fn corrupt(&self, at: usize, with: u16) {
        let at = (at % self.layout.bytes()) & !1;
        // SAFETY: within the memory (1), and aligned.
        unsafe { self.base.add(at).cast::<AtomicU16>().as_ref() }.store(with, Ordering::Relaxed);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.backing {
            // SAFETY: it was mapped with this length, and nobody uses it any more.
            Backing::File(_) => drop(unsafe { munmap(self.base.cast(), self.layout.bytes()) }),
            #[cfg(test)]
            // SAFETY: it was allocated so, and nobody uses it any more.
            Backing::Heap(memory) => unsafe { std::alloc::dealloc(self.base.as_ptr(), *memory) },
        }
    }
}

/// One ring in the memory, with its buffers.
#[derive(Debug)]
pub(crate) struct Place {
    region: Arc<Region>,
    ring: usize,
    buffers: usize,
    mask: u16,
    /// Whether frames are written past the caches, and flushed from them when they were read.
    bypasses_caches: bool,
}

impl Place {
    /// A ring by its number; `None`: the layout does not have it.
    pub(crate) fn new(region: &Arc<Region>, direction: Direction, ring: usize) -> Option<Self> {
        let layout = region.layout;
        (ring < layout.rings()).then(|| Self {
            region: Arc::clone(region),
            ring: layout.ring(direction, ring),
            buffers: layout.buffers(direction, ring),
            mask: (layout.slots() - 1) as u16,
            bypasses_caches: lines::bypass_caches(),
        })
    }

    /// How many frames it holds.
    #[inline]
    pub(crate) fn slots(&self) -> u16 {
        self.mask + 1
    }

    #[inline]
    fn u16_at(&self, at: usize) -> &AtomicU16 {
        debug_assert!(at < DESCRIPTORS + DESCRIPTOR * usize::from(self.slots()) && at.is_multiple_of(2));
        // SAFETY: callers name places within the ring, which lies in the memory (1, 2); aligned, since rings
        // are; the peer and this side access it as an atomic.
        unsafe { self.region.base.add(self.ring + at).cast::<AtomicU16>().as_ref() }
    }

    #[inline]
    fn u32_at(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at < DESCRIPTORS + DESCRIPTOR * usize::from(self.slots()) && at.is_multiple_of(4));
        // SAFETY: as in `u16_at`.
        unsafe { self.region.base.add(self.ring + at).cast::<AtomicU32>().as_ref() }
    }

    #[inline]
    pub(crate) fn head(&self) -> &AtomicU16 {
        self.u16_at(HEAD)
    }

    #[inline]
    pub(crate) fn tail(&self) -> &AtomicU16 {
        self.u16_at(TAIL)
    }

    #[inline]
    fn descriptor(&self, slot: u16) -> usize {
        DESCRIPTORS + DESCRIPTOR * usize::from(slot & self.mask)
    }

    /// The flags of a slot's descriptor, as the peer has them.
    #[inline]
    pub(crate) fn flags(&self, slot: u16) -> u16 {
        self.u16_at(self.descriptor(slot)).load(Ordering::Relaxed)
    }

    /// The length in a slot's descriptor, as the peer has it.
    #[inline]
    pub(crate) fn length(&self, slot: u16) -> u32 {
        self.u32_at(self.descriptor(slot) + LENGTH).load(Ordering::Relaxed)
    }

    /// Writes the length in a slot's descriptor. The rest stays as it was made: a peer that changes it harms
    /// itself.
    #[inline]
    pub(crate) fn set_length(&self, slot: u16, length: u32) {
        self.u32_at(self.descriptor(slot) + LENGTH).store(length, Ordering::Relaxed);
    }

    /// Writes a slot's descriptor: its buffer, with this length.
    #[inline]
    pub(crate) fn describe(&self, slot: u16, length: u32) {
        let at = self.descriptor(slot);
        // No flags; region 0.
        self.u16_at(at).store(0, Ordering::Relaxed);
        self.u16_at(at + 2).store(0, Ordering::Relaxed);
        self.u32_at(at + LENGTH).store(length, Ordering::Relaxed);
        let offset = self.buffers + usize::from(slot & self.mask) * STRIDE;
        self.u32_at(at + OFFSET).store(offset as u32, Ordering::Relaxed);
    }

    /// Writes the descriptor of a slot whose frame has this length.
    #[inline]
    pub(crate) fn describe_sent(&self, slot: u16, length: u32) {
        if self.bypasses_caches {
            let offset = self.buffers + usize::from(slot & self.mask) * STRIDE;
            // As `describe` writes it.
            let descriptor = u128::from(length) << 32 | (offset as u128) << 64;
            // SAFETY: the slot's descriptor lies in the memory (1, 2), and begins at a multiple of its size.
            // The peer alone reads it, after this side's next store to the ring's head.
            unsafe {
                lines::store_block(
                    descriptor,
                    self.region.base.add(self.ring + self.descriptor(slot)).as_ptr(),
                )
            };
            return;
        }
        self.set_length(slot, length);
    }

    /// Has the peer see all that was written for it, up to a position.
    #[inline]
    pub(crate) fn publish(&self, head: u16) {
        if self.bypasses_caches {
            lines::fence();
        }
        self.head().store(head, Ordering::Release);
    }

    #[inline]
    fn buffer(&self, slot: u16) -> *mut u8 {
        let at = self.buffers + usize::from(slot & self.mask) * STRIDE;
        // SAFETY: a slot's buffer lies in the memory (1, 2).
        unsafe { self.region.base.add(at).as_ptr() }
    }

    /// Copies a frame into a slot's buffer; false if it is too long.
    #[inline]
    pub(crate) fn write(&self, slot: u16, frame: &[u8]) -> bool {
        if frame.len() > BUFFER {
            return false;
        }
        if self.bypasses_caches {
            // SAFETY: the buffer begins a cache line and has `BUFFER` bytes, which are whole lines and none
            // of which the frame is.
            unsafe { lines::store(frame, self.buffer(slot)) };
            return true;
        }
        // SAFETY: the frame has as many bytes; the buffer has `BUFFER`, none of which the frame is.
        unsafe { copy(frame.as_ptr(), self.buffer(slot), frame.len()) };
        true
    }

    /// Copies the first bytes of a slot's buffer, as many as there is room for.
    #[inline]
    pub(crate) fn read(&self, slot: u16, to: &mut [u8]) {
        let length = to.len().min(BUFFER);
        // SAFETY: the buffer has `BUFFER` bytes, `to` has `length` or more, none of which are the buffer's.
        unsafe { copy(self.buffer(slot), to.as_mut_ptr(), length) };
        if self.bypasses_caches {
            // SAFETY: the bytes are the buffer's; the processor is one that bypasses its caches.
            unsafe { lines::flush(self.buffer(slot), length) };
        }
    }

    /// Asks the cache for a slot's descriptor and the beginning of its buffer.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u16) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: prefetching has no effect on memory.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.buffer(slot).cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = slot;
    }
}

/// Copies `length` bytes. Frames are short and of any length: blocks of a constant size, of which the last
/// one overlaps the one before, cost no call and no loop over bytes.
///
/// # Safety
/// `from` can be read and `to` be written for `length` bytes; they do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    /// # Safety
    /// As above, and `length` is `N` to `2 * N`.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: by the contract: both blocks lie within `length` bytes.
        unsafe {
            let last = from.add(length - N).cast::<[u8; N]>().read_unaligned();
            ptr::copy_nonoverlapping(from, to, N);
            to.add(length - N).cast::<[u8; N]>().write_unaligned(last);
        }
    }
    // SAFETY: by the contract; each block lies within `length` bytes.
    unsafe {
        match length {
            33..=64 => ends::<32>(from, to, length),
            65..=128 => ends::<64>(from, to, length),
            _ => ptr::copy_nonoverlapping(from, to, length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_no_more() {
        let region = Region::on_heap(Layout::new(1, 4));
        let mut place = Place::new(&region, Direction::Out, 0).unwrap();
        let bytes: Vec<u8> = (0..=BUFFER).map(|n| (n % 251) as u8 + 1).collect();
        let step = if cfg!(miri) { 97 } else { 1 };
        let lengths = (0..200).step_by(step).chain([255, 256, 257, 1513, 1514, BUFFER - 1, BUFFER]);
        for (bypasses_caches, (slot, length)) in [false, cfg!(miri) || lines::bypass_caches()]
            .into_iter()
            .flat_map(|l| lengths.clone().enumerate().map(move |n| (l, n)))
        {
            place.bypasses_caches = bypasses_caches;
            let slot = slot as u16;
            (0..3).for_each(|near| assert!(place.write(slot + near, &[0xff; BUFFER])));
            assert!(place.write(slot + 1, &bytes[..length]));
            lines::fence();
            // The rest of the last line may be overwritten, with zeros.
            let zeros = if bypasses_caches { length.next_multiple_of(64) } else { length };
            let mut back = vec![9; BUFFER + 1];
            place.read(slot + 1, &mut back);
            assert_eq!(back[..length], bytes[..length]);
            assert!(back[length..zeros].iter().all(|byte| *byte == 0), "{length}");
            assert!(back[zeros..BUFFER].iter().all(|byte| *byte == 0xff) && back[BUFFER] == 9, "{length}");
            for near in [0, 2] {
                place.read(slot + near, &mut back);
                assert!(back[..BUFFER].iter().all(|byte| *byte == 0xff), "{length}");
            }
            let mut short = vec![0; length / 2];
            place.read(slot + 1, &mut short);
            assert_eq!(short, bytes[..length / 2]);
        }
        assert!(!place.write(0, &bytes));
        assert!(Place::new(&region, Direction::In, 1).is_none());
    }

    #[test]
    fn a_descriptor_is_written_whole() {
        let region = Region::on_heap(Layout::new(1, 4));
        for direction in [Direction::Out, Direction::In] {
            let mut place = Place::new(&region, direction, 0).unwrap();
            for bypasses_caches in [false, cfg!(miri) || lines::bypass_caches()] {
                place.bypasses_caches = bypasses_caches;
                let at = place.descriptor(18);
                place.describe(2, 7);
                let words = || [0, 4, 8, 12].map(|word| place.u32_at(at + word).load(Ordering::Relaxed));
                let [_, _, offset, _] = words();
                assert_eq!(offset as usize, place.buffer(2).addr() - region.base.addr().get());
                place.describe_sent(18, 1500);
                place.publish(3);
                assert_eq!((words(), place.head().load(Ordering::Relaxed)), ([0, 1500, offset, 0], 3));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn the_memory_cannot_be_cut_off() {
        let region = Region::new(Layout::new(2, 5)).unwrap();
        let file = region.file().unwrap();
        for length in [0, region.layout().bytes() as i64 / 2, region.layout().bytes() as i64 * 2] {
            assert!(nix::unistd::ftruncate(file, length).is_err(), "{length}");
        }
        assert!(fcntl(file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).is_err());
    }
}
