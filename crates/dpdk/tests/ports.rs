//! Ports over real DPDK drivers, all in one process, since a process has one DPDK environment.
//!
//! They need root, and those on interfaces need AF_XDP; without, each prints why it is skipped. Interfaces
//! are in a network namespace that belongs to the test's thread alone and ends with it.

#[path = "../../../tests/skip.rs"]
mod skip;

use locks::IgnorePoison;
use std::fs;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use dpdk::{
    Batch, DEFAULT_HEADROOM, Eal, EalOptions, Method, Packet, Port, PortConfig, PortKind, PortSpec,
    PortState, PortTable, VirtualPort, WorkerThread, open, set_thread_pool,
};
use skip::skip;

/// Starts the environment, or prints why the test is skipped.
fn eal() -> Option<&'static Eal> {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip("it needs root");
        return None;
    }
    Some(Eal::init(&EalOptions::default()).expect("DPDK starts"))
}

fn spec(text: &str) -> PortSpec {
    PortSpec::parse(text).unwrap()
}

fn needs(rx_queues: u16, tx_queues: u16) -> PortConfig {
    PortConfig { rx_queues, tx_queues, ..PortConfig::default() }
}

/// Polls until `done` or two seconds have passed.
fn within(mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        if done() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

fn run(command: &str) {
    let status = Command::new("sh").arg("-ec").arg(command).status().expect("sh runs");
    assert!(status.success(), "{command}");
}

/// Moves the calling thread into a network namespace of its own.
fn own_network() {
    // SAFETY: no pointers; it affects the calling thread only.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
    run("ip link set lo up");
}

/// Only one test at a time uses `va`: the process has one table of ports, whatever the namespace.
static INTERFACES: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    INTERFACES.lock().ignore_poison()
}

/// Makes `va` and `vb` with this many queues, `vb` with an address, and a neighbor behind `va`.
fn veth_pair(queues: u16) {
    own_network();
    let n = format!("numrxqueues {queues} numtxqueues {queues}");
    run(&format!("ip link add va {n} type veth peer name vb {n}"));
    // Without large segments, for which AF_XDP would not be chosen.
    run("ethtool -K va tso off");
    run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set va up; ip link set vb up");
    run(
        "ip addr add 10.7.0.1/24 dev vb; ip neigh add 10.7.0.2 lladdr 02:00:00:00:00:02 dev vb nud permanent",
    );
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Whether an Ethernet frame holds a UDP packet over IPv4 with a correct, complete checksum.
fn udp_is_valid(frame: &[u8]) -> bool {
    let len = u16::from_be_bytes([frame[38], frame[39]]);
    let mut bytes = frame[26..34].to_vec();
    bytes.extend([0, 17]);
    bytes.extend(len.to_be_bytes());
    bytes.extend(&frame[34..34 + usize::from(len)]);
    sum(&bytes) == 0xffff
}

#[test]
fn the_environment_starts_quickly_and_leaves_nothing() {
    let Some(eal) = eal() else { return };
    eprintln!("DPDK {} started in {:?}, hugepages: {}", dpdk::dpdk_version(), eal.startup(), eal.hugepages());
    eal.notes().iter().for_each(|note| eprintln!("{note}"));
    assert!(!std::path::Path::new(&format!("/var/run/dpdk/valiant-{}", std::process::id())).exists());
}

/// Without the right addresses NICs write packets elsewhere, or an IOMMU stops them.
#[test]
fn devices_find_buffers_by_their_addresses() {
    if eal().is_none() {
        return;
    }
    let port = open(&spec("net_null7"), &needs(1, 1)).unwrap();
    let _worker = WorkerThread::register(None).unwrap();
    let mut batch = Batch::new();
    assert!(port.rx_queue(0).unwrap().rx_burst(8, &mut batch) > 0);
    for packet in &batch {
        // No NIC has asked for physical addresses.
        assert_eq!(packet.device_address(), packet.data().as_ptr() as u64);
    }
}

#[test]
fn null_ports_make_and_swallow_packets() {
    let Some(_) = eal() else { return };
    let port = open(&spec("net_null0,size=60"), &needs(1, 1)).unwrap();
    assert_eq!((port.kind(), port.state(), port.driver()), (PortKind::Device, PortState::Up, "net_null"));
    let mut rx = port.rx_queue(0).unwrap();
    let mut tx = port.tx_queue(0).unwrap();
    let mut batch = Batch::new();
    assert_eq!(rx.rx_burst(32, &mut batch), 32);
    assert_eq!(batch.len(), 32);
    assert!(batch.iter().all(|packet| packet.len() == 60 && !packet.is_heap()));
    batch[0].set_paint(1);
    assert_eq!(tx.tx_burst(&mut batch), 32);
    assert!(batch.is_empty());
    // The pool gets its buffers back, without the paint annotations.
    let before = port.pool().available();
    for _ in 0..1000 {
        rx.rx_burst(32, &mut batch);
        assert!(batch.iter().all(|packet| packet.paint() == 0));
        batch[31].set_paint(2);
        batch.clear();
    }
    assert_eq!(port.pool().available(), before);
    let stats = port.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (32032, 32));
    assert!(!port.xstats().is_empty());
    assert!(port.link().up);
}

