//! Devices that are unplugged while they are in use: the kernel asks for them back, and waits. Before a
//! device is closed, nobody may be in a function of its driver any more, which costs those functions' callers
//! two stores and no fence.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::status::PortState;
use crate::watch::State;

/// Whether the owner of a queue is in its driver.
#[derive(Debug, Default)]
pub(crate) struct Occupied(AtomicBool);

/// Until it is dropped, the device is not closed.
pub(crate) struct Inside<'a>(&'a AtomicBool);

impl Occupied {
    /// Goes into the driver, if the port has not gone.
    #[inline]
    pub(crate) fn enter(&self, state: &State) -> Option<Inside<'_>> {
        self.0.store(true, Ordering::Relaxed);
        // The processor keeps these two in order because `wait_until_left` makes it do so (membarrier(2)).
        compiler_fence(Ordering::SeqCst);
        let inside = Inside(&self.0);
        (state.get() != PortState::Gone).then_some(inside)
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// How long a thread may stay in a driver's function.
const PATIENCE: Duration = Duration::from_secs(5);

fn membarrier(command: c_int) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Waits until nobody is in the driver of a port that has gone, and nobody will be; false if that does not
/// come true, or cannot be known.
pub(crate) fn wait_until_left(queues: &[Arc<Occupied>]) -> bool {
    let ordered =
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) || membarrier(libc::MEMBARRIER_CMD_GLOBAL);
    let deadline = Instant::now() + PATIENCE;
    while ordered && Instant::now() < deadline {
        if queues.iter().all(|queue| !queue.0.load(Ordering::Acquire)) {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

static RELEASE: OnceLock<fn(&CStr)> = OnceLock::new();

/// Has `release` called, by a thread that may wait, with the name of each device that is to be given back.
pub(crate) fn watch(release: fn(&CStr)) {
    RELEASE.get_or_init(|| {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        // SAFETY: the callback takes any name from any thread.
        unsafe { dpdk_sys::valiant_watch_removals(Some(on_removal)) };
        release
    });
}

/// What DPDK calls, from its thread for interrupts, which may not close the device itself.
extern "C" fn on_removal(name: *const c_char) {
    if name.is_null() {
        return;
    }
    // SAFETY: DPDK passes the device's name, a C string.
    let name: CString = unsafe { CStr::from_ptr(name) }.to_owned();
    let Some(release) = RELEASE.get() else { return };
    let thread = thread::Builder::new().name("valiant-removal".to_owned());
    drop(thread.spawn(move || release(&name)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn nobody_enters_a_port_that_has_gone_and_whoever_is_inside_is_waited_for() {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        let state = watch::watch(vec![u16::MAX], 0);
        let queue = Arc::new(Occupied::default());
        let queues = [Arc::clone(&queue)];
        let inside = queue.enter(&state).expect("the port is there");
        watch::gone(u16::MAX);
        let waiter = thread::spawn(move || wait_until_left(&queues));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(inside);
        assert!(waiter.join().unwrap());
        assert!(queue.enter(&state).is_none());
        assert!(!queue.0.load(Ordering::Relaxed), "who was refused is not inside");
    }
}
