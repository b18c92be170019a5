//! Pairs of Ethernet interfaces (veth): what goes into one comes out of the other.

use crate::error::Error;
use crate::provide::{Request, number};
use std::fs;

/// Message type and flags (linux/rtnetlink.h, linux/netlink.h, linux/if.h).
const NEW_LINK: u16 = 16;
const CREATE_NEW: u16 = 0x400 | 0x200;
const UP: u32 = 1;
const PROMISCUOUS: u32 = 0x100;
/// Attributes (linux/if_link.h, linux/veth.h).
const NAME: u16 = 3;
const MTU: u16 = 4;
const INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const PEER: u16 = 1;

/// Makes a pair of interfaces in the calling thread's namespace, switched on, without IPv6 addresses of the
/// kernel. Pairs of these names that somebody has left are removed first.
///
/// # Errors
/// The kernel refuses it, or has no such interfaces.
pub fn make_pair(one: &str, other: &str, mtu: u32) -> Result<(), Error> {
    let failed = |cause| Error::Set { what: format!("the pair of interfaces {one} and {other}"), cause };
    let _ = remove_pair(one);
    let _ = remove_pair(other);
    Request::new(NEW_LINK, CREATE_NEW, &pair(one, other, mtu)).send().map_err(failed)?;
    for name in [one, other] {
        // A kernel without IPv6 does not have it.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        let up = number(name).and_then(|number| Request::new(NEW_LINK, 0, &flags(number, UP, UP)).send());
        if let Err(cause) = up {
            let _ = remove_pair(one);
            return Err(failed(cause));
        }
    }
    Ok(())
}

/// Removes an interface, and with it the other one of its pair.
///
/// # Errors
/// There is none of this name, or the kernel refuses.
pub fn remove_pair(interface: &str) -> Result<(), Error> {
    crate::Namespace::Own.remove_interface(interface)
}

/// Switches an interface on, and has it take frames to any address, or no more.
///
/// # Errors
/// There is none of this name, or the kernel refuses.
pub fn take_all_frames(interface: &str, all: bool) -> Result<(), Error> {
    let wanted = if all { UP | PROMISCUOUS } else { 0 };
    let changed = if all { UP | PROMISCUOUS } else { PROMISCUOUS };
    let set = |number| Request::new(NEW_LINK, 0, &flags(number, wanted, changed)).send();
    number(interface)
        .and_then(set)
        .map_err(|cause| Error::Set { what: format!("interface {interface}"), cause })
}

/// `ifinfomsg`.
fn flags(interface: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(interface.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend(change.to_ne_bytes());
    body
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut all = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    all.extend(kind.to_ne_bytes());
    all.extend(value);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

fn named(name: &str, mtu: u32) -> Vec<u8> {
    let text: Vec<u8> = name.bytes().chain([0]).collect();
    [attribute(NAME, &text), attribute(MTU, &mtu.to_ne_bytes())].concat()
}

fn pair(one: &str, other: &str, mtu: u32) -> Vec<u8> {
    let peer = attribute(PEER, &[flags(0, 0, 0), named(other, mtu)].concat());
    let info = [attribute(INFO_KIND, b"veth\0"), attribute(INFO_DATA, &peer)].concat();
    [flags(0, 0, 0), named(one, mtu), attribute(INFO, &info)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_as_long_as_they_say_and_padded() {
        assert_eq!(attribute(3, b"ab\0"), [7, 0, 3, 0, b'a', b'b', 0, 0]);
        let request = pair("one", "other", 1500);
        // ifinfomsg, name, MTU; then LINKINFO with kind and data.
        assert_eq!(request[16..24], [8, 0, 3, 0, b'o', b'n', b'e', 0]);
        assert_eq!(request.len() % 4, 0);
        let info = 16 + 8 + 8;
        assert_eq!(usize::from(u16::from_ne_bytes([request[info], request[info + 1]])), request.len() - info);
    }
}