#[test]
fn a_ring_port_gives_back_what_it_gets() {
    let Some(_) = eal() else { return };
    let port = open(&spec("net_ring0"), &needs(1, 1)).unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    let mut tx = port.tx_queue(0).unwrap();
    // Packets from the heap, from the pool, with annotations: all arrive without annotations, in order, as
    // buffers of the pool.
    let mut batch: Batch = (0..3).map(|i| Packet::from_bytes(&[i; 60]).unwrap()).collect();
    set_thread_pool(Some(port.pool()));
    assert_eq!(batch.push_empty(1), 1);
    assert!(batch[3].len() == 0 && batch[3].assign(&[3; 60]));
    assert_eq!(batch.push_empty(usize::MAX), 0, "more than the pool has");
    set_thread_pool(None);
    assert_eq!(batch.iter().filter(|packet| packet.is_heap()).count(), 3);
    batch.iter_mut().for_each(|packet| packet.set_paint(7));
    assert_eq!(tx.tx_burst(&mut batch), 4);
    assert_eq!((tx.copied(), tx.lost()), (3, 0));
    let mut arrived = Batch::new();
    assert_eq!(rx.rx_burst(64, &mut arrived), 4);
    for (i, packet) in arrived.iter().enumerate() {
        assert_eq!((packet.data()[0], packet.paint()), (i as u8, 0));
        assert!(!packet.is_heap());
    }
    // A packet too long for a buffer of the pool is dropped and counted; the others are sent.
    let mut batch: Batch =
        [60, 9000, 61].iter().map(|&len| Packet::alloc(DEFAULT_HEADROOM, len).unwrap()).collect();
    assert_eq!((tx.tx_burst(&mut batch), batch.len(), tx.lost()), (2, 0, 1));
    // A full ring leaves the packets that it has no space for in the batch, in order.
    arrived.clear();
    rx.rx_burst(64, &mut arrived);
    let mut sent = 0u32;
    let rest = loop {
        let mut batch: Batch =
            (0..32).map(|i| Packet::from_bytes(&(sent + i).to_be_bytes()).unwrap()).collect();
        let n = tx.tx_burst(&mut batch);
        sent += n as u32;
        if n < 32 {
            break batch;
        }
        assert!(sent < 1 << 20, "the ring never fills");
    };
    assert_eq!(rest[0].data(), sent.to_be_bytes());
}

#[test]
fn numbers_of_queues_are_checked_before_buffers_are_made() {
    let Some(_) = eal() else { return };
    let error = |text: &str, rx: &[u16], tx: &[u16]| {
        let mut table = PortTable::new();
        let numbers = PortConfig { rx_numbers: rx.into(), tx_numbers: tx.into(), ..needs(0, 0) };
        table.request(&spec(text), &numbers);
        table.start_all(&EalOptions::default()).map_err(|errors| errors[0].to_string())
    };
    let refused = error("net_null8", &[], &[65535]).unwrap_err();
    assert!(refused.contains("transmit queue 65535 does not exist: there are at most 1024"), "{refused}");
    let refused = error("net_null8", &[0, 1024], &[]).unwrap_err();
    assert!(refused.contains("receive queue 1024 does not exist"), "{refused}");
    let refused = error("lo", &[16], &[]).unwrap_err();
    assert!(refused.contains("receive queue 16 does not exist"), "{refused}");
    error("net_null8", &[1], &[2]).unwrap();
}

