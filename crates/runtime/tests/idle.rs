//! When idle workers sleep, and what wakes them.

mod elements;

use elements::until;
use runtime::{
    ArgError, Args, Batch, ConfigCx, Counter, Cx, Element, Handlers, Options, Packet, Router, Sharing,
    Vector, vector,
};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn router(config: &str, options: Options) -> Router {
    let mut r = elements::registry();
    r.add(vector::<Pulse>());
    r.add(vector::<Delay>());
    r.add(vector::<Ear>());
    elements::router(config, Arc::new(r), options)
}

/// Emits a packet from a timer occasionally, on the second worker only.
struct Pulse;

impl Element for Pulse {
    const CLASS: &'static str = "Pulse";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.worker().0 == 1 {
            cx.timer_after(0, Duration::from_millis(30));
        }
        Ok(())
    }
    fn run_timer(&mut self, _: u32, cx: &mut Cx<'_>) {
        let mut packet = Packet::from_bytes(&[1]).unwrap();
        packet.set_timestamp_ns(cx.now_ns());
        cx.output(0, packet);
        cx.timer_after(0, Duration::from_millis(30));
    }
}

impl Vector for Pulse {}

/// Records how long packets were on their way to the single instance.
#[derive(Default)]
struct Delay(Vec<u64>);

impl Element for Delay {
    const CLASS: &'static str = "Delay";
    const PORTS: &'static str = "1/0";
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self::default())
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("median_ms", |e| {
            let mut all = e.0.clone();
            all.sort_unstable();
            all.get(all.len() / 2).map_or_else(String::new, |ns| (ns / 1_000_000).to_string())
        });
    }
}

impl Vector for Delay {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let now = cx.now_ns();
        self.0.extend(batch.drain(..).map(|p| now - p.timestamp_ns()));
        cx.recycle(batch);
    }
}

#[test]
fn packets_for_another_worker_wake_it() {
    let options = Options { workers: 2, threads: true, batch_size: 8, ..Options::default() };
    let mut r = router("Pulse -> d :: Delay;", options);
    r.start();
    // No handler may be called meanwhile: that would wake the worker too.
    std::thread::sleep(Duration::from_millis(500));
    let median: u64 = r.read("d.median_ms", "").unwrap().parse().unwrap();
    assert!(median < 20, "{median} ms");
}

/// Makes a packet of each byte that it reads from a socket. Polls the socket, and lets the worker sleep until
/// there are bytes.
struct Ear {
    wire: Arc<Wire>,
    heard: Counter,
    runs: Counter,
}

struct Wire {
    here: UnixStream,
    there: UnixStream,
    /// Whether bytes are left unread, so that the socket stays readable.
    deaf: AtomicBool,
}

impl Element for Ear {
    const CLASS: &'static str = "Ear";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let wire = cx.shared(|| {
            let (here, there) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            Wire { here, there, deaf: AtomicBool::new(false) }
        });
        Ok(Self { wire, heard: Counter::new(), runs: Counter::new() })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.counter("heard", |e| &e.heard);
        h.counter("runs", |e| &e.runs);
        h.read("asked", |e| e.heard.get().to_string());
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.runs.add(1);
        cx.reschedule();
        let mut byte = [0];
        if !self.wire.deaf.load(Ordering::Acquire) && (&self.wire.here).read(&mut byte).is_ok_and(|n| n == 1)
        {
            self.heard.add(1);
            cx.count_arrivals(1);
            if byte == *b"S" {
                cx.expect_segments();
            }
            cx.output(0, Packet::from_bytes(&byte).unwrap());
            return true;
        }
        cx.idle_until_readable(&[self.wire.here.as_raw_fd()]);
        false
    }
}

impl Vector for Ear {}

#[test]
fn an_idle_worker_sleeps_until_a_socket_is_readable() {
    let mut r = router("e :: Ear -> s :: Sink;", Options { threads: true, ..Options::default() });
    let wire = r.shared::<Wire>("e").unwrap();
    r.start();
    let number = |r: &mut Router, handler: &str| r.read(handler, "").unwrap().parse::<u64>().unwrap();
    for n in 1..=20 {
        (&wire.there).write_all(b"x").unwrap();
        assert!(until(|| number(&mut r, "e.heard") == n));
        assert!(until(|| number(&mut r, "s.count") == n));
    }
    // The worker no longer sleeps for short times only: polling every half millisecond would be 1000 runs.
    std::thread::sleep(Duration::from_millis(50));
    let before = number(&mut r, "e.runs");
    std::thread::sleep(Duration::from_millis(500));
    let runs = number(&mut r, "e.runs") - before;
    assert!(runs < 200, "{runs} runs");
    // A message wakes it, and so does the end of the router.
    assert_eq!(number(&mut r, "e.asked"), 20);
    // A socket that stays readable without any work to do does not keep the worker awake.
    wire.deaf.store(true, Ordering::Release);
    (&wire.there).write_all(b"x").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let before = number(&mut r, "e.runs");
    std::thread::sleep(Duration::from_millis(500));
    let runs = number(&mut r, "e.runs") - before;
    assert!(runs < 5000, "{runs} runs");
    wire.deaf.store(false, Ordering::Release);
    assert!(until(|| number(&mut r, "s.count") == 21));
}

#[test]
fn a_worker_that_lets_packets_gather_sleeps_when_none_come() {
    let mut r = router("e :: Ear -> s :: Sink;", Options { threads: true, ..Options::default() });
    let wire = r.shared::<Wire>("e").unwrap();
    r.start();
    let number = |r: &mut Router, handler: &str| r.read(handler, "").unwrap().parse::<u64>().unwrap();
    // Bytes that stand for packets, and those that stand for large segments.
    for n in 1..=50 {
        (&wire.there).write_all(if n % 2 == 0 { &[0; 8] } else { b"SSxxxxxS" }).unwrap();
        assert!(until(|| number(&mut r, "s.count") == n * 8));
    }
    std::thread::sleep(Duration::from_millis(50));
    let before = number(&mut r, "e.runs");
    std::thread::sleep(Duration::from_millis(500));
    let runs = number(&mut r, "e.runs") - before;
    assert!(runs < 200, "{runs} runs");
    (&wire.there).write_all(b"x").unwrap();
    assert!(until(|| number(&mut r, "s.count") == 401));
}

#[test]
fn packets_for_a_worker_that_waits_for_a_socket_wake_it() {
    let options = Options { workers: 2, threads: true, batch_size: 8, ..Options::default() };
    let mut r = router("Pulse -> d :: Delay; Ear -> Sink;", options);
    r.start();
    std::thread::sleep(Duration::from_millis(500));
    let median: u64 = r.read("d.median_ms", "").unwrap().parse().unwrap();
    assert!(median < 20, "{median} ms");
}
