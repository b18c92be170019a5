//! Division of a Linux interface: the kernel gives the frames of each VLAN or Ethernet address to an
//! interface of their own, and what that one sends leaves by the divided one with the tag.
//!
//! Two BPF programs do this: one on the ingress of the divided interface, and one on the near end of each
//! pair of interfaces, behind whose other end a port is opened. Where many frames are for one port, that
//! port's receive ring is full, and the others' are not.

use crate::bpf::{
    AND32_IMMEDIATE, CALL, EXIT, Instruction, JUMP, JUMP_IF_ANY_BIT, JUMP_IF_EQUAL, JUMP32_UNLESS_EQUAL,
    LOAD_PACKET_HALF, LOAD_PACKET_WORD, LOAD_WORD, MOVE, MOVE_IMMEDIATE, OnIngress, Program, Use,
};
use crate::netdev::index_of;
use std::io;

/// Places in `__sk_buff`, and helper functions (linux/bpf.h).
const VLAN_PRESENT: i16 = 20;
const VLAN_TCI: i16 = 24;
const CLONE_REDIRECT: i32 = 13;
const VLAN_PUSH: i32 = 18;
const VLAN_POP: i32 = 19;
const REDIRECT: i32 = 23;
/// ETH_P_8021Q, in the order of the network.
const DOT1Q: i32 = 0x8100_u16.to_be() as i32;
/// The program's instructions for one part, at most, and the kernel's bound for a program.
const LONGEST_PART: usize = 8;
/// The most parts: their jumps are shorter than 32,768 instructions.
pub const MOST_PARTS: usize = 1000;

/// Which frames are a part of the interface's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Those of this VLAN, which come without the tag.
    Vlan(u16),
    /// Frames without a tag to this address, and to groups.
    Address([u8; 6]),
}

/// An interface that is divided, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Division {
    interface: String,
    number: u32,
    /// Where everything else goes.
    rest: u32,
    parts: Vec<(Part, u32)>,
    input: OnIngress,
    /// The near ends, by their numbers.
    outputs: Vec<(u32, OnIngress)>,
}

impl Division {
    /// Divides an interface. All frames that are no part go to `rest`, the near end of a pair, with their
    /// tags, and what comes from there leaves as it is.
    ///
    /// # Errors
    /// An interface is missing, or the kernel refuses: Linux 6.6, CAP_BPF and CAP_NET_ADMIN are needed.
    pub fn new(interface: &str, rest: &str) -> io::Result<Self> {
        let (number, rest) = (existing(interface)?, existing(rest)?);
        let back = OnIngress::attach(&Program::load(Use::Ingress, &output(None, number))?, rest)?;
        let input = OnIngress::attach(&Program::load(Use::Ingress, &input(&[], rest))?, number)?;
        let interface = interface.to_owned();
        Ok(Self { interface, number, rest, parts: Vec::new(), input, outputs: vec![(rest, back)] })
    }

    /// The divided interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Gives a part of the frames to `near`, the near end of a pair. No other frame is delayed or lost.
    ///
    /// # Errors
    /// The interface is missing, the part has another one, or the kernel refuses.
    pub fn add(&mut self, part: Part, near: &str) -> io::Result<()> {
        if self.parts.iter().any(|(other, _)| *other == part) || self.parts.len() >= MOST_PARTS {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let to = existing(near)?;
        let vlan = if let Part::Vlan(id) = part { Some(id) } else { None };
        let back = OnIngress::attach(&Program::load(Use::Ingress, &output(vlan, self.number))?, to)?;
        self.parts.push((part, to));
        if let Err(e) = self.renew() {
            self.parts.pop();
            return Err(e);
        }
        self.outputs.push((to, back));
        Ok(())
    }

    /// The part's frames are no part any more.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&mut self, part: Part) -> io::Result<()> {
        let Some(at) = self.parts.iter().position(|(other, _)| *other == part) else { return Ok(()) };
        let (_, to) = self.parts.remove(at);
        self.outputs.retain(|(number, _)| *number != to);
        self.renew()
    }

    fn renew(&self) -> io::Result<()> {
        self.input.replace(&Program::load(Use::Ingress, &input(&self.parts, self.rest))?)
    }
}

fn existing(interface: &str) -> io::Result<u32> {
    match index_of(interface) {
        0 => Err(io::Error::from_raw_os_error(libc::ENODEV)),
        number => Ok(number),
    }
}

/// Sends the packet out by an interface; what the helper returns is the program's result.
fn redirect(to: u32) -> [Instruction; 4] {
    [(MOVE_IMMEDIATE, 1, 0, to as i32), (MOVE_IMMEDIATE, 2, 0, 0), (CALL, 0, 0, REDIRECT), (EXIT, 0, 0, 0)]
}