#[test]
fn queues_are_taken_once_and_ports_are_shared() {
    let Some(_) = eal() else { return };
    let mut table = PortTable::new();
    let name = spec("net_null7,size=64");
    table.request(&name, &needs(1, 0));
    table.request(&name, &needs(0, 2));
    table.start_all(&EalOptions::default()).unwrap();
    let port = table.get(&name).unwrap().clone();
    assert_eq!((port.rx_queues(), port.tx_queues()), (1, 2));
    let rx = port.rx_queue(0).unwrap();
    assert!(port.rx_queue(0).unwrap_err().to_string().contains("in use"));
    assert!(port.rx_queue(1).unwrap_err().to_string().contains("does not exist"));
    let (tx0, tx1) = (port.tx_queue(0).unwrap(), port.tx_queue(1).unwrap());
    assert!(port.share_tx_queue(1).unwrap_err().to_string().contains("in use"));
    assert_eq!((tx0.index(), tx1.index()), (0, 1));
    // Another configuration gets the same port while it is open, and the queue when it has been returned.
    let mut next = PortTable::new();
    next.request(&name, &needs(1, 2));
    next.start_all(&EalOptions::default()).unwrap();
    assert!(Arc::ptr_eq(next.get(&name).unwrap(), &port));
    drop(rx);
    let rx = port.rx_queue(0).unwrap();
    // With the last user the port closes, and can then be opened with other settings.
    drop((table, next, port, rx, tx0, tx1));
    let port = open(&name, &needs(1, 1)).unwrap();
    assert_eq!(port.tx_queues(), 1);
}

#[test]
fn one_device_queue_is_shared_by_two_transmit_queues() {
    let Some(_) = eal() else { return };
    let input = std::env::temp_dir().join(format!("valiant-shared-{}.pcap", std::process::id()));
    fs::write(&input, pcap(&[])).unwrap();
    let port = open(&spec(&format!("net_pcap6,rx_pcap={},tx_pcap=/dev/null", input.display())), &needs(1, 2))
        .unwrap();
    eprintln!("{:?}", port.notes());
    assert_eq!(port.tx_queues(), 1);
    let mut queues = [port.share_tx_queue(0).unwrap(), port.share_tx_queue(0).unwrap()];
    assert!(queues.iter().all(|queue| queue.is_shared()));
    assert!(port.tx_queue(0).unwrap_err().to_string().contains("in use"));
    thread::scope(|scope| {
        for queue in &mut queues {
            scope.spawn(move || {
                for _ in 0..100 {
                    let mut batch: Batch = (0..8).map(|i| Packet::from_bytes(&[i; 60]).unwrap()).collect();
                    while !batch.is_empty() {
                        queue.tx_burst(&mut batch);
                    }
                }
            });
        }
    });
    assert_eq!(port.stats().tx_packets, 1600);
    fs::remove_file(input).unwrap();
}

/// A pcap file of these packets.
fn pcap(packets: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_ne_bytes());
    }
    for packet in packets {
        for word in [1, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(*packet);
    }
    file
}

