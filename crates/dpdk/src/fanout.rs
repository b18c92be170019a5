//! Which of an interface's receive queues a frame is put into, by its tag: the interface's packet sockets
//! form a fanout group, and a BPF program of ours looks the frame's VLAN, VLANs or MPLS label up in a map.
//! The kernel does this before the frame is copied, so that what overflows one queue is lost there, and takes
//! nothing from the others.
//!
//! There is a group of queues for each user, with one queue for each thread; a flow's packets reach one
//! thread. The first group gets what no rule is about, and broadcast frames of tags that several users share.
//!
//! In its Linux interface, `skb`, a frame that reaches a packet socket has its outer VLAN tag beside it, not
//! in it; offsets count from the network header, behind that tag.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;

use locks::IgnorePoison;

use crate::assembler::Assembler;
use crate::bpf::{Instruction, Map, Program, Use};

/// The most entries of the map: tags, and addresses of tags that are shared.
const RULES: u32 = 1 << 17;

/// What tells the frames of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SteerTag {
    /// No tag.
    Untagged,
    /// A VLAN.
    Vlan(u16),
    /// Two VLANs, the outer one first.
    Qinq(u16, u16),
    /// An MPLS label.
    Mpls(u32),
    /// What no other rule is about.
    Rest,
}

/// Frames and the group of receive queues that they are put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteerRule {
    /// Their tag.
    pub tag: SteerTag,
    /// Their destination address; none: any. Of a tag with rules that have addresses, all rules have one.
    pub mac: Option<[u8; 6]>,
    /// The group of queues.
    pub group: u16,
}

/// In a value of the map: the tag is shared, and the other bits are its number.
const SHARED: u32 = 1 << 31;
/// The key of what no other rule is about.
const REST: u64 = u64::MAX;

fn key(tag: SteerTag) -> u64 {
    match tag {
        SteerTag::Untagged => 0,
        SteerTag::Vlan(id) => id.into(),
        SteerTag::Qinq(outer, inner) => 1 << 32 | u64::from(outer) << 12 | u64::from(inner),
        SteerTag::Mpls(label) => 2 << 32 | u64::from(label),
        SteerTag::Rest => REST,
    }
}

