//! Output from a signal handler: text, numbers and addresses, with no allocation, no lock and no panic.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, Ordering};

/// How long to wait until standard error accepts output, in milliseconds.
const PATIENCE: c_int = 1000;

/// The destination of output.
pub(super) struct Out {
    pub(super) fd: c_int,
    /// Bytes have been lost.
    pub(super) failed: bool,
}

impl Out {
    pub(super) fn new(fd: c_int) -> Out {
        Out { fd, failed: false }
    }
    /// Standard error, unless its reader has stopped reading: waiting for that for ever would prevent the
    /// report.
    pub(super) fn errors() -> Out {
        let mut poll = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one place, which the kernel reads and writes.
        let ready = unsafe { libc::poll(&mut poll, 1, PATIENCE) } > 0;
        Out::new(if ready { libc::STDERR_FILENO } else { -1 })
    }
    pub(super) fn text(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // SAFETY: the kernel reads the bytes only.
            let n = unsafe { libc::write(self.fd, bytes.as_ptr().cast(), bytes.len()) };
            let Some(rest) = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| bytes.get(n..)) else {
                self.failed = true;
                return;
            };
            bytes = rest;
        }
    }
    pub(super) fn atomic(&mut self, bytes: &[AtomicU8]) {
        let mut copy = [0; 256];
        for chunk in bytes.chunks(copy.len()) {
            for (to, from) in copy.iter_mut().zip(chunk) {
                *to = from.load(Ordering::Relaxed);
            }
            self.text(copy.get(..chunk.len()).unwrap_or_default());
        }
    }
    pub(super) fn number(&mut self, n: u64, base: u64) {
        let mut digits = [0; 20];
        let at = write_number(&mut digits, n, base);
        self.text(digits.get(at..).unwrap_or_default());
    }
}

/// Writes a number at the end of `digits` and returns the position of its first digit.
pub(super) fn write_number(digits: &mut [u8; 20], mut n: u64, base: u64) -> usize {
    let mut at = digits.len();
    for place in digits.iter_mut().rev() {
        let digit = (n % base) as u8;
        *place = if digit < 10 { b'0' + digit } else { b'a' - 10 + digit };
        at -= 1;
        n /= base;
        if n == 0 {
            break;
        }
    }
    at
}

/// Writes, for each address, the file that is mapped there, and the offset from the beginning of the mapping.
pub(super) fn put_frames(out: &mut Out, frames: &[*mut c_void]) {
    for (n, frame) in frames.iter().enumerate() {
        let address = frame.addr() as u64;
        out.text(b"#");
        out.number(n as u64, 10);
        out.text(b" 0x");
        out.number(address, 16);
        out.text(b" ");
        put_module(out, address);
        out.text(b"\n");
    }
}

/// Finds the module of an address in /proc/self/maps: each line is
/// `START-END RIGHTS OFFSET DEVICE INODE PATH`. What the kernel has put there has a name instead, such as
/// `[vdso]`, the kernel's code for reading the clock.
pub(super) fn put_module(out: &mut Out, address: u64) {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a C string; a new descriptor is ours.
    let fd = unsafe { libc::open(c"/proc/self/maps".as_ptr(), flags) };
    if fd < 0 {
        return;
    }
    let mut block = [0; 1024];
    let mut line = [0; 384];
    let mut length = 0;
    // The path of the module that is being read, and where it begins.
    let mut module = [0; 256];
    let (mut module_length, mut base) = (0, 0);
    'reading: loop {
        // SAFETY: the kernel writes at most the block's length.
        let n = unsafe { libc::read(fd, block.as_mut_ptr().cast(), block.len()) };
        let Some(bytes) = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| block.get(..n)) else {
            break;
        };
        for byte in bytes {
            if *byte != b'\n' {
                if let Some(place) = line.get_mut(length) {
                    *place = *byte;
                    length += 1;
                }
                continue;
            }
            let text = line.get(..length).unwrap_or_default();
            length = 0;
            let (start, rest) = hex(text);
            let (end, _) = hex(rest.get(1..).unwrap_or_default());
            let begins = |b: &u8| matches!(b, b'/' | b'[');
            let path = text.iter().position(begins).and_then(|at| text.get(at..)).unwrap_or_default();
            let path = path.get(..path.len().min(module.len())).unwrap_or_default();
            if path.is_empty() || module.get(..module_length) != Some(path) {
                base = start;
                module_length = path.len();
                for (to, from) in module.iter_mut().zip(path) {
                    *to = *from;
                }
            }
            if (start..end).contains(&address) {
                if !path.is_empty() {
                    out.text(path);
                    out.text(b"+0x");
                    out.number(address - base, 16);
                }
                break 'reading;
            }
        }
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(fd) };
}

/// Reads a hexadecimal number and returns the text after it.
fn hex(text: &[u8]) -> (u64, &[u8]) {
    let mut n = 0u64;
    for (at, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return (n, text.get(at..).unwrap_or_default()),
        };
        n = n.wrapping_shl(4) | u64::from(digit);
    }
    (n, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no code of the kernel")]
    fn the_kernels_code_has_a_name() {
        // SAFETY: cannot fail.
        let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        assert_ne!(vdso, 0, "there is no such code");
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        put_module(&mut Out::new(ends[1]), vdso + 0x12);
        let mut text = [0; 64];
        // SAFETY: the kernel writes at most so many bytes; the descriptors are ours.
        let n = unsafe {
            let n = libc::read(ends[0], text.as_mut_ptr().cast(), text.len());
            ends.iter().for_each(|end| {
                libc::close(*end);
            });
            n
        };
        assert_eq!(std::str::from_utf8(&text[..n as usize]).unwrap(), "[vdso]+0x12");
    }

    #[test]
    fn numbers_are_written_and_read() {
        for n in [0, 9, 10, 255, 0xdead_beef, u64::MAX] {
            let mut digits = [0; 20];
            let at = write_number(&mut digits, n, 10);
            assert_eq!(std::str::from_utf8(&digits[at..]).unwrap(), n.to_string());
            let at = write_number(&mut digits, n, 16);
            assert_eq!(hex(&[&digits[at..], b"-x"].concat()), (n, &b"-x"[..]));
        }
    }
}
