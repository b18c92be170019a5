//! Slices in huge pages: where values all over a large one are read, fewer reads wait for the address of a
//! page.
//!
//! The invariant of its `unsafe`: `start` points to `len` values of `T` that this value owns alone, in memory
//! that `layout` describes, or is dangling and `len` is 0.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// One huge page of x86-64.
const PAGE: usize = 2 << 20;

/// A slice that does not change its length, in huge pages if it is not small and the system has them.
#[derive(Debug)]
pub struct Huge<T> {
    start: NonNull<T>,
    len: usize,
    layout: Option<Layout>,
}

// SAFETY: it owns its values as a `Vec` does.
unsafe impl<T: Send> Send for Huge<T> {}
// SAFETY: shared access gives out shared references only.
unsafe impl<T: Sync> Sync for Huge<T> {}

/// Memory for so many bytes.
fn layout_of<T>(bytes: usize) -> Option<Layout> {
    let align = if bytes < PAGE / 2 { align_of::<T>() } else { PAGE.max(align_of::<T>()) };
    Layout::from_size_align(bytes.checked_next_multiple_of(align)?, align).ok()
}

impl<T> From<Vec<T>> for Huge<T> {
    fn from(mut values: Vec<T>) -> Self {
        let (len, bytes) = (values.len(), size_of_val(&values[..]));
        if bytes == 0 {
            // Values without a size are nowhere.
            values.drain(..).for_each(std::mem::forget);
            let len = if size_of::<T>() == 0 { len } else { 0 };
            return Self { start: NonNull::dangling(), len, layout: None };
        }
        let Some(layout) = layout_of::<T>(bytes) else { handle_alloc_error(Layout::for_value(&values[..])) };
        // SAFETY: its size is not 0.
        let memory = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(memory.cast::<T>()) else { handle_alloc_error(layout) };
        #[cfg(all(target_os = "linux", not(miri)))]
        if layout.align() == PAGE {
            // SAFETY: these pages belong to this value alone; the advice changes nothing that is in them.
            // That the system does not take it costs only time.
            unsafe { libc::madvise(memory.cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        // SAFETY: both have room for so many values and do not overlap. They are moved: the vector has none
        // of them any longer.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), start.as_ptr(), len);
            values.set_len(0);
        }
        Self { start, len, layout: Some(layout) }
    }
}

impl<T> Deref for Huge<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: invariant.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Huge<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: invariant.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Huge<T> {
    fn drop(&mut self) {
        // SAFETY: invariant; nobody has the values or the memory after this.
        unsafe {
            std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len).drop_in_place();
            if let Some(layout) = self.layout {
                dealloc(self.start.as_ptr().cast(), layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn values_of_any_size_and_number_stay_and_are_dropped_once() {
        // Miri takes minutes for a large one; the other test has one of few values.
        let large = if cfg!(miri) { 3000 } else { 140_000 };
        for many in [0, 1, 7, large] {
            let huge = Huge::from((0..many as u64).collect::<Vec<_>>());
            assert!(huge.len() == many && huge.iter().zip(0..).all(|(value, n)| *value == n));
        }
        let one = Arc::new(5);
        for many in [0, 1, 300, large] {
            let huge = Huge::from(vec![Arc::clone(&one); many]);
            assert_eq!(Arc::strong_count(&one), many + 1);
            drop(huge);
            assert_eq!(Arc::strong_count(&one), 1);
        }
        assert_eq!(Huge::from(vec![(); 9]).len(), 9);
    }

    #[test]
    fn memory_is_aligned() {
        #[repr(align(64))]
        struct Line(u8);
        for many in [1, 20_000] {
            let huge = Huge::from((0..many).map(|n| Line(n as u8)).collect::<Vec<_>>());
            let at = huge.as_ptr() as usize;
            assert!(at.is_multiple_of(64) && (many == 1 || at.is_multiple_of(PAGE)), "{at:x}");
            assert_eq!(huge.last().map(|line| line.0), Some((many - 1) as u8));
        }
    }
}
