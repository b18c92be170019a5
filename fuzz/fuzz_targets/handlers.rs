//! Handler writes: any value to any handler of a fixed configuration with every class that has write
//! handlers, packets between them; each is done or refused with a reason, and afterwards every handler can
//! still be read.
//!
//! Input: one write after the other, each two bytes for the handler, a byte of length and so many bytes of
//! value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::testing::Bench;
use runtime::{HandlerError, Options, Packet, Registry};
use std::cell::RefCell;
use std::sync::LazyLock;

static REGISTRY: LazyLock<Registry> = LazyLock::new(elements::registry);

/// How many inputs one router sees.
const USES: usize = 200;

const CONFIG: &str = "
RandomSeed(1); arp :: ARPTable;
rt :: RadixIPLookup(10.0.0.0/8 0, 0.0.0.0/0 10.0.0.1 1);
queues :: Null;

// Ethernet frames: a long push path.
e :: Null -> HostEtherFilter(2:0:0:0:0:1) -> Counter -> AverageCounter -> Print(p) -> ARPPrint(a)
  -> Paint(1) -> tee :: PaintTee(2) -> check :: CheckPaint(1) -> RandomSample(1) -> block :: Block(0)
  -> suppressor :: Suppressor -> inputs :: InputSwitch -> switch :: Switch(0) -> bypass :: Bypass
  -> rated :: RatedSplitter(1000000) -> meter :: BandwidthMeter(1000000, 2000000)
  -> SetTimestampDelta -> ether :: Classifier(12/0806, 12/0800, -);
Idle -> [1] suppressor [1] -> Discard;
Idle -> [1] inputs;
tee [1] -> Discard;
check [1] -> Discard;
block [1] -> Discard;
switch [1] -> Truncate(60) -> Resize(0, 0) -> split :: BandwidthRatedSplitter(1000000) -> Discard;
split [1] -> Discard;
bypass [1] -> Discard;
rated [1] -> Discard;
meter [1] -> Discard;
meter [2] -> Discard;
ether [0] -> ARPResponder(10.0.0.1 2:0:0:0:0:1) -> Discard;
ether [2] -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> StoreEtherAddress(2:0:0:0:0:3, src) -> SetVLANAnno(5)
  -> VLANEncap(ANNO) -> VLANDecap -> EtherVLANEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2, 7) -> Discard;

// IP packets.
ether [1] -> Strip(14) -> CheckIPHeader -> IPPrint(i) -> SetIPDSCP(1) -> SetIPAddress(10.0.0.2) -> rt;
rt [0] -> dec :: DecIPTTL -> arpq :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE arp) -> queues;
Idle -> [1] arpq;
rt [1] -> IPEncap(4, 1.0.0.1, 1.0.0.2) -> UDPIPEncap(1.0.0.1, 1, 1.0.0.2, 2)
  -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> queues;
dec [1] -> ICMPError(10.0.0.1, timeexceeded) -> Discard;
Idle -> ICMPPingEncap(10.0.0.1, 10.0.0.2) -> Discard;

// Queues, shapers and schedulers.
queues -> RED(5, 50, 0.02) -> Queue(100) -> DelayShaper(1ms) -> Shaper(1000) -> BandwidthShaper(100000)
  -> Unqueue -> FrontDropQueue(10) -> RatedUnqueue(1000) -> mixed :: MixedQueue(10) -> BandwidthRatedUnqueue(100000)
  -> ThreadSafeQueue(10) -> DelayUnqueue(1ms) -> SimpleQueue(10) -> LinkUnqueue(1ms, 100000)
  -> NotifierQueue(10) -> pull :: PullSwitch -> StrideSched(1) -> TimedSink(0.001);