#[test]
fn pcap_files_come_in_and_go_out_and_long_packets_are_joined() {
    let Some(_) = eal() else { return };
    let directory = std::env::temp_dir().join(format!("valiant-pcap-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (input, output) = (directory.join("in.pcap"), directory.join("out.pcap"));
    let long: Vec<u8> = (0..6000u32).map(|i| (i % 251) as u8).collect();
    let file = pcap(&[&[1; 60], &long, &[2; 61]]);
    fs::write(&input, &file).unwrap();
    let name = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let port = open(&spec(&name), &needs(1, 1)).unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    let mut tx = port.tx_queue(0).unwrap();
    let mut batch = Batch::new();
    assert!(within(|| {
        rx.rx_burst(8, &mut batch);
        batch.len() == 3
    }));
    assert_eq!((batch[0].len(), batch[2].len(), rx.lost()), (60, 61, 0));
    assert_eq!(batch[1].data(), long);
    batch.remove(1);
    assert_eq!(tx.tx_burst(&mut batch), 2);
    drop((rx, tx, port));
    let written = fs::read(&output).unwrap();
    assert_eq!(written.len(), 24 + 16 + 60 + 16 + 61);
    assert_eq!(written[24 + 16..24 + 16 + 60], [1; 60]);

    fs::write(&input, &file[..file.len() - 10]).unwrap();
    let name = format!("net_pcap1,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let port = open(&spec(&name), &needs(1, 1)).unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    for _ in 0..10 {
        rx.rx_burst(8, &mut batch);
    }
    assert_eq!(batch.len(), 2, "the packet that is cut off is not there");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn errors_say_what_is_wrong() {
    let Some(_) = eal() else { return };
    let error = |text: &str| open(&spec(text), &needs(1, 1)).unwrap_err().to_string();
    let missing = error("no-such-if");
    assert!(missing.contains("no such interface") && missing.contains("lo"), "{missing}");
    let missing = error("net_pcap9,rx_pcap=/nonexistent.pcap");
    eprintln!("{missing}");
    assert!(missing.contains("nonexistent"), "{missing}");
    let missing = error("net_nothing0");
    eprintln!("{missing}");
    let missing = error("0000:7f:1f.7");
    assert!(missing.contains("no such PCI device"), "{missing}");
    let missing = error("31");
    assert!(missing.contains("DPDK has"), "{missing}");
}

#[test]
fn workers_come_and_go() {
    let Some(_) = eal() else { return };
    let port = open(&spec("net_null8"), &needs(1, 1)).unwrap();
    for _ in 0..300 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let _worker = WorkerThread::register(port.numa_node()).unwrap();
                let packet = Packet::alloc(DEFAULT_HEADROOM, 60).unwrap();
                assert!(!packet.is_heap());
            });
        });
    }
}

/// `va` by AF_XDP; `None`, and the test is skipped, where there is none.
fn af_xdp_or_skip(needs: PortConfig) -> Option<Arc<Port>> {
    match open(&spec("va"), &PortConfig { method: Method::AfXdp, ..needs }) {
        Ok(port) => {
            eprintln!("{}", port.choice());
            port.notes().iter().for_each(|note| eprintln!("  {note}"));
            Some(port)
        }
        Err(error) => {
            eprintln!("{error}");
            skip("no AF_XDP here");
            None
        }
    }
}

/// Sends UDP from `vb` to the neighbor behind `va`.
fn send_udp(ports: impl Iterator<Item = u16>) {
    let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
    for port in ports {
        socket.send_to(b"partial checksum", ("10.7.0.2", port)).unwrap();
    }
}

