//! A running router in which a resource is missing: a buffer, memory, space in a device, a crypto device's
//! answer, a session, a pool. In each run another request fails. Afterwards every packet is accounted for,
//! and packets are forwarded again.
//!
//! DPDK needs root here; without, each test prints why it is skipped.

#[path = "../../../tests/skip.rs"]
mod skip;

use dpdk::crypto::{Aad, Algorithm, CryptoDevice, Span, Transform, Verdict};
use dpdk::{Batch, Eal, EalOptions, Fault, Packet, PortConfig, PortSpec, WorkerThread, set_thread_pool};
use lang::{LoadOptions, Source};
use locks::IgnorePoison;
use runtime::{Options, Router, StatsSnapshot};
use skip::skip;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard};

/// One test at a time, because they count the free buffers.
static ALONE: Mutex<()> = Mutex::new(());

fn may_run() -> Option<MutexGuard<'static, ()>> {
    let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !root {
        skip("it needs root");
        return None;
    }
    Some(ALONE.lock().ignore_poison())
}

const SPI: &str = "in 0x1001 192.0.2.1 192.0.2.2 aes-cbc-hmac-sha1 000102030405060708090a0b0c0d0e0f \
    000102030405060708090a0b0c0d0e0f10111213\n\
    out 0x1001 192.0.2.1 192.0.2.2 aes-cbc-hmac-sha1 000102030405060708090a0b0c0d0e0f \
    000102030405060708090a0b0c0d0e0f10111213";

/// All elements that make, copy, lengthen or fragment packets, or give them to a device. Resize removes the
/// headroom, so that every header needs a new buffer.
const CONFIG: &str = "
    sad :: IPsecSAD(DEVICE crypto_openssl);
    f :: FromDevice(\"net_null0,copy=1\", BURST 4) -> cut :: Truncate(40)
      -> udp :: UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)
      -> align :: Align(8, 3) -> vlan :: EtherVLANEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2, 5) -> strip :: Strip(18)
      -> mark :: MarkIPHeader -> enc :: ESPEncap(sad, 0x1001) -> dec :: ESPDecap(sad) -> pad :: Pad(100) -> t :: Tee(5);
    t [0] -> eth :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> q :: Queue(64) -> d :: ToDevice(net_null1, TIMEOUT 0);
    t [1] -> take :: Truncate(68) -> frag :: IPFragmenter(40) -> CheckIPHeader -> IPReassembler -> whole :: Counter -> Discard;
    t [2] -> ICMPError(10.0.0.9, timeexceeded) -> errors :: Counter -> Discard;
    t [3] -> GetIPAddress(16) -> arp :: ARPQuerier(10.0.0.9, 2:0:0:0:0:9, ENTRY_PACKET_CAPACITY 2)
      -> p :: ToDevice(net_null1, TIMEOUT 0, IQUEUE 64);
    t [4] -> Paint(1) -> GetIPAddress(16) -> combo :: IPOutputCombo(1, 10.0.0.9, 1500) -> n :: Null -> Discard;
    Idle -> [1] arp;
    combo [1] -> redirects :: Counter -> Discard; combo [2] -> Discard; combo [3] -> Discard; combo [4] -> Discard;
";

struct Case {
    router: Router,
    /// The pool of the thread's packets. The last field, so that it is dropped last.
    _worker: WorkerThread,
}

impl Case {
    fn new() -> Self {
        let registry = Arc::new(elements::registry());
        let options = Options { batch_size: 32, hotswap: true, ..Options::default() };
        let sources = [Source::new("test", CONFIG)];
        let mut router = Router::new(&sources, LoadOptions::default(), registry, options)
            .unwrap_or_else(|diags| panic!("{}", diags.render_plain(diags.sources())));
        // Like a worker's thread: its packets come from the pool.
        let worker = WorkerThread::register(None).unwrap();
        router.write("sad.add", SPI).unwrap();
        router.start();
        Self { router, _worker: worker }
    }

    fn totals(&self, name: &str) -> StatsSnapshot {
        let id = self.router.find("", name).unwrap();
        self.router.elements()[id.0 as usize].totals()
    }

    fn number(&mut self, handler: &str) -> u64 {
        self.router.read(handler, "").unwrap().trim().parse().unwrap()
    }

    fn turns(&mut self, n: usize) {
        (0..n).for_each(|_| self.router.turn());
    }