Idle -> FullNoteQueue(5) -> [1] pull;
Idle -> QuickNoteQueue(5) -> Discard;
Idle -> [1] mixed;
// Sources.
MeasureSource(RATE 1000, LIMIT 3) -> Unqueue -> MeasureSink;
InfiniteSource(LIMIT 3, BURST 4) -> Discard;
RatedSource(RATE 1000, LIMIT 3) -> Discard;
TimedSource(0.001) -> Discard;
FastUDPSource(1000, 3, 60, 2:0:0:0:0:1, 1.0.0.1, 1, 2:0:0:0:0:2, 1.0.0.2, 2) -> Discard;
ICMPPingSource(10.0.0.1, 10.0.0.2, INTERVAL 1) -> Discard;
";

/// An Ethernet frame of UDP from 10.0.0.9 to 10.0.0.2.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    let head = *b"\x02\0\0\0\0\x01\x02\0\0\0\0\x09\x08\0\x45\0\0\x2e\0\0\0\0\x40\x11\x66\xb2\x0a\0\0\x09\x0a\0\0\x02\0\x01\0\x02\0\x1a\0\0";
    let mut i = 0;
    while i < head.len() {
        frame[i] = head[i];
        i += 1;
    }
    frame
};

struct Lab {
    bench: Bench,
    readable: Vec<String>,
    writable: Vec<String>,
    uses: usize,
}

impl Lab {
    fn new() -> Self {
        let options = Options { simulated_time: true, ..Options::default() };
        let mut bench = Bench::with(&REGISTRY, CONFIG, 1, 0, options);
        let (mut readable, mut writable) = (Vec::new(), Vec::new());
        let elements: Vec<(String, &str)> =
            bench.router().elements().iter().map(|e| (e.name.clone(), e.class)).collect();
        for class in REGISTRY.iter() {
            let here = elements.iter().any(|(_, c)| *c == class.name || same_handlers(c, class.name));
            // What opens something outside the process has no place here, and one class never starts.
            let absent = class.opens.is_some() || class.name == "Error";
            if !here && !absent && class.handlers.iter().any(|h| h.writable()) {
                eprintln!("{} has write handlers and no place in the configuration", class.name);
            }
        }
        for (name, class) in elements {
            for handler in REGISTRY.get(class).map_or(&[][..], |c| &c.handlers) {
                if handler.readable() {
                    readable.push(format!("{name}.{}", handler.name));
                }
                if handler.writable() {
                    writable.push(format!("{name}.{}", handler.name));
                }
            }
        }
        Self { bench, readable, writable, uses: 0 }
    }
}

/// Whether two classes are names of the same element.
fn same_handlers(one: &str, other: &str) -> bool {
    match (REGISTRY.get(one), REGISTRY.get(other)) {
        (Some(a), Some(b)) => a.manual() == b.manual(),
        _ => false,
    }
}

thread_local! {
    static LAB: RefCell<Option<Lab>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    LAB.with_borrow_mut(|lab| {
        let lab = lab.get_or_insert_with(Lab::new);
        let mut rest = data;
        while let Some(([high, low, length], after)) = rest.split_first_chunk::<3>() {
            let (bytes, after) = after.split_at(after.len().min(usize::from(*length)));
            rest = after;
            let handler = &lab.writable[usize::from(u16::from_be_bytes([*high, *low])) % lab.writable.len()];
            match lab.bench.try_write(handler, &String::from_utf8_lossy(bytes)) {
                Ok(()) => {}
                Err(HandlerError::Failed(reason)) => {
                    assert!(!reason.is_empty(), "{handler} says no and not why")
                }
                Err(other) => panic!("{handler}: {other}"),
            }
            drop(lab.bench.send(0, Packet::from_bytes(&FRAME).expect("memory")));
            lab.bench.turn();
        }
        for handler in &lab.readable {
            match lab.bench.try_read(handler) {
                Ok(_) | Err(HandlerError::Failed(_)) => {}
                Err(other) => panic!("{handler}: {other}"),
            }
        }
        lab.uses += 1;
    });
    LAB.with_borrow_mut(|lab| lab.take_if(|lab| lab.uses >= USES));
});