fn interface_passes_packets(method: Method, queues: u16) -> bool {
    veth_pair(queues);
    let config = PortConfig { method, promisc: true, ..needs(queues, queues) };
    let port = match method {
        Method::AfXdp => match af_xdp_or_skip(config) {
            Some(port) => port,
            None => return false,
        },
        _ => open(&spec("va"), &config).unwrap(),
    };
    assert_eq!(port.rx_queues(), queues);
    let mut queues_rx: Vec<_> = (0..queues).map(|queue| port.rx_queue(queue).unwrap()).collect();
    let mut tx = port.tx_queue(0).unwrap();
    // An idle worker may sleep on the sockets.
    let mut arrived = Batch::new();
    for rx in &mut queues_rx {
        assert!(rx.arm(true));
        while rx.rx_burst(32, &mut arrived) != 0 {}
    }
    arrived.clear();
    let fds = queues_rx.iter().flat_map(|rx| rx.wake_fds().expect("sockets wake"));
    let mut fds: Vec<_> = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let mut poll = |timeout_ms| {
        // SAFETY: the number of entries is the length of the array.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) }
    };
    assert_eq!(poll(50), 0, "nothing has been sent");
    send_udp(5000..5064);
    assert!(poll(1000) > 0);
    let mut per_queue = vec![0; queues_rx.len()];
    assert!(
        within(|| {
            for (rx, count) in queues_rx.iter_mut().zip(&mut per_queue) {
                *count += rx.rx_burst(32, &mut arrived);
            }
            arrived.retain_mut(|packet| {
                packet.len() >= 42 && packet.data()[12..14] == [8, 0] && packet.data()[23] == 17
            });
            arrived.len() == 64
        }),
        "{} of 64 arrived",
        arrived.len()
    );
    eprintln!("packets of each queue: {per_queue:?}");
    assert!(arrived.iter().all(|packet| udp_is_valid(packet.data())), "partial checksums were completed");
    assert!(queues_rx.iter().map(|rx| rx.completed_checksums()).sum::<u64>() >= 64);

    // In the other direction: a socket receives the packets, so the kernel found their checksums correct.
    let socket = UdpSocket::bind("10.7.0.1:6000").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mac = dpdk::interface("vb").unwrap().mac;
    for packet in &mut arrived {
        let data = packet.data_mut();
        data[..6].copy_from_slice(&mac);
        let (source, destination): ([u8; 4], [u8; 4]) =
            (data[26..30].try_into().unwrap(), data[30..34].try_into().unwrap());
        data[26..30].copy_from_slice(&destination);
        data[30..34].copy_from_slice(&source);
        let (source, old): ([u8; 2], [u8; 2]) =
            (data[34..36].try_into().unwrap(), data[36..38].try_into().unwrap());
        // The ports are swapped too, except that the destination is 6000: HC' = ~(~HC + ~m + m').
        data[34..36].copy_from_slice(&old);
        data[36..38].copy_from_slice(&6000u16.to_be_bytes());
        let mut check = u32::from(!u16::from_be_bytes([data[40], data[41]]));
        check += u32::from(!u16::from_be_bytes(source)) + 6000;
        check = (check & 0xffff) + (check >> 16);
        check = (check & 0xffff) + (check >> 16);
        data[40..42].copy_from_slice(&(!(check as u16)).to_be_bytes());
    }
    // In small bursts: the socket's buffer is small.
    let mut buffer = [0; 2048];
    while !arrived.is_empty() {
        let mut burst: Batch = arrived.drain(..8.min(arrived.len())).collect();
        let n = burst.len();
        assert!(within(|| {
            tx.tx_burst(&mut burst);
            burst.is_empty()
        }));
        for _ in 0..n {
            assert_eq!(socket.recv(&mut buffer).expect("the packet arrives"), 16);
        }
    }
    assert_eq!(port.mtu(), 1500);
    assert!(port.link().up);
    assert!(port.stats().rx_packets >= 64);
    true
}

#[test]
fn af_xdp_on_veth() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    if interface_passes_packets(Method::AfXdp, 1) {
        // When the port is closed, the interface has no XDP program any more.
        let output = Command::new("ip").args(["link", "show", "va"]).output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains("xdp"), "{output:?}");
        let port = open(&spec("va"), &PortConfig { method: Method::AfXdp, ..needs(1, 1) }).unwrap();
        assert_eq!(port.kind(), PortKind::AfXdp, "{}; {:?}", port.choice(), dpdk::recent_log());
    }
}

#[test]
fn closing_an_af_xdp_port_gives_its_buffers_back() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    veth_pair(2);
    let Some(port) = af_xdp_or_skip(needs(2, 2)) else { return };
    let pool = port.pool();
    drop(port);
    let available = pool.available();
    for _ in 0..10 {
        let port = open(&spec("va"), &PortConfig { method: Method::AfXdp, ..needs(2, 2) }).unwrap();
        assert_eq!(
            (port.kind(), port.pool()),
            (PortKind::AfXdp, pool),
            "{}; {:#?}",
            port.choice(),
            dpdk::recent_log()
        );
        // Some packets have arrived and wait, some are sent.
        let mut rx = port.rx_queue(0).unwrap();
        let mut tx = port.tx_queue(1).unwrap();
        send_udp(5000..5100);
        let mut batch: Batch = (0..100).filter_map(|_| Packet::alloc(DEFAULT_HEADROOM, 60)).collect();
        tx.tx_burst(&mut batch);
        rx.rx_burst(7, &mut batch);
    }
    let now = pool.available();
    assert!(available.abs_diff(now) <= 64, "{available} buffers before, {now} now, of {}", pool.capacity());
}