/// The key of an address within a shared tag.
fn address_key(shared: u32, mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    1 << 63 | u64::from(shared & 0x7fff) << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// The content of the map for these rules.
fn entries(rules: &[SteerRule]) -> BTreeMap<u64, u32> {
    let mut rules = rules.to_vec();
    rules.sort_by_key(|rule| rule.tag);
    let mut all = BTreeMap::new();
    let mut shared = 0;
    for same in rules.chunk_by(|a, b| a.tag == b.tag) {
        let Some(first) = same.first() else { continue };
        if same.iter().all(|rule| rule.group == first.group) && (same.len() == 1 || first.mac.is_none()) {
            all.insert(key(first.tag), first.group.into());
            continue;
        }
        all.insert(key(first.tag), SHARED | shared);
        for rule in same {
            all.extend(rule.mac.map(|mac| (address_key(shared, mac), u32::from(rule.group))));
        }
        shared += 1;
    }
    all
}

/// The program and its map.
#[derive(Debug)]
pub(crate) struct Fanout {
    map: Map,
    program: Program,
    groups: u16,
    now: Mutex<BTreeMap<u64, u32>>,
}

impl Fanout {
    /// For so many groups of queues with one for each of `threads`. Needs CAP_BPF.
    pub(crate) fn new(groups: u16, threads: u16) -> io::Result<Fanout> {
        let map = Map::new(RULES)?;
        let program = Program::load(Use::Fanout, &program(&map, threads))?;
        Ok(Fanout { map, program, groups, now: Mutex::default() })
    }

    pub(crate) fn program(&self) -> RawFd {
        self.program.descriptor()
    }

    /// How many groups of queues there are.
    pub(crate) fn groups(&self) -> u16 {
        self.groups
    }

    /// Replaces all rules. While it is done, frames may be put into the first group.
    pub(crate) fn set(&self, rules: &[SteerRule]) -> io::Result<()> {
        let new = entries(rules);
        let mut now = self.now.lock().ignore_poison();
        // Addresses before the tags that they belong to.
        for (&key, &value) in new.iter().rev().filter(|(key, value)| now.get(key) != Some(value)) {
            self.map.set(key, value)?;
        }
        for &key in now.keys().filter(|key| !new.contains_key(key)) {
            self.map.remove(key)?;
        }
        *now = new;
        Ok(())
    }
}

/// The program: returns the number of the queue in the fanout group. A load behind the end of the frame ends
/// it with 0.
fn program(map: &Map, threads: u16) -> Vec<Instruction> {
    // Operations.
    const LOAD_FIELD: u8 = 0x61;
    const STORE: u8 = 0x7b;
    const FRAME_WORD: u8 = 0x20;
    const FRAME_HALF: u8 = 0x28;
    const FRAME_BYTE: u8 = 0x30;
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const AND: u8 = 0x57;
    const OR: u8 = 0x4f;
    const XOR: u8 = 0xaf;
    const ADD: u8 = 0x0f;
    const ADD_VALUE: u8 = 0x07;
    const LEFT: u8 = 0x67;
    const RIGHT: u8 = 0x77;
    const MULTIPLY: u8 = 0x27;
    const MULTIPLY_32: u8 = 0x24;
    const MODULO: u8 = 0x97;
    const GO: u8 = 0x05;
    const IF_EQUAL: u8 = 0x15;
    const IF_NOT: u8 = 0x55;
    const IF_BITS: u8 = 0x45;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const LOAD_LONG: u8 = 0x18;
    const LOOK_UP: i32 = 1;
    // Fields of `__sk_buff`.
    const PROTOCOL: i16 = 16;
    const VLAN_PRESENT: i16 = 20;
    const VLAN_TCI: i16 = 24;
    const VLAN_PROTOCOL: i16 = 28;
    // Where a frame's link and network header are.
    const LINK: i32 = -0x20_0000;
    const NET: i32 = -0x10_0000;
    // R6: the frame; R7: the key; R8: the hash of the flow; R9: the EtherType.
    let wire = |ethertype: u16| i32::from(ethertype.to_be());
    let mut p = Assembler::default();
    // The result of a look-up of the key in R7, or 0 without.
    let look_up = |p: &mut Assembler| {
        p.put(&[
            (STORE, 0x7a, -8, 0),
            (LOAD_LONG, 0x11, 0, map.number()),
            (0, 0, 0, 0),
            (MOVE, 0xa2, 0, 0),
            (ADD_VALUE, 2, 0, -8),
            (CALL, 0, 0, LOOK_UP),
        ]);
    };
    p.put(&[
        (MOVE, 0x16, 0, 0),
        (SET, 7, 0, 0),
        (SET, 8, 0, 0),
        (LOAD_FIELD, 0x69, PROTOCOL, 0),
        (LOAD_FIELD, 0x60, VLAN_PRESENT, 0),
    ]);
    p.jump(IF_EQUAL, 0, 0, "untagged");
    p.put(&[(LOAD_FIELD, 0x67, VLAN_TCI, 0), (AND, 7, 0, 0xfff)]);
    p.jump(IF_NOT, 9, wire(0x8100), "one tag");
    // Two tags; if nobody has both, it is the outer one's.
    p.put(&[
        (FRAME_HALF, 0, 0, NET),
        (AND, 0, 0, 0xfff),
        (LEFT, 7, 0, 12),
        (OR, 0x07, 0, 0),
        (SET, 0, 0, 1),
        (LEFT, 0, 0, 32),
        (OR, 0x07, 0, 0),
    ]);
    look_up(&mut p);
    p.jump(IF_NOT, 0, 0, "found");
    p.put(&[(RIGHT, 7, 0, 12), (AND, 7, 0, 0xfff)]);
    p.label("one tag");
    p.put(&[(LOAD_FIELD, 0x60, VLAN_PROTOCOL, 0)]);
    p.jump(IF_NOT, 0, wire(0x8100), "rest");
    p.jump(GO, 0, 0, "tag");
    p.label("untagged");
    p.jump(IF_NOT, 9, wire(0x8847), "tag");
    p.put(&[(FRAME_WORD, 0, 0, NET), (RIGHT, 0, 0, 12), (SET, 7, 0, 2), (LEFT, 7, 0, 32), (OR, 0x07, 0, 0)]);
    p.label("tag");
    look_up(&mut p);
    p.jump(IF_NOT, 0, 0, "found");
    p.label("rest");
    p.put(&[(SET, 7, 0, -1)]);
    look_up(&mut p);
    p.jump(IF_NOT, 0, 0, "found");
    p.jump(GO, 0, 0, "first");
    p.label("found");
    p.put(&[(LOAD_FIELD, 0x07, 0, 0), (MOVE, 0x70, 0, 0), (RIGHT, 0, 0, 31)]);
    p.jump(IF_EQUAL, 0, 0, "queue");
    // A shared tag: by the destination address.
    p.put(&[
        (AND, 7, 0, 0x7fff),
        (LEFT, 7, 0, 48),
        (SET, 0, 0, 1),
        (LEFT, 0, 0, 63),
        (OR, 0x07, 0, 0),
        (FRAME_WORD, 0, 0, LINK),
    ]);
    p.jump(IF_BITS, 0, 1 << 24, "first");
    p.put(&[(LEFT, 0, 0, 16), (OR, 0x07, 0, 0), (FRAME_HALF, 0, 0, LINK + 4), (OR, 0x07, 0, 0)]);
    look_up(&mut p);
    p.jump(IF_EQUAL, 0, 0, "first");
    p.put(&[(LOAD_FIELD, 0x07, 0, 0)]);
    p.jump(GO, 0, 0, "queue");
    p.label("first");
    p.put(&[(SET, 7, 0, 0)]);
    p.label("queue");
    if threads > 1 {
        // The group's queue by a hash of the flow.
        p.jump(IF_EQUAL, 9, wire(0x86dd), "version 6");
        p.jump(IF_NOT, 9, wire(0x0800), "hashed");
        p.put(&[
            (FRAME_WORD, 0, 0, NET + 12),
            (MOVE, 0x08, 0, 0),
            (FRAME_WORD, 0, 0, NET + 16),
            (XOR, 0x08, 0, 0),
            (FRAME_HALF, 0, 0, NET + 6),
        ]);
        p.jump(IF_BITS, 0, 0x3fff, "hashed");
        p.put(&[(FRAME_BYTE, 0, 0, NET)]);
        p.jump(IF_NOT, 0, 0x45, "hashed");
        p.put(&[(FRAME_BYTE, 0, 0, NET + 9)]);
        p.jump(IF_EQUAL, 0, 6, "ports");
        p.jump(IF_NOT, 0, 17, "hashed");
        p.label("ports");
        p.put(&[(FRAME_WORD, 0, 0, NET + 20), (XOR, 0x08, 0, 0)]);
        p.jump(GO, 0, 0, "hashed");
        p.label("version 6");
        p.put(&[
            (FRAME_WORD, 0, 0, NET + 20),
            (MOVE, 0x08, 0, 0),
            (FRAME_WORD, 0, 0, NET + 36),
            (XOR, 0x08, 0, 0),
            (FRAME_BYTE, 0, 0, NET + 6),
        ]);
        p.jump(IF_EQUAL, 0, 6, "ports 6");
        p.jump(IF_NOT, 0, 17, "hashed");
        p.label("ports 6");
        p.put(&[(FRAME_WORD, 0, 0, NET + 40), (XOR, 0x08, 0, 0)]);
        p.label("hashed");
        p.put(&[
            (MULTIPLY_32, 8, 0, 0x9e37_79b1_u32.cast_signed()),
            (RIGHT, 8, 0, 16),
            (MODULO, 8, 0, threads.into()),
        ]);
    }
    p.put(&[(MOVE, 0x70, 0, 0), (MULTIPLY, 0, 0, threads.into()), (ADD, 0x80, 0, 0), (EXIT, 0, 0, 0)]);
    p.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_count_where_a_tag_is_shared() {
        let rule = |tag, last: u8, group| SteerRule { tag, mac: Some([2, 0, 0, 0, 0, last]), group };
        let rules = [
            rule(SteerTag::Vlan(10), 1, 1),
            rule(SteerTag::Untagged, 2, 1),
            rule(SteerTag::Untagged, 3, 2),
            SteerRule { tag: SteerTag::Rest, mac: None, group: 4 },
            rule(SteerTag::Qinq(1, 2), 5, 3),
        ];
        let address = |last: u64| 1 << 63 | 0x0200_0000_0000 | last;
        let wanted =
            [(0, SHARED), (10, 1), (address(2), 1), (address(3), 2), (REST, 4), (1 << 32 | 0x1002, 3)];
        assert_eq!(entries(&rules), BTreeMap::from(wanted));
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn the_kernel_accepts_the_program() {
        for threads in [1, 2, 3] {
            match Fanout::new(16, threads) {
                Ok(fanout) => {
                    let rule = |group| SteerRule { tag: SteerTag::Vlan(7), mac: None, group };
                    fanout.set(&[rule(1)]).unwrap();
                    fanout.set(&[rule(2)]).unwrap();
                    fanout.set(&[]).unwrap();
                }
                Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                    crate::skip::skip("no right to load programs")
                }
                Err(e) => panic!("{threads} threads: {e}"),
            }
        }
    }
}
