//! BPF programs on the ingress of an interface, behind the packet sockets: loading, attaching, replacing.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const BPF_LINK_UPDATE: c_long = 29;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;

/// One instruction: operation, registers (the destination in the lower half), offset, immediate value.
pub(crate) type Instruction = (u8, u8, i16, i32);

/// Operations (linux/bpf.h, linux/bpf_common.h).
pub(crate) const MOVE: u8 = 0xbf;
pub(crate) const MOVE_IMMEDIATE: u8 = 0xb7;
pub(crate) const LOAD_WORD: u8 = 0x61;
pub(crate) const AND32_IMMEDIATE: u8 = 0x54;
pub(crate) const LOAD_PACKET_WORD: u8 = 0x20;
pub(crate) const LOAD_PACKET_HALF: u8 = 0x28;
pub(crate) const JUMP: u8 = 0x05;
pub(crate) const JUMP_IF_EQUAL: u8 = 0x15;
pub(crate) const JUMP_IF_ANY_BIT: u8 = 0x45;
pub(crate) const JUMP32_UNLESS_EQUAL: u8 = 0x56;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;
/// What a program on the ingress returns, so that the packet is dropped.
pub(crate) const TCX_DROP: i32 = 2;

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

/// The attributes of `BPF_LINK_UPDATE`.
#[repr(C)]
#[derive(Default)]
struct Update {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

fn bpf<T>(command: c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads at most the attributes, and the memory that they state, which the callers
    // keep.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

fn descriptor(new: i32) -> OwnedFd {
    // SAFETY: a new descriptor, which is ours.
    unsafe { OwnedFd::from_raw_fd(new) }
}

/// A program that the kernel has checked.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Needs CAP_BPF.
    pub(crate) fn load(instructions: &[Instruction]) -> io::Result<Self> {
        let bytes = instructions.iter().flat_map(|&(operation, registers, offset, value)| {
            let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
            [operation, registers, a, b, c, d, e, f]
        });
        let bytes: Vec<u8> = bytes.collect();
        let mut name = [0; 16];
        name[..7].copy_from_slice(b"valiant");
        let load = Load {
            kind: BPF_PROG_TYPE_SCHED_CLS,
            instructions_len: instructions.len() as u32,
            instructions: bytes.as_ptr().expose_provenance() as u64,
            license: c"Dual BSD/GPL".as_ptr().expose_provenance() as u64,
            name,
            attach_to: BPF_TCX_INGRESS,
            ..Load::default()
        };
        Ok(Self(descriptor(bpf(BPF_PROG_LOAD, &load)?)))
    }
}

/// A program on an interface; it goes when this is dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct OnIngress {
    link: OwnedFd,
}

impl OnIngress {
    /// Needs Linux 6.6 and CAP_NET_ADMIN.
    pub(crate) fn attach(program: &Program, if_index: u32) -> io::Result<Self> {
        let attach = Attach {
            program: program.0.as_raw_fd() as u32,
            if_index,
            attach_to: BPF_TCX_INGRESS,
            ..Attach::default()
        };
        Ok(Self { link: descriptor(bpf(BPF_LINK_CREATE, &attach)?) })
    }

    /// Another program instead: each packet meets the one or the other.
    pub(crate) fn replace(&self, program: &Program) -> io::Result<()> {
        let (link, program) = (self.link.as_raw_fd() as u32, program.0.as_raw_fd() as u32);
        bpf(BPF_LINK_UPDATE, &Update { link, program, ..Update::default() }).map(drop)
    }
}