#[test]
fn af_xdp_on_a_veth_with_two_queues() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    interface_passes_packets(Method::AfXdp, 2);
}

#[test]
fn af_packet_on_veth() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    interface_passes_packets(Method::AfPacket, 1);
}

#[test]
fn jumbo_frames_through_af_packet() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    veth_pair(1);
    run("ip link set va mtu 9000; ip link set vb mtu 9000");
    let port = open(&spec("va"), &PortConfig { promisc: true, ..needs(1, 1) }).unwrap();
    eprintln!("{}", port.choice());
    assert_eq!((port.kind(), port.mtu()), (PortKind::AfPacket, 9000));
    let mut rx = port.rx_queue(0).unwrap();
    let mut batch = Batch::new();
    UdpSocket::bind("10.7.0.1:0").unwrap().send_to(&[7; 8900], "10.7.0.2:9").unwrap();
    assert!(within(|| {
        rx.rx_burst(32, &mut batch);
        batch.iter().any(|packet| {
            packet.len() == 14 + 20 + 8 + 8900 && packet.data()[42..].iter().all(|&byte| byte == 7)
        })
    }));
    assert!(port.set_mtu(60000).unwrap_err().to_string().contains("at most"));
    drop((rx, port));
    assert!(
        !String::from_utf8(Command::new("ip").args(["link", "show", "va"]).output().unwrap().stdout)
            .unwrap()
            .contains("PROMISC")
    );
}

