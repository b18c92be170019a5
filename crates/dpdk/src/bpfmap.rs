//! The kernel's BPF: programs, which are assembled here from single instructions, and maps.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_MAP_CREATE: c_long = 0;
const BPF_MAP_UPDATE_ELEM: c_long = 2;
const BPF_MAP_DELETE_ELEM: c_long = 3;
const BPF_PROG_LOAD: c_long = 5;
const BPF_MAP_TYPE_HASH: u32 = 1;

/// One instruction: operation, registers (the destination in the low half), offset, immediate value.
pub(crate) type Instruction = (u8, u8, i16, i32);

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

/// A system call with attributes that make a descriptor.
pub(crate) fn descriptor<T>(command: c_long, attributes: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: a new descriptor, which is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call<T>(command: c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads at most the attributes, and the memory that they state, which the callers
    // keep.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

/// Loads a program, which the kernel verifies first.
pub(crate) fn load(kind: u32, attach_to: u32, program: &[Instruction]) -> io::Result<OwnedFd> {
    let bytes: Vec<[u8; 8]> = (program.iter())
        .map(|&(operation, registers, offset, value)| {
            let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
            [operation, registers, a, b, c, d, e, f]
        })
        .collect();
    let mut name = [0; 16];
    name[..7].copy_from_slice(b"valiant");
    let attributes = Load {
        kind,
        instructions_len: bytes.len() as u32,
        instructions: bytes.as_ptr().expose_provenance() as u64,
        license: c"Dual BSD/GPL".as_ptr().expose_provenance() as u64,
        name,
        attach_to,
        ..Load::default()
    };
    descriptor(BPF_PROG_LOAD, &attributes)
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
        call(BPF_MAP_UPDATE_ELEM, &self.element(&key, Some(&value))).map(drop)
    }

    /// Removes an entry, if there is one.
    pub(crate) fn remove(&self, key: u64) -> io::Result<()> {
        match call(BPF_MAP_DELETE_ELEM, &self.element(&key, None)) {
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
            _ => Ok(()),
        }
    }
}

/// A program in the making: instructions, and jumps to places that come later.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    instructions: Vec<Instruction>,
    /// Jumps, and the labels that they go to.
    jumps: Vec<(usize, &'static str)>,
    labels: Vec<(&'static str, usize)>,
}

impl Assembler {
    pub(crate) fn put(&mut self, all: &[Instruction]) -> &mut Self {
        self.instructions.extend(all);
        self
    }

    /// A conditional or unconditional jump.
    pub(crate) fn jump(&mut self, operation: u8, register: u8, value: i32, to: &'static str) -> &mut Self {
        self.jumps.push((self.instructions.len(), to));
        self.put(&[(operation, register, 0, value)])
    }

    /// The place after what was put so far.
    pub(crate) fn label(&mut self, name: &'static str) -> &mut Self {
        self.labels.push((name, self.instructions.len()));
        self
    }

    /// The program. A jump to a label that is not there stays a jump to the next instruction.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, to) in self.jumps {
            let place = self.labels.iter().find(|(name, _)| *name == to).map_or(at + 1, |(_, place)| *place);
            self.instructions[at].2 = (place as isize - at as isize - 1) as i16;
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_go_to_their_labels() {
        let mut program = Assembler::default();
        program.jump(5, 0, 0, "end").put(&[(0xb7, 0, 0, 1)]).label("end").put(&[(0x95, 0, 0, 0)]);
        assert_eq!(program.finish(), [(5, 0, 1, 0), (0xb7, 0, 0, 1), (0x95, 0, 0, 0)]);
    }
}