/// The program on the divided interface.
fn input(parts: &[(Part, u32)], rest: u32) -> Vec<Instruction> {
    let mut vlans = Vec::new();
    let mut addresses = Vec::new();
    let mut groups = Vec::new();
    for &(part, to) in parts {
        match part {
            Part::Vlan(id) => {
                vlans.push((JUMP32_UNLESS_EQUAL, 0, 6, i32::from(id)));
                vlans.extend([(MOVE, 0x61, 0, 0), (CALL, 0, 0, VLAN_POP)]);
                vlans.extend(redirect(to));
            }
            Part::Address([a, b, c, d, e, f]) => {
                addresses.push((JUMP32_UNLESS_EQUAL, 7, 5, i32::from_be_bytes([a, b, c, d])));
                addresses.push((JUMP32_UNLESS_EQUAL, 8, 4, i32::from(u16::from_be_bytes([e, f]))));
                addresses.extend(redirect(to));
                groups.extend([(MOVE, 0x61, 0, 0), (MOVE_IMMEDIATE, 2, 0, to as i32)]);
                groups.extend([(MOVE_IMMEDIATE, 3, 0, 0), (CALL, 0, 0, CLONE_REDIRECT)]);
            }
        }
    }
    debug_assert!(vlans.len() + addresses.len() + groups.len() <= parts.len() * (LONGEST_PART + 4));
    // Without a tag: to the addresses, if there are any. Group addresses have the lowest bit of the first
    // byte.
    let mut untagged = Vec::new();
    if !addresses.is_empty() {
        untagged.extend([(LOAD_PACKET_WORD, 0, 0, 0), (MOVE, 0x07, 0, 0)]);
        untagged.extend([(LOAD_PACKET_HALF, 0, 0, 4), (MOVE, 0x08, 0, 0)]);
        untagged.push((JUMP_IF_ANY_BIT, 7, addresses.len() as i16 + 1, 0x0100_0000));
        untagged.append(&mut addresses);
        untagged.push((JUMP, 0, groups.len() as i16, 0));
        untagged.append(&mut groups);
    }
    let mut tagged: Vec<Instruction> = vec![(LOAD_WORD, 0x60, VLAN_TCI, 0), (AND32_IMMEDIATE, 0, 0, 0xfff)];
    tagged.append(&mut vlans);
    tagged.push((JUMP, 0, untagged.len() as i16, 0));
    let mut program: Vec<Instruction> = vec![(MOVE, 0x16, 0, 0), (LOAD_WORD, 0x60, VLAN_PRESENT, 0)];
    program.push((JUMP_IF_EQUAL, 0, tagged.len() as i16, 0));
    program.append(&mut tagged);
    program.append(&mut untagged);
    program.extend(redirect(rest));
    program
}

/// The program on the near end of a pair.
fn output(vlan: Option<u16>, to: u32) -> Vec<Instruction> {
    let mut program = Vec::new();
    if let Some(id) = vlan {
        program.extend([(MOVE_IMMEDIATE, 2, 0, DOT1Q), (MOVE_IMMEDIATE, 3, 0, i32::from(id))]);
        program.push((CALL, 0, 0, VLAN_PUSH));
    }
    program.extend(redirect(to));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<(Part, u32)> {
        let vlans = (1..=400).map(|id| (Part::Vlan(id), 1000 + u32::from(id)));
        let addresses = (0..400u16).map(|n| {
            let [high, low] = n.to_be_bytes();
            (Part::Address([0xf2, 0, 0, 0, high, low]), 3000 + u32::from(n))
        });
        vlans.chain(addresses).collect()
    }

    /// Every jump leads to an instruction of the program, and every way ends.
    #[test]
    #[cfg_attr(miri, ignore = "nothing here is unsafe, and it takes long")]
    fn jumps_stay_inside() {
        for parts in [parts(), Vec::new(), vec![(Part::Vlan(7), 1)], vec![(Part::Address([2; 6]), 1)]] {
            let program = input(&parts, 99);
            assert_eq!(program.last().unwrap().0, EXIT);
            for (at, (operation, _, offset, _)) in program.iter().enumerate() {
                if [JUMP, JUMP_IF_EQUAL, JUMP_IF_ANY_BIT, JUMP32_UNLESS_EQUAL].contains(operation) {
                    assert!(*offset >= 0 && at + 1 + (*offset as usize) < program.len(), "{at} {offset}");
                }
            }
        }
    }

    /// The kernel's check, where this process may load programs.
    #[test]
    #[cfg_attr(miri, ignore = "loads programs into the kernel")]
    fn the_kernel_accepts_the_programs() {
        for program in [input(&[], 1), input(&parts(), 1), output(None, 1), output(Some(7), 1)] {
            match Program::load(Use::Ingress, &program) {
                Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                    return crate::skip::skip("no right to load BPF programs");
                }
                done => drop(done.unwrap()),
            }
        }
    }
}
