//! Keeping the kernel from an interface's packets: a packet socket gets a copy of each, and the kernel would
//! answer or forward them too. A BPF program on the interface's ingress drops them, behind the packet
//! sockets.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;

/// One instruction: operation, registers, offset, immediate value.
type Instruction = (u8, u8, i16, i32);
const MOVE_IMMEDIATE: u8 = 0xb7;
const EXIT: u8 = 0x95;
const TCX_DROP: i32 = 2;

/// The program: everything is dropped.
const PROGRAM: [Instruction; 2] = [(MOVE_IMMEDIATE, 0, 0, TCX_DROP), (EXIT, 0, 0, 0)];

/// The first attributes of `BPF_PROG_LOAD`.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions_len: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    if_index: u32,
    attach_to: u32,
}

/// The first attributes of `BPF_LINK_CREATE`, those of TCX among them.
#[repr(C)]
#[derive(Default)]
struct Attach {
    program: u32,
    if_index: u32,
    attach_to: u32,
    flags: u32,
    relative: u32,
    unused: u32,
    revision: u64,
}

/// The program on an interface; it goes when this is dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct Ingress {
    _link: OwnedFd,
}

fn bpf<T>(command: c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads at most the attributes, and the memory that they state, which the callers
    // keep.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

impl Ingress {
    /// Whether this process can keep the kernel from packets.
    pub(crate) fn is_available() -> bool {
        // No interface has this number, which the kernel finds out last.
        Ingress::block(i32::MAX as u32).is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
    }

    /// Keeps the kernel from the packets of an interface. Needs Linux 6.6, CAP_BPF and CAP_NET_ADMIN.
    pub(crate) fn block(if_index: u32) -> io::Result<Ingress> {
        let instructions = PROGRAM.map(|(operation, registers, offset, value)| {
            let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
            [operation, registers, a, b, c, d, e, f]
        });
        let mut name = [0; 16];
        name[..7].copy_from_slice(b"valiant");
        let load = Load {
            kind: BPF_PROG_TYPE_SCHED_CLS,
            instructions_len: instructions.len() as u32,
            instructions: instructions.as_ptr().expose_provenance() as u64,
            license: c"Dual BSD/GPL".as_ptr().expose_provenance() as u64,
            name,
            attach_to: BPF_TCX_INGRESS,
            ..Load::default()
        };
        let program = bpf(BPF_PROG_LOAD, &load)?;
        let attach = Attach {
            program: program.as_raw_fd() as u32,
            if_index,
            attach_to: BPF_TCX_INGRESS,
            ..Attach::default()
        };
        Ok(Ingress { _link: bpf(BPF_LINK_CREATE, &attach)? })
    }
}
