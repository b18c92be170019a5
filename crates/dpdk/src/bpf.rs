//! The kernel's BPF: programs, what they are attached to, and maps.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const BPF_MAP_CREATE: c_long = 0;
const BPF_MAP_UPDATE_ELEM: c_long = 2;
const BPF_MAP_DELETE_ELEM: c_long = 3;
const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const BPF_LINK_UPDATE: c_long = 29;
const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
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

/// A command that makes a descriptor.
fn descriptor<T>(command: c_long, attributes: &T) -> io::Result<OwnedFd> {
    let new = bpf(command, attributes)?;
    // SAFETY: a new descriptor, which is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}

/// What a program is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// Packets that an interface receives, behind the packet sockets.
    Ingress,
    /// Choosing a socket of a fanout group.
    Fanout,
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Needs CAP_BPF.
    pub(crate) fn load(what_for: Use, instructions: &[Instruction]) -> io::Result<Self> {
        let bytes = instructions.iter().flat_map(|&(operation, registers, offset, value)| {
            let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
            [operation, registers, a, b, c, d, e, f]
        });
        let bytes: Vec<u8> = bytes.collect();
        let mut name = [0; 16];
        name[..7].copy_from_slice(b"valiant");
        let (kind, attach_to) = match what_for {
            Use::Ingress => (BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_INGRESS),
            Use::Fanout => (BPF_PROG_TYPE_SOCKET_FILTER, 0),
        };
        let load = Load {
            kind,
            instructions_len: instructions.len() as u32,
            instructions: bytes.as_ptr().expose_provenance() as u64,
            license: c"Dual BSD/GPL".as_ptr().expose_provenance() as u64,
            name,
            attach_to,
            ..Load::default()
        };
        descriptor(BPF_PROG_LOAD, &load).map(Self)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
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
        Ok(Self { link: descriptor(BPF_LINK_CREATE, &attach)? })
    }

    /// Another program instead: each packet meets the one or the other.
    pub(crate) fn replace(&self, program: &Program) -> io::Result<()> {
        let (link, program) = (self.link.as_raw_fd() as u32, program.0.as_raw_fd() as u32);
        bpf(BPF_LINK_UPDATE, &Update { link, program, ..Update::default() }).map(drop)
    }
}

/// A hash table from 64 to 32 bits, which programs look up while it is changed.
#[derive(Debug)]
pub(crate) struct Map(OwnedFd);

/// The first attributes of `BPF_MAP_CREATE`.
#[repr(C)]
struct Create {
    kind: u32,
    key_len: u32,
    value_len: u32,
    entries: u32,
    flags: u32,
}

/// The attributes of the commands for single elements.
#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Map {
    pub(crate) fn new(entries: u32) -> io::Result<Map> {
        /// Memory is taken when an entry is made.
        const NO_PREALLOC: u32 = 1;
        let create =
            Create { kind: BPF_MAP_TYPE_HASH, key_len: 8, value_len: 4, entries, flags: NO_PREALLOC };
        descriptor(BPF_MAP_CREATE, &create).map(Map)
    }

    /// Its number for a program's instruction.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    fn element(&self, key: &u64, value: Option<&u32>) -> Element {
        let value = value.map_or(0, |value| std::ptr::from_ref(value).expose_provenance() as u64);
        let key = std::ptr::from_ref(key).expose_provenance() as u64;
        Element { map: self.0.as_raw_fd() as u32, padding: 0, key, value, flags: 0 }
    }

    pub(crate) fn set(&self, key: u64, value: u32) -> io::Result<()> {
        bpf(BPF_MAP_UPDATE_ELEM, &self.element(&key, Some(&value))).map(drop)
    }

    /// Removes an entry, if there is one.
    pub(crate) fn remove(&self, key: u64) -> io::Result<()> {
        match bpf(BPF_MAP_DELETE_ELEM, &self.element(&key, None)) {
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
            _ => Ok(()),
        }
    }
}