#[test]
fn what_opening_a_port_changes_is_undone_unless_the_port_is_kept() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    own_network();
    run("ip link add va type veth peer name vb; ip link set vb up");
    let state = || dpdk::interface("va").map(|i| (i.up, i.mtu)).unwrap();
    let directory = std::env::temp_dir().join(format!("valiant-kept-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (file, new) = (directory.join("precious"), directory.join("new"));
    fs::write(&file, "precious").unwrap();
    let names = || fs::read_dir(&directory).unwrap().count();
    let capture =
        |number, path: &std::path::Path| spec(&format!("net_pcap_kept{number},tx_pcap={}", path.display()));
    let wants = PortConfig { method: Method::AfPacket, mtu: Some(1400), ..needs(1, 1) };
    let prepare = || {
        let mut table = PortTable::new();
        table.request(&spec("va"), &wants);
        table.request(&capture(1, &file), &needs(0, 1));
        table.request(&capture(2, &new), &needs(0, 1));
        table.prepare_all(&EalOptions::default()).unwrap();
        table
    };
    let table = prepare();
    assert_eq!(state(), (true, 1400));
    drop(table);
    assert_eq!((state(), names()), ((false, 1500), 1));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    // Another port, which cannot be opened.
    let mut table = PortTable::new();
    table.request(&spec("va"), &wants);
    table.request(&capture(3, &file), &needs(0, 1));
    table.request(&spec("no-such-port"), &needs(1, 1));
    assert!(table.start_all(&EalOptions::default()).is_err());
    drop(table);
    assert_eq!((state(), names()), ((false, 1500), 1));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    let table = prepare();
    table.ports().iter().for_each(|port| port.keep());
    drop(table);
    assert_eq!((state(), names()), ((true, 1400), 2));
    assert_eq!([fs::metadata(&file).unwrap().len(), fs::metadata(&new).unwrap().len()], [24, 24]);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn an_interface_that_disappears_is_gone() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    for method in [Method::AfXdp, Method::AfPacket] {
        veth_pair(1);
        let config = PortConfig { method, ..needs(1, 1) };
        let port = match method {
            Method::AfXdp => match af_xdp_or_skip(config) {
                Some(port) => port,
                None => continue,
            },
            _ => open(&spec("va"), &config).unwrap(),
        };
        let mut rx = port.rx_queue(0).unwrap();
        let mut tx = port.tx_queue(0).unwrap();
        assert!(within(|| port.state() == PortState::Up));
        run("ip link set vb down");
        assert!(within(|| port.state() == PortState::Down), "no carrier");
        run("ip link set vb up");
        assert!(within(|| port.state() == PortState::Up), "carrier again");
        run("ip link del va");
        assert!(within(|| port.state() == PortState::Gone));
        let mut batch = Batch::new();
        assert_eq!(rx.rx_burst(32, &mut batch), 0);
        batch.push(Packet::alloc(DEFAULT_HEADROOM, 60).unwrap());
        assert_eq!((tx.tx_burst(&mut batch), batch.len()), (0, 1));
        assert!(!port.link().up);
        assert!(port.set_promisc(true).is_err());
        // A new interface of the same name is another port.
        run("ip link add va type veth peer name vb; ip link set va up; ip link set vb up");
        let again = open(&spec("va"), &PortConfig { method, ..needs(1, 1) }).unwrap();
        assert!(!Arc::ptr_eq(&port, &again));
        assert_eq!(again.state(), PortState::Up);
    }
}

#[test]
fn packets_in_flight_while_an_interface_disappears() {
    let Some(_) = eal() else { return };
    let _alone = alone();
    veth_pair(1);
    let port = open(&spec("va"), &needs(1, 1)).unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    let mut tx = port.tx_queue(0).unwrap();
    let begin = Instant::now();
    let mut deleted = false;
    let mut batch = Batch::new();
    while begin.elapsed() < Duration::from_millis(600) && port.state() != PortState::Gone {
        batch.extend((0..32).filter_map(|_| Packet::alloc(DEFAULT_HEADROOM, 60)));
        tx.tx_burst(&mut batch);
        batch.clear();
        rx.rx_burst(32, &mut batch);
        batch.clear();
        if !deleted && begin.elapsed() > Duration::from_millis(100) {
            run("ip link del va");
            deleted = true;
        }
    }
    assert_eq!(port.state(), PortState::Gone);
}

#[test]
fn wake_descriptors_of_memif() {
    let Some(_) = eal() else { return };
    let socket = std::env::temp_dir().join(format!("valiant-memif-{}.sock", std::process::id()));
    let port = open(
        &spec(&format!("net_memif0,role=server,socket={},socket-abstract=no", socket.display())),
        &needs(1, 1),
    );
    let port = port.unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    let mut batch = Batch::new();
    assert_eq!(rx.rx_burst(32, &mut batch), 0, "nobody is connected");
    batch.push(Packet::alloc(DEFAULT_HEADROOM, 60).unwrap());
    assert_eq!(port.tx_queue(0).unwrap().tx_burst(&mut batch), 0);
    eprintln!("wake descriptors: {:?}", rx.wake_fds());
    let _ = socket.as_path();
}

/// A TAP that carries segments as a virtual machine's network card does.
fn tap_with_segments(name: &str) -> fs::File {
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const FLAGS: i16 = libc::IFF_TAP as i16 | libc::IFF_NO_PI as i16 | libc::IFF_VNET_HDR as i16;
    let tap = fs::File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    let mut request = [0u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&FLAGS.to_ne_bytes());
    // SAFETY: the request is as long as an `ifreq`.
    let status = unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETIFF as _, request.as_mut_ptr()) };
    assert_eq!(status, 0, "{}", io::Error::last_os_error());
    tap
}

