//! Wakes a thread that sleeps until a descriptor is readable.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// Wakes one thread that sleeps until some descriptor is readable, or until the bell is rung.
#[derive(Debug)]
pub struct Bell {
    event: OwnedFd,
    /// Whether the thread sleeps or is about to, and the bell has not been rung for it.
    asleep: AtomicBool,
}

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Bell> {
        // SAFETY: no pointers are involved.
        let event = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else has.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Bell { event, asleep: AtomicBool::new(false) })
    }

    /// Wakes the thread if it sleeps or is about to. Costs a fence when it does not.
    #[inline]
    pub fn ring(&self) {
        // Pairs with the fence in `lie_down`: either the thread sees what it is rung for, or this sees that
        // it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            let one = 1u64.to_ne_bytes();
            // A full counter is readable, which is what matters.
            // SAFETY: eight readable bytes.
            unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// Declares that the thread is about to sleep. It must check for work once more before it does.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Sleeps until one of `fds` is readable or faulty, the bell is rung, or `limit` has passed. Returns
    /// whether it was one of `fds`. A descriptor that has been closed counts as faulty.
    pub fn sleep(&self, fds: impl IntoIterator<Item = RawFd>, limit: Duration) -> bool {
        let wait = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let event = self.event.as_raw_fd();
        let mut polled: Vec<libc::pollfd> = std::iter::once(event).chain(fds).map(wait).collect();
        let limit = libc::timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // SAFETY: the number of entries is the length of the array; a time; no signal mask. A descriptor may
        // be any number.
        let ready = unsafe {
            libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &limit, std::ptr::null())
        };
        let undisturbed = self.asleep.swap(false, Ordering::AcqRel);
        // Whoever rang before the last sleep ended may have written only after it: that ends this sleep, and
        // must not end the next ones too.
        if !undisturbed || polled[0].revents != 0 {
            self.forget_rings();
        }
        if ready > 0 {
            // An interface that was switched off leaves an error behind, which would end every sleep.
            polled[1..].iter().filter(|p| p.revents & libc::POLLERR != 0).for_each(|p| clear_error(p.fd));
        }
        // A signal interrupts the sleep, and nothing is ready then.
        ready > 0 && polled[1..].iter().any(|p| p.revents != 0)
    }

    /// Sleeps until the bell is rung or `limit` has passed, which may be a few microseconds: the kernel
    /// lengthens the sleeps of an ordinary thread by up to 50 µs, and those of this thread no more.
    pub fn nap(&self, limit: Duration) {
        thread_local! { static EXACT: Cell<bool> = const { Cell::new(false) } }
        if !EXACT.replace(true) {
            // SAFETY: no pointers. It sets the calling thread's own timer slack, in nanoseconds.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
        }
        self.sleep([], limit);
    }

    /// Declares that the thread does not sleep.
    pub fn get_up(&self) {
        if !self.asleep.swap(false, Ordering::AcqRel) {
            // Whoever rang may not have written yet; then the next sleep is short, which does no harm.
            self.forget_rings();
        }
    }

    /// Takes what was written when the bell was rung.
    fn forget_rings(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes.
        unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// Takes the error that waits in a socket.
#[cold]
fn clear_error(fd: RawFd) {
    let (mut error, mut len): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    let place = (&raw mut error).cast();
    // SAFETY: the kernel writes at most `len` bytes. A descriptor may be any number.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, place, &mut len) };
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn readable_descriptors_and_rings_end_the_sleep() {
        let bell = Arc::new(Bell::new().unwrap());
        let (mut there, here) = UnixStream::pair().unwrap();
        bell.lie_down();
        assert!(!bell.sleep([here.as_raw_fd()], Duration::from_millis(1)));
        bell.lie_down();
        let ringer = Arc::clone(&bell);
        let thread = std::thread::spawn(move || ringer.ring());
        assert!(!bell.sleep([here.as_raw_fd()], LONG));
        thread.join().unwrap();
        there.write_all(b"x").unwrap();
        bell.lie_down();
        assert!(bell.sleep([here.as_raw_fd()], LONG));
    }

    #[test]
    fn a_ring_ends_a_nap() {
        let bell = Arc::new(Bell::new().unwrap());
        bell.lie_down();
        bell.nap(Duration::from_micros(1));
        bell.lie_down();
        let ringer = Arc::clone(&bell);
        let thread = std::thread::spawn(move || ringer.ring());
        bell.nap(LONG);
        thread.join().unwrap();
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it_and_none_is_left_over() {
        let bell = Bell::new().unwrap();
        bell.ring();
        bell.lie_down();
        assert!(!bell.sleep([], Duration::from_millis(1)), "nobody slept when it was rung");
        bell.lie_down();
        bell.ring();
        bell.sleep([], LONG);
        assert!(!readable(&bell), "the counter has been read");
    }

    #[test]
    fn a_ring_that_writes_after_the_sleep_ends_one_more_sleep_only() {
        let bell = Bell::new().unwrap();
        bell.lie_down();
        // Another thread is in the middle of `ring` while this one gets up for another reason.
        assert!(bell.asleep.swap(false, Ordering::AcqRel));
        bell.get_up();
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes.
        unsafe { libc::write(bell.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        assert!(readable(&bell));
        bell.lie_down();
        assert!(!bell.sleep([], LONG), "ended by the bell");
        assert!(
            !readable(&bell),
            "the next sleep would end at once, and all that follow until the bell is rung"
        );
    }

    /// Whether the bell would end a sleep.
    fn readable(bell: &Bell) -> bool {
        let mut poll = libc::pollfd { fd: bell.event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }
}
