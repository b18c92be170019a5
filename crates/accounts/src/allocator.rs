//! The system's allocator, and a count of what it gives and takes.
//!
//! Its invariant: every call is passed on with the same arguments, and its result is returned as it is. The
//! count touches one thread-local number, which has no destructor, and one static atomic: it neither
//! allocates nor panics.

use super::count;
use std::alloc::{GlobalAlloc, Layout, System};

/// The allocator of a program whose routers have accounts (`#[global_allocator]`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// `size` bytes; more than `isize::MAX` no allocation has.
#[inline]
fn bytes(size: usize) -> i64 {
    size as i64
}

// SAFETY: all memory is the system allocator's, to which every call is passed on unchanged (module
// invariant), so its guarantees are these.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about `layout` are those that `System` asks for.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            count(bytes(layout.size()));
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            count(bytes(layout.size()));
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-bytes(layout.size()));
        // SAFETY: `memory` came from this allocator, which is to say from `System`, with this layout.
        unsafe { System.dealloc(memory, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; the caller promises for `size` what `System` asks for.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if !moved.is_null() {
            count(bytes(size) - bytes(layout.size()));
        }
        moved
    }
}
