//! Tests on the loopback of a network namespace of their own, by root.

use std::thread;

use super::descriptor::{Descriptor, writable};
use super::ring::Ring;
use super::{PACKET_COPY_THRESH, PACKET_VERSION, PACKET_VNET_HDR, PacketSocket, TPACKET_V2};
use crate::netdev::{Control, index_of};
use crate::packet::Packet;
use crate::segment::VnetHeader;
use crate::segment::tests::packets;
use crate::status::PortStats;

const HEADER: usize = 14;

/// A frame that no protocol takes.
fn frame(n: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![n; len];
    frame[..HEADER].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame
}

/// Runs a test on a loopback that only it uses; not without the rights to make one.
fn alone(test: impl FnOnce(&Control) + Send) {
    let ran = thread::scope(|scope| {
        let tested = scope.spawn(|| {
            // SAFETY: no pointers; it affects this thread only.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return false;
            }
            let control = Control::open().unwrap();
            control.set_up("lo", true).unwrap();
            test(&control);
            true
        });
        tested.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if !ran {
        crate::skip::skip("no network namespace of its own");
    }
}

/// A socket that receives from the loopback, and its ring.
fn receiver() -> (Descriptor, Ring) {
    let socket = Descriptor::open().unwrap();
    socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1).unwrap();
    socket.set(libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2).unwrap();
    socket.set(libc::SOL_PACKET, PACKET_COPY_THRESH, &1).unwrap();
    socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1).unwrap();
    let ring = Ring::map(&socket, 32).unwrap();
    socket.bind(index_of("lo"), libc::ETH_P_ALL as u16).unwrap();
    (socket, ring)
}

fn sender() -> PacketSocket {
    PacketSocket::open(index_of("lo"), 1500, None).unwrap()
}

fn is_faulty(socket: &Descriptor) -> bool {
    let mut poll = libc::pollfd { fd: socket.number(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 && poll.revents & libc::POLLERR != 0 }
}

#[test]
fn a_frame_that_is_given_up_takes_no_other_with_it() {
    alone(|_| {
        let (socket, mut ring) = receiver();
        let frames: Vec<Packet> = (1..4).map(|n| Packet::from_bytes(&frame(n, 4000)).unwrap()).collect();
        assert_eq!(sender().send(&frames, &mut |_| {}), 3);
        for n in 1..4 {
            let next = ring.next().unwrap();
            assert!(next.status & libc::TP_STATUS_COPY != 0 && next.data[HEADER] == n);
            if n == 1 {
                socket.discard();
            } else {
                let mut bytes = [0; VnetHeader::LEN + 4000];
                assert_eq!(socket.take(&mut [writable(&mut bytes)]), Some(bytes.len()));
                assert_eq!(bytes[VnetHeader::LEN + HEADER], n);
            }
            ring.release();
        }
        assert!(ring.next().is_none() && socket.take(&mut [writable(&mut [0; 100])]).is_none());
    });
}

#[test]
fn an_interface_that_was_off_costs_no_packet() {
    alone(|control| {
        let socket = sender();
        socket.socket.bind(socket.if_index, libc::ETH_P_ALL as u16).unwrap();
        for up in [false, true] {
            control.set_up("lo", up).unwrap();
        }
        let stats = || {
            let mut stats = PortStats::default();
            socket.add_stats(&mut stats);
            (stats.tx_packets, stats.tx_errors)
        };
        let packets =
            [Packet::from_bytes(&frame(1, 60)).unwrap(), Packet::from_bytes(&frame(2, 60)).unwrap()];
        assert_eq!((socket.send(&packets, &mut |_| {}), stats()), (2, (2, 0)));
        control.set_up("lo", false).unwrap();
        assert_eq!((socket.send(&packets, &mut |_| {}), stats()), (2, (2, 2)));
    });
}

#[test]
fn an_interface_that_was_off_does_not_keep_its_worker_awake() {
    alone(|control| {
        let (socket, _ring) = receiver();
        assert!(!is_faulty(&socket));
        for up in [false, true] {
            control.set_up("lo", up).unwrap();
        }
        assert!(is_faulty(&socket));
        let bell = crate::bell::Bell::new().unwrap();
        bell.lie_down();
        assert!(bell.sleep([socket.number()], std::time::Duration::from_secs(60)));
        assert!(!is_faulty(&socket));
    });
}

#[test]
fn packets_longer_than_the_interface_takes_do_not_pass_as_a_segment() {
    alone(|control| {
        control.set_mtu("lo", 1500).unwrap();
        let socket = sender();
        let stats = || {
            let mut stats = PortStats::default();
            socket.add_stats(&mut stats);
            (stats.tx_packets, stats.tx_errors)
        };
        // IP and TCP take 52 bytes.
        assert_eq!((socket.send(&packets(2896, 1448), &mut |_| {}), stats()), (2, (2, 0)));
        assert_eq!((socket.send(&packets(2898, 1449), &mut |_| {}), stats()), (2, (2, 2)));
        assert_eq!(
            socket.xstats().into_iter().find(|x| x.0 == "tx_large_segments"),
            Some(("tx_large_segments", 1))
        );
    });
}
