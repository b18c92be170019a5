//! TUN and TAP devices, in a network namespace of the test's thread. They need root and `/dev/net/tun`.

#[path = "../../../tests/skip.rs"]
mod skip;

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use dpdk::{Batch, Error, Packet, Tun, TunConfig, TunMode};
use skip::skip;

fn ready() -> bool {
    // SAFETY: cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root || !std::path::Path::new("/dev/net/tun").exists() {
        skip("it needs root and /dev/net/tun");
        return false;
    }
    // SAFETY: no pointers; it affects the calling thread only.
    let own = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    if !own {
        skip("it cannot make a network namespace");
    }
    own
}

fn wait_readable(tun: &Tun) -> bool {
    let mut fd = libc::pollfd { fd: tun.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut fd, 1, 2000) == 1 }
}

#[test]
fn a_tun_device_carries_ip_packets_both_ways() {
    if !ready() {
        return;
    }
    let mut config = TunConfig::new("tun%d", TunMode::Ip);
    config.address = Some(([10, 8, 0, 1].into(), 24));
    config.mtu = Some(1400);
    let mut tun = Tun::open(&config).unwrap();
    assert_eq!((tun.name(), tun.interface().mtu, tun.interface().up), ("tun0", 1400, true));

    let socket = UdpSocket::bind("10.8.0.1:7000").unwrap();
    for i in 0..5 {
        socket.send_to(&[i; 100], "10.8.0.2:7001").unwrap();
    }
    let mut batch = Batch::new();
    while batch.iter().filter(|packet| packet.data()[0] == 0x45).count() < 5 {
        assert!(wait_readable(&tun), "{} packets", batch.len());
        tun.read(32, &mut batch);
        // The kernel also sends IPv6 router solicitations and the like.
        batch.retain_mut(|packet| packet.data()[0] == 0x45);
    }
    assert_eq!((batch[0].len(), batch[4].data()[28]), (128, 4));
    assert_eq!(tun.read(32, &mut Batch::new()), 0);

    // Sent back with addresses and ports swapped: the checksums stay correct.
    for packet in &mut batch {
        let data = packet.data_mut();
        for i in 0..4 {
            data.swap(12 + i, 16 + i);
        }
        data.swap(20, 22);
        data.swap(21, 23);
    }
    batch.push(Packet::from_bytes(b"\0 is no version of IP").unwrap());
    assert_eq!(tun.write(&mut batch), 6);
    assert!(batch.is_empty());
    assert_eq!((tun.stats().written, tun.stats().refused), (5, 1));
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut buffer = [0; 2000];
    for i in 0..5 {
        assert_eq!(socket.recv(&mut buffer).unwrap(), 100);
        assert_eq!(buffer[0], i);
    }
}

#[test]
fn a_tap_device_has_the_address_and_headroom_asked_for() {
    if !ready() {
        return;
    }
    let mut config = TunConfig::new("tap7", TunMode::Ethernet);
    config.mac = Some([2, 0, 0, 0, 0, 7]);
    config.headroom = 200;
    config.address = Some(([10, 9, 0, 1].into(), 30));
    let mut tun = Tun::open(&config).unwrap();
    assert_eq!((tun.name(), tun.interface().mac), ("tap7", [2, 0, 0, 0, 0, 7]));
    UdpSocket::bind("10.9.0.1:0").unwrap().send_to(b"who has", "10.9.0.2:9").unwrap();
    let mut batch = Batch::new();
    while !batch.iter().any(|packet| packet.data()[12..14] == [8, 6]) {
        assert!(wait_readable(&tun));
        tun.read(1, &mut batch);
    }
    let arp = batch.iter().find(|packet| packet.data()[12..14] == [8, 6]).unwrap();
    assert_eq!((arp.data()[6..12].to_vec(), arp.headroom()), (vec![2, 0, 0, 0, 0, 7], 200));
    let name = tun.name().to_owned();
    drop(tun);
    assert!(dpdk::interface(&name).is_err(), "it disappears when closed");
}

#[test]
fn errors_name_the_device() {
    if !ready() {
        return;
    }
    for name in ["a name that is far too long", "a/b", "a b"] {
        assert!(
            matches!(Tun::open(&TunConfig::new(name, TunMode::Ip)), Err(Error::Interface { .. })),
            "{name}"
        );
    }
    let first = Tun::open(&TunConfig::new("tun9", TunMode::Ip)).unwrap();
    let error = Tun::open(&TunConfig::new("tun9", TunMode::Ip)).unwrap_err().to_string();
    assert!(error.contains("tun9") && error.contains("busy"), "{error}");
    drop(first);
}
