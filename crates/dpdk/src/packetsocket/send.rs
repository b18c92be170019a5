//! Sending: packets of a connection as one large segment, others many at a time.

use std::ffi::c_uint;
use std::io;
use std::mem;
use std::ops::Range;

use super::counters::{Counters, add};
use super::descriptor::{Descriptor, FEW, NOWHERE, parts, readable};
use crate::packet::Packet;
use crate::segment::{Gathered, VnetHeader};

/// Packets that are sent by one system call.
const SENT_AT_ONCE: usize = 64;

/// What sends.
pub(super) struct Sending<'a> {
    pub(super) socket: &'a Descriptor,
    pub(super) counters: &'a Counters,
    /// The interface's.
    pub(super) mtu: usize,
}

impl Sending<'_> {
    /// Sends packets from the front and returns how many are done with: sent, or refused by the kernel,
    /// counted, and their places told to `refused`. Fewer than there are: the kernel takes no more at the
    /// moment.
    pub(super) fn send(&self, packets: &[Packet], refused: &mut dyn FnMut(usize)) -> usize {
        let (mut done, mut at) = (0, 0);
        let mut singles = |places: Range<usize>| {
            let first = places.start;
            self.send_singles(&packets[places], &mut |place| refused(first + place))
        };
        while at < packets.len() {
            let Some(segment) = Gathered::from_front(&packets[at..]) else {
                at += 1;
                continue;
            };
            if segment.packet_len() > self.mtu {
                // The kernel would cut it into packets that it refuses one by one.
                at += segment.packets;
                continue;
            }
            done += singles(done..at);
            if done < at {
                return done;
            }
            match self.send_segment(&segment, &packets[at..at + segment.packets]) {
                Outcome::Sent => add(&self.counters.tx_segments, 1),
                Outcome::Full => return done,
                Outcome::Refused => {
                    let sent = singles(at..at + segment.packets);
                    if sent < segment.packets {
                        return done + sent;
                    }
                }
            }
            at += segment.packets;
            done = at;
        }
        done + singles(done..packets.len())
    }

    fn send_segment(&self, segment: &Gathered, packets: &[Packet]) -> Outcome {
        let vnet = segment.vnet.bytes();
        let n = 2 + packets.len();
        let (mut few, mut many) = ([NOWHERE; FEW], Vec::new());
        let parts = parts(n, &mut few, &mut many);
        let all = [&vnet[..], segment.headers()].into_iter();
        let all = all.chain(packets.iter().map(|packet| segment.payload(packet)));
        let mut bytes = 0;
        for (part, from) in parts.iter_mut().zip(all) {
            *part = readable(from);
            bytes += from.len();
        }
        // SAFETY: plain data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = n as _;
        // SAFETY: the kernel only reads the parts, which live until the end of this function.
        let status = unsafe { libc::sendmsg(self.socket.number(), &message, libc::MSG_DONTWAIT) };
        if status < 0 {
            return Outcome::of_error();
        }
        add(&self.counters.tx_packets, packets.len() as u64);
        let headers = segment.headers().len() * (packets.len() - 1);
        add(&self.counters.tx_bytes, (bytes - VnetHeader::LEN + headers) as u64);
        Outcome::Sent
    }

    /// Sends packets one by one, as `send`.
    fn send_singles(&self, packets: &[Packet], refused: &mut dyn FnMut(usize)) -> usize {
        const PLAIN: [u8; VnetHeader::LEN] = [0; VnetHeader::LEN];
        let (mut done, mut was_down) = (0, false);
        while done < packets.len() {
            let some = &packets[done..packets.len().min(done + SENT_AT_ONCE)];
            let mut parts = [[NOWHERE; 2]; SENT_AT_ONCE];
            // SAFETY: plain data.
            let mut messages: [libc::mmsghdr; SENT_AT_ONCE] = unsafe { mem::zeroed() };
            for ((packet, parts), message) in some.iter().zip(&mut parts).zip(&mut messages) {
                *parts = [readable(&PLAIN), readable(packet.data())];
                message.msg_hdr.msg_iov = parts.as_mut_ptr();
                message.msg_hdr.msg_iovlen = 2;
            }
            let n = some.len() as c_uint;
            // SAFETY: `n` messages, whose parts the kernel only reads, and which live until then.
            let sent = unsafe {
                libc::sendmmsg(self.socket.number(), messages.as_mut_ptr(), n, libc::MSG_DONTWAIT as _)
            };
            if let Ok(sent) = usize::try_from(sent) {
                let sent = &some[..sent.min(some.len())];
                add(&self.counters.tx_packets, sent.len() as u64);
                add(&self.counters.tx_bytes, sent.iter().map(|packet| packet.len() as u64).sum());
                done += sent.len();
                if sent.is_empty() {
                    return done;
                }
                continue;
            }
            // The socket reports once that the interface was off, also when it is on again.
            let down = io::Error::last_os_error().raw_os_error() == Some(libc::ENETDOWN);
            if down && !mem::replace(&mut was_down, true) {
                continue;
            }
            match Outcome::of_error() {
                Outcome::Full => return done,
                // The first of them: too long for the interface, or too short, or the interface is down.
                _ => {
                    add(&self.counters.tx_errors, 1);
                    refused(done);
                    done += 1;
                }
            }
        }
        done
    }
}

/// What became of a segment.
enum Outcome {
    Sent,
    /// Nothing can be sent at the moment.
    Full,
    /// It cannot be sent.
    Refused,
}

impl Outcome {
    /// By the calling thread's error number.
    fn of_error() -> Outcome {
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Outcome::Full,
            _ => Outcome::Refused,
        }
    }
}
