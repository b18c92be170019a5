//! Keeping the kernel from an interface's packets: a packet socket gets a copy of each, and the kernel would
//! answer or forward them too. A BPF program on the interface's ingress drops them, behind the packet
//! sockets.

use crate::bpf::{EXIT, Instruction, MOVE_IMMEDIATE, OnIngress, Program, TCX_DROP, Use};
use std::io;

/// The program: everything is dropped.
const PROGRAM: [Instruction; 2] = [(MOVE_IMMEDIATE, 0, 0, TCX_DROP), (EXIT, 0, 0, 0)];

/// The program on an interface; it goes when this is dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct Ingress {
    _link: OnIngress,
}

impl Ingress {
    /// Whether this process can keep the kernel from packets.
    pub(crate) fn is_available() -> bool {
        // No interface has this number, which the kernel finds out last.
        Ingress::block(i32::MAX as u32).is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
    }

    /// Keeps the kernel from the packets of an interface. Needs Linux 6.6, CAP_BPF and CAP_NET_ADMIN.
    pub(crate) fn block(if_index: u32) -> io::Result<Ingress> {
        Ok(Ingress { _link: OnIngress::attach(&Program::load(Use::Ingress, &PROGRAM)?, if_index)? })
    }
}
