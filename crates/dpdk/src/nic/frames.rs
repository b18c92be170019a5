//! Frames that are sent to a port, to see what it does with them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batch::Batch;
use crate::packet::Packet;
use crate::port::Port;
use crate::queue::{RxQueue, TxQueue};

use super::found::{Tried, Way};

/// How long a frame may be on its way.
const WAIT: Duration = Duration::from_millis(100);
/// Marks our frames: they are known by it and a number behind it.
const TAG: &[u8; 16] = b"valiant nic prob";

/// A frame of ours that has arrived.
pub(super) struct Arrived {
    /// The number that it was sent with.
    pub(super) number: u16,
    pub(super) queue: u16,
    pub(super) data: Vec<u8>,
    pub(super) hash: Option<u32>,
}

/// The queues of a port, and a way to them.
pub(super) struct Frames {
    rx: Vec<RxQueue>,
    tx: Option<TxQueue>,
    socket: Option<OwnedFd>,
    way: Way,
    /// The address of the port.
    mac: [u8; 6],
}

impl Frames {
    pub(super) fn open(port: &Arc<Port>, if_index: u32, allowed: bool) -> Self {
        let rx = (0..port.rx_queues()).filter_map(|queue| port.rx_queue(queue).ok()).collect();
        let tx = port.tx_queue(0).ok();
        let mut frames = Self { rx, tx, socket: None, way: Way::Forbidden, mac: port.mac() };
        if !allowed {
            return frames;
        }
        if frames.makes_frames() {
            frames.way = Way::None;
            return frames;
        }
        frames.way = Way::Back;
        let came = !frames.round(&[frames.udp(0, 1, None)]).is_empty();
        if !came {
            frames.socket = (if_index != 0).then(|| socket(if_index).ok()).flatten();
            frames.way = if frames.socket.is_some() { Way::Interface } else { Way::None };
            // An interface that has just been switched on may lose the first frames.
            let arrives = |frames: &mut Self| !frames.round(&[frames.udp(0, 1, None)]).is_empty();
            if frames.socket.is_some() && !(0..5).any(|_| arrives(&mut frames)) {
                (frames.way, frames.socket) = (Way::None, None);
            }
        }
        frames
    }

    /// Whether the driver always has frames, though nobody sends any: it brings whatever is in its buffers,
    /// also what has been sent before.
    fn makes_frames(&mut self) -> bool {
        const BURST: usize = 32;
        const BURSTS: usize = 64;
        let mut batch = Batch::new();
        let Some(rx) = self.rx.first_mut() else { return false };
        (0..BURSTS).all(|_| {
            batch.clear();
            rx.rx_burst(BURST, &mut batch) == BURST
        })
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// Why nothing can be seen; none if it can.
    pub(super) fn blind(&self) -> Option<Tried> {
        match self.way {
            Way::Back | Way::Interface => None,
            Way::None => Some(Tried::Not("there is no way to send it a frame".to_owned())),
            Way::Forbidden => Some(Tried::Not("no frames may be sent".to_owned())),
        }
    }

    /// UDP to a port, with a number, for the port's own address; with a VLAN tag if there is one.
    pub(super) fn udp(&self, number: u16, port: u16, tag: Option<u16>) -> Vec<u8> {
        let mut frame = [&self.mac[..], &[2, 0x56, 0x4e, 0x49, 0x43, 1]].concat();
        if let Some(tag) = tag {
            frame.extend([0x81, 0]);
            frame.extend(tag.to_be_bytes());
        }
        let [high, low] = number.to_be_bytes();
        // The checksum of UDP is left out, as IPv4 allows; that of IP is filled in.
        let mut ip = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 99, high, low, 10, 99, 0, 1];
        let sum: u32 = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend([8, 0]);
        frame.extend(ip);
        frame.extend((1024 + number).to_be_bytes());
        frame.extend(port.to_be_bytes());
        frame.extend([0, 26, 0, 0]);
        frame.extend(TAG);
        frame.extend(number.to_be_bytes());
        frame
    }

    /// Sends frames, and takes what arrives of ours: until all have arrived, or for a moment.
    pub(super) fn round(&mut self, frames: &[Vec<u8>]) -> Vec<Arrived> {
        match (&self.socket, &mut self.tx) {
            (Some(socket), _) => frames.iter().for_each(|frame| {
                // SAFETY: the frame lives during the call.
                unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
            }),
            (None, Some(tx)) => {
                let mut batch: Batch = frames.iter().filter_map(|frame| Packet::from_bytes(frame)).collect();
                tx.tx_burst(&mut batch);
            }
            (None, None) => {}
        }
        self.take(frames.len(), WAIT)
    }

    /// Takes what arrives of ours: so many frames, or for so long.
    fn take(&mut self, wanted: usize, wait: Duration) -> Vec<Arrived> {
        let (mut arrived, end) = (Vec::new(), Instant::now() + wait);
        let mut batch = Batch::new();
        while arrived.len() < wanted && Instant::now() < end {
            let mut some = false;
            for rx in &mut self.rx {
                let queue = rx.index();
                some |= rx.rx_burst(32, &mut batch) > 0;
                arrived.extend(batch.iter().filter_map(|packet| {
                    let number = number(packet.data())?;
                    Some(Arrived { number, queue, data: packet.data().to_vec(), hash: packet.rss_hash() })
                }));
                batch.clear();
            }
            if !some {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        arrived
    }

    /// Whether a frame that is sent by the port reaches its interface.
    pub(super) fn leaves(&mut self) -> bool {
        let frame = self.udp(7, 1, None);
        let (Some(socket), Some(tx)) = (&self.socket, &mut self.tx) else { return false };
        let mut batch: Batch = Packet::from_bytes(&frame).into_iter().collect();
        tx.tx_burst(&mut batch);
        let end = Instant::now() + WAIT;
        let mut buffer = [0; 2048];
        while Instant::now() < end {
            // SAFETY: the kernel writes no more than the buffer has.
            let got = unsafe {
                libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
            };
            match usize::try_from(got) {
                Ok(got) if number(buffer.get(..got).unwrap_or_default()) == Some(7) => return true,
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        false
    }
}

/// The number in a frame of ours.
fn number(frame: &[u8]) -> Option<u16> {
    let at = frame.windows(TAG.len()).position(|window| window == TAG)? + TAG.len();
    frame.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// A packet socket of an interface.
fn socket(if_index: u32) -> io::Result<OwnedFd> {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: no pointers; a descriptor that is returned is ours alone.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol.into());
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: plain data, all zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = if_index as i32;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives during the call and has this length.
    let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if status == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}
