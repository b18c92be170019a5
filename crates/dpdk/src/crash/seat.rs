//! A record of the element that each worker runs, for crash reports; and the stacks of the workers' signal
//! handlers.

use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// The number of workers that can have a seat.
const SEATS: usize = 256;
/// The stack of the handler.
const STACK: usize = 64 << 10;

/// The place where a worker records the element that it runs. It has a cache line of its own, because the
/// worker writes to it for each batch and element.
#[derive(Debug)]
#[repr(align(128))]
pub struct Seat {
    slot: AtomicU32,
    pub(super) worker: AtomicU32,
    /// The worker's thread; 0: the seat is free.
    pub(super) thread: AtomicI32,
}

/// Whether the signal handler is installed, which needs stacks.
pub(super) static INSTALLED: AtomicBool = AtomicBool::new(false);
/// The seats of all workers.
pub(super) static TABLE: [Seat; SEATS] = [const { Seat::new() }; SEATS];
/// The shared seat of workers beyond that number.
pub(super) static STANDING: Seat = Seat::new();

impl Seat {
    const fn new() -> Self {
        Self { slot: AtomicU32::new(u32::MAX), worker: AtomicU32::new(0), thread: AtomicI32::new(0) }
    }
    /// The shared seat of all threads without one of their own: its record may be of any of them.
    pub fn none() -> &'static Seat {
        &STANDING
    }
    /// Records that the worker runs this element from here on.
    #[inline]
    pub fn enter(&self, slot: u32) {
        self.slot.store(slot, Ordering::Relaxed);
    }
    /// The kernel's number of the thread that has it.
    pub fn thread(&self) -> Option<i32> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0)
    }
    /// The element that it runs, or has run last; `None` before its first element.
    pub fn slot(&self) -> Option<u32> {
        Some(self.slot.load(Ordering::Relaxed)).filter(|slot| *slot != u32::MAX)
    }
}

/// The calling thread's seat, as long as this lives; and a stack for the handler.
#[derive(Debug)]
pub struct Seated {
    seat: &'static Seat,
    stack: Option<Stack>,
    /// A thread sits, and it has the stack.
    _not_send: std::marker::PhantomData<*mut ()>,
}

impl Seated {
    /// A seat for the thread that runs this worker.
    pub fn new(worker: usize) -> Seated {
        let free = |seat: &&Seat| {
            let taken = seat.thread.compare_exchange(0, thread(), Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        let seat = TABLE.iter().find(free).unwrap_or(&STANDING);
        seat.worker.store(worker as u32, Ordering::Relaxed);
        seat.enter(u32::MAX);
        let stack = if INSTALLED.load(Ordering::Acquire) { Stack::new() } else { None };
        Seated { seat, stack, _not_send: std::marker::PhantomData }
    }
    /// The seat.
    pub fn seat(&self) -> &'static Seat {
        self.seat
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        drop(self.stack.take());
        self.seat.thread.store(0, Ordering::Release);
    }
}

/// A stack for signal handlers of the calling thread: the thread's own may be full, and the one that Rust
/// gives its threads is small.
#[derive(Debug)]
pub(super) struct Stack {
    memory: *mut c_void,
    before: libc::stack_t,
}

impl Stack {
    pub(super) fn new() -> Option<Stack> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice, which stays until the thread has
        // another stack; `stack_t` is plain data.
        unsafe {
            let (rights, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            );
            let memory = libc::mmap(ptr::null_mut(), STACK, rights, flags, -1, 0);
            if memory == libc::MAP_FAILED {
                return None;
            }
            let new = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: STACK };
            let mut before: libc::stack_t = mem::zeroed();
            if libc::sigaltstack(&new, &mut before) != 0 {
                libc::munmap(memory, STACK);
                return None;
            }
            Some(Stack { memory, before })
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the one before is the thread's still: Rust frees it as the thread ends, after this.
        unsafe {
            if libc::sigaltstack(&self.before, ptr::null_mut()) == 0 {
                libc::munmap(self.memory, STACK);
            }
        }
    }
}

/// The kernel's number of the calling thread.
pub(super) fn thread() -> i32 {
    // SAFETY: cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The calling thread's seat.
pub(super) fn my_seat() -> Option<&'static Seat> {
    let me = thread();
    TABLE.iter().find(|seat| seat.thread.load(Ordering::Acquire) == me)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn seats_are_taken_and_given_back() {
        let first = Seated::new(3);
        let second = std::thread::spawn(|| Seated::new(4).seat().slot());
        assert_eq!(second.join().unwrap(), None);
        assert_eq!(first.seat().slot(), None);
        first.seat().enter(7);
        assert_eq!(first.seat().slot(), Some(7));
        assert!(my_seat().is_some());
    }
}