    /// Whether each packet was sent or was counted.
    fn account(&mut self, what: &str) {
        let dropped = |s: &StatsSnapshot| s.drops.iter().map(|d| d.1).sum::<u64>();
        // Each packet that enters leaves once.
        for name in ["cut", "udp", "align", "vlan", "strip", "mark", "enc", "dec", "pad", "eth", "take"] {
            let s = self.totals(name);
            assert_eq!(s.packets, s.emitted + dropped(&s), "{what}: {name}: {:?}", s.drops);
        }
        let tee = self.totals("t");
        assert_eq!(5 * tee.packets, tee.emitted + dropped(&tee), "{what}: {:?}", tee.drops);
        // 40 + 28 bytes in fragments of 16 bytes, without the headers.
        let frag = self.totals("frag");
        assert_eq!(3 * frag.packets, frag.emitted + dropped(&frag), "{what}: {:?}", frag.drops);
        // Each packet is painted and leaves twice.
        let combo = self.totals("combo");
        assert_eq!(2 * combo.packets, combo.emitted + dropped(&combo), "{what}: {:?}", combo.drops);
        let queue = self.totals("q");
        let waiting = self.number("q.length");
        assert_eq!(queue.packets, queue.emitted + dropped(&queue) + waiting, "{what}: {:?}", queue.drops);
        for name in ["d", "p"] {
            let s = self.totals(name);
            let sent = self.number(&format!("{name}.count")) + self.number(&format!("{name}.waiting"));
            assert_eq!(s.packets, sent + dropped(&s), "{what}: {name}: {:?}", s.drops);
        }
    }

    /// Makes the first request fail, then the second one, and so on.
    fn sweep(&mut self, fault: Fault, most: u64, what: &str) {
        // How many requests there are in one run.
        fault.order(u64::MAX, 0);
        self.turns(2);
        let asked = fault.clear();
        assert!(asked > 0, "{what}: nobody asks");
        for nth in 1..=asked.min(most) {
            let what = format!("{what}, request {nth}");
            fault.order(nth, 1);
            self.turns(2);
            assert!(fault.clear() >= nth.min(2), "{what}");
            self.account(&what);
            self.goes_on(&what);
        }
    }

    fn goes_on(&mut self, what: &str) {
        let counts = ["f.count", "enc.count", "dec.count", "d.count", "p.count", "whole.count"];
        let before = counts.map(|name| self.number(name));
        self.turns(6);
        let after = counts.map(|name| self.number(name));
        for (name, (before, after)) in counts.iter().zip(before.into_iter().zip(after)) {
            assert!(
                after > before,
                "{what}: {name} stays at {after}\n{}",
                self.router.read("drops", "").unwrap()
            );
        }
    }
}

#[test]
fn whatever_fails_once_is_counted_and_packets_go_on() {
    let Some(_alone) = may_run() else { return };
    let mut case = Case::new();
    // The neighbor's address is known, so packets to it are forwarded; another neighbor never answers.
    case.router.write("arp.insert", "10.0.0.2 2:0:0:0:0:2").unwrap();
    case.goes_on("at first");
    case.account("at first");

    case.sweep(Fault::Buffer, 300, "a buffer");
    case.sweep(Fault::Send, 20, "sending");
    case.sweep(Fault::Receive, 20, "receiving");
    // Each run takes as long as an element waits for the device's answer.
    case.sweep(Fault::Answer, 2, "an answer");

    // Without buffers all packets are from the heap, whose allocations fail too.
    Fault::Buffer.order(1, u64::MAX);
    Fault::Heap.order(u64::MAX, 0);
    case.turns(2);
    let asked = Fault::Heap.clear();
    assert!(asked > 20, "{asked}");
    for nth in 1..=asked.min(300) {
        let what = format!("memory, request {nth}");
        Fault::Heap.order(nth, 1);
        case.turns(2);
        Fault::Heap.clear();
        case.account(&what);
    }
    // For a while, every request fails.
    Fault::Heap.order(1, u64::MAX);
    case.turns(10);
    case.account("out of memory");
    Fault::Heap.clear();
    Fault::Buffer.clear();
    case.goes_on("there is memory again");
    case.account("at last");
}