/// Linux cannot describe such a segment in the ring of a packet socket, and then never fills its place.
#[test]
fn a_segment_of_another_kind_does_not_make_a_port_deaf() {
    if eal().is_none() || !fs::exists("/dev/net/tun").unwrap_or(false) {
        return skip("no TAP");
    }
    let _alone = alone();
    own_network();
    let mut tap = tap_with_segments("va");
    let port =
        open(&spec("va"), &PortConfig { method: Method::AfPacket, promisc: true, ..needs(1, 1) }).unwrap();
    let (mut rx, mut batch) = (port.rx_queue(0).unwrap(), Batch::new());
    let mut plain = [0; 10 + 60];
    plain[10 + 12..10 + 14].copy_from_slice(&[0x88, 0xb5]);
    // A datagram of 4,000 bytes to be cut into fragments (UFO).
    let mut datagram = vec![0; 10 + 14 + 28 + 4000];
    datagram[..10].copy_from_slice(&[1, 3, 42, 0, 0xe8, 3, 34, 0, 6, 0]);
    datagram[10 + 12..10 + 24].copy_from_slice(&[8, 0, 0x45, 0, 0x0f, 0xbc, 0, 1, 0, 0, 64, 17]);
    datagram[10 + 34..10 + 42].copy_from_slice(&[0, 5, 0, 6, 0x0f, 0xa8, 0, 0]);
    tap.write_all(&datagram).unwrap();
    let is_plain = |packet: &Packet| packet.data().get(12..14) == Some(&[0x88, 0xb5]);
    let until = Instant::now() + Duration::from_secs(20);
    while !batch.iter().any(is_plain) {
        assert!(Instant::now() < until, "{:?}", port.stats());
        tap.write_all(&plain).unwrap();
        rx.rx_burst(32, &mut batch);
        rx.newly_lost();
        thread::sleep(Duration::from_millis(1));
    }
    assert!(port.stats().rx_missed > 0, "what was lost is counted");
}

#[test]
fn a_virtual_port_receives_and_sends_by_queues_that_are_lent() {
    let Some(_) = eal() else { return };
    let packets = |marks: std::ops::Range<u8>| {
        marks.map(|mark| Packet::from_bytes(&[mark; 60]).unwrap()).collect::<Vec<_>>()
    };
    let batch = |marks| {
        let mut batch = Batch::new();
        packets(marks).into_iter().for_each(|packet| batch.push(packet));
        batch
    };
    let outer = VirtualPort::new("lent/below", [2; 6], 1500, 1, 8).unwrap();
    let below = open(&spec("virtual:lent/below"), &needs(1, 1)).unwrap();
    let outer = outer.queues(0).unwrap();
    let ports = VirtualPort::new("lent/DEV0", [2; 6], 1500, 1, 8).unwrap();
    let port = ports.queues(0).unwrap();
    let router = open(&spec("virtual:lent/DEV0"), &needs(1, 1)).unwrap();
    let (mut rx, mut tx) = (router.rx_queue(0).unwrap(), router.tx_queue(0).unwrap());
    port.put(&mut batch(0..2));
    let lend = || port.lend(Box::new(below.rx_queue(0).unwrap()), Box::new(below.tx_queue(0).unwrap()));
    outer.put(&mut batch(2..5));
    let mut got = Batch::new();
    assert!(lend().is_some(), "what waits is older than what comes by the queue");
    assert_eq!(rx.rx_burst(4, &mut got), 2);
    assert!(lend().is_none());
    assert_eq!((rx.rx_burst(2, &mut got), rx.is_drained()), (2, false), "more may come at any time");
    assert_eq!(rx.rx_burst(4, &mut got), 1);
    assert_eq!(got.iter().map(|packet| packet.data()[0]).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!((ports.stats().rx_packets, ports.stats().rx_bytes), (5, 300));

    let mut sent = Batch::new();
    assert_eq!((tx.tx_burst(&mut got), port.take(9, &mut sent), outer.take(9, &mut sent)), (5, 0, 5));
    assert_eq!((ports.stats().tx_packets, ports.stats().tx_bytes), (5, 300));
    let mut more = batch(0..9);
    assert_eq!((tx.tx_burst(&mut more), more.len()), (8, 1), "what finds no room stays");
    assert_eq!((ports.stats().tx_packets, ports.stats().tx_bytes), (13, 780));

    assert!(port.take_back().is_some() && port.take_back().is_none());
    outer.put(&mut batch(0..1));
    assert_eq!((rx.rx_burst(4, &mut got), rx.is_drained()), (0, true));
    assert_eq!((tx.tx_burst(&mut more), port.take(9, &mut sent)), (1, 1));
    let _other = VirtualPort::new("lent/other", [2; 6], 1500, 1, 8).unwrap();
    let other = open(&spec("virtual:lent/other"), &needs(1, 1)).unwrap();
    for (of, has_some) in [(below, false), (other, true)] {
        let given = port.lend(Box::new(of.rx_queue(0).unwrap()), Box::new(of.tx_queue(0).unwrap()));
        assert_eq!(given.is_some(), has_some);
    }
}