#[test]
fn keys_and_ports_that_cannot_be_had_leave_the_router_as_it_is() {
    let Some(_alone) = may_run() else { return };
    let mut case = Case::new();
    case.router.write("arp.insert", "10.0.0.2 2:0:0:0:0:2").unwrap();
    let more = SPI.replace("0x1001", "0x2001");
    for nth in 1..=2 {
        Fault::Session.order(nth, 1);
        let error = case.router.write("sad.add", &more).unwrap_err().to_string();
        assert_eq!(Fault::Session.clear(), nth, "{error}");
        assert_eq!(case.number("sad.count"), 2, "all or none");
        case.goes_on("a session");
    }
    Fault::Device.order(1, 1);
    let other = more
        .replace("aes-cbc-hmac-sha1", "aes-cbc-hmac-sha256")
        .replace("10111213", "101112131415161718191a1b1c1d1e1f");
    // The device is open, so no further request is made.
    case.router.write("sad.add", &other).unwrap();
    assert_eq!((Fault::Device.clear(), case.number("sad.count")), (0, 4));

    let swap = |case: &mut Case, extra: &str| case.router.write("hotconfig", &format!("{CONFIG}\n{extra}"));
    let ring = "FromDevice(net_null7, NDESC 32768) -> Discard;";
    Fault::Pool.order(1, 1);
    let error = swap(&mut case, ring).unwrap_err().to_string();
    assert!(error.contains("no memory for") && Fault::Pool.clear() > 0, "{error}");
    case.goes_on("a pool");
    case.account("a pool");
    swap(&mut case, ring).unwrap();
    case.goes_on("the pool is there");

    Fault::Device.order(1, 1);
    // Security associations in a file need the device when the configuration starts.
    let path = std::env::temp_dir().join(format!("valiant-shortage-{}", std::process::id()));
    fs::write(&path, SPI).unwrap();
    let sad = format!("IPsecSAD(FILE {}, DEVICE crypto_aesni_mb)", path.display());
    let changed = CONFIG.replace("IPsecSAD(DEVICE crypto_openssl)", &sad);
    let answer = case.router.write("hotconfig", &changed);
    fs::remove_file(&path).unwrap();
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("out of memory") && Fault::Device.clear() > 0, "{error}");
    case.goes_on("another crypto device");
    case.account("another crypto device");
}

fn eal() {
    Eal::init(&EalOptions::default()).expect("DPDK starts");
}

#[test]
fn a_device_that_answers_late_gives_packets_back_to_where_they_came_from() {
    let Some(_alone) = may_run() else { return };
    eal();
    let needs = PortConfig { rx_queues: 1, tx_queues: 1, ..PortConfig::default() };
    let pool = dpdk::open(&PortSpec::parse("net_null9").unwrap(), &needs).unwrap().pool();
    let device = CryptoDevice::open("crypto_openssl", 1, 8).unwrap();
    let transform = Transform {
        algorithm: Algorithm::AesCbcHmacSha1,
        encrypt: true,
        key: &[1; 16],
        auth_key: &[2; 20],
        aad: Aad::ESP,
    };
    let session = device.session(0, &transform).unwrap();
    let span = Span { cipher_offset: 24, cipher_len: 64, auth_offset: 0, auth_len: 88, tag_offset: 88 };
    let before = pool.available();
    // Half of the packets are from the heap.
    let fresh = || -> Batch {
        let packet = |n: u8| {
            set_thread_pool(n.is_multiple_of(2).then_some(pool));
            let packet = Packet::from_bytes(&[n; 100]).unwrap();
            assert_ne!(packet.is_heap(), n.is_multiple_of(2));
            packet
        };
        let batch = (0..20).map(packet).collect();
        set_thread_pool(None);
        batch
    };
    let process = |batch: &mut Batch, verdicts: &mut Vec<Verdict>| {
        let mut run = device.queue(0).unwrap();
        assert!((0..batch.len()).all(|_| run.add(&session, &span, [7; 16])));
        run.process(batch, verdicts)
    };
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        Fault::Answer.order(1, 2);
        let mut batch = fresh();
        assert!(!process(&mut batch, &mut verdicts) && batch.is_empty(), "it does not answer");
        assert_eq!(pool.available(), before - 10, "the device has them");
        // The device has not answered yet: further packets are rejected and stay unchanged.
        let mut batch = fresh();
        assert!(process(&mut batch, &mut verdicts) && batch.len() == 20);
        assert!(verdicts.iter().all(|v| *v == Verdict::Refused) && verdicts.len() == 20);
        drop(batch);
        Fault::Answer.clear();
        // The device has answered: packets that were late are freed, and the next ones are processed.
        let mut batch = fresh();
        assert!(process(&mut batch, &mut verdicts), "{verdicts:?}");
        assert!(verdicts.is_empty() && batch.iter().all(|packet| packet.data()[30] != packet.data()[31]));
        drop(batch);
        assert_eq!(pool.available(), before, "none is lost, and none is freed twice");
    }
}
