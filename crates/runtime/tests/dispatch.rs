//! What the runtime guarantees, tested on small graphs of elements that are defined here.

mod elements;

use elements::until;
use lang::{LoadOptions, Source};
use runtime::{
    ArgError, Args, Batch, ConfigCx, Counter, Cx, DropCase, DropReason, Element, Handlers, Options, Packet,
    Registry, Router, Sharing, Simple, Vector, simple, vector,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What happened, in order: "name:first byte".
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

/// Records the packets that pass.
struct Note {
    log: Arc<Log>,
}

impl Element for Note {
    const CLASS: &'static str = "Note";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let _ = args.p::<String>("TEXT")?;
        Ok(Self { log: cx.shared_of("log", "a log")? })
    }
}

impl Simple for Note {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        self.log.0.lock().unwrap().push(format!("{}:{}", cx.name(), packet.data()[0]));
        Some(packet)
    }
}

/// Copies packets to all outputs, to output 0 first.
struct Copy;

impl Element for Copy {
    const CLASS: &'static str = "Copy";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for Copy {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            for port in 1..cx.n_outputs() {
                // In reverse, so that the test depends on the order of emission and not on the numbers of the
                // ports.
                let port = cx.n_outputs() - port;
                cx.output(port, packet.duplicate().unwrap());
            }
            cx.output(0, packet);
        }
        cx.recycle(batch);
    }
}

/// Counts down the first byte: above zero to output 0, else to output 1.
struct Hop;

impl Element for Hop {
    const CLASS: &'static str = "Hop";
    const PORTS: &'static str = "1/2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for Hop {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for mut packet in batch.drain(..) {
            let left = packet.data()[0];
            packet.data_mut()[0] = left.saturating_sub(1);
            cx.output(usize::from(left == 0), packet);
        }
        cx.recycle(batch);
    }
}

/// A class with a single instance for the whole router.
struct Alone {
    seen: Counter,
}

impl Element for Alone {
    const CLASS: &'static str = "Alone";
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { seen: Counter::new() })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.counter("seen", |e| &e.seen);
    }
}

impl Simple for Alone {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        self.seen.add(1);
        Some(packet)
    }
}

/// Emits a number of packets on every worker.
struct Source4 {
    left: u32,
    faulty: bool,
}

impl Element for Source4 {
    const CLASS: &'static str = "Source";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { left: args.mp("N")?, faulty: false })
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.left == 13 {
            return Err("thirteen is unlucky".into());
        }
        self.faulty = self.left == 666;
        cx.reschedule();
        Ok(())
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        assert!(!self.faulty, "an element with a fault");
        if self.left == 0 {
            cx.request_stop();
            return false;
        }
        self.left -= 1;
        cx.output(0, Packet::from_bytes(&[1]).unwrap());
        cx.reschedule();
        true
    }
}

impl Vector for Source4 {}

/// Sets its timer again for exactly the same time.
struct Restless(u64);

impl Element for Restless {
    const CLASS: &'static str = "Restless";
    const PORTS: &'static str = "0/0";
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self(0))
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.timer_after(0, Duration::ZERO);
        Ok(())
    }
    fn run_timer(&mut self, _: u32, cx: &mut Cx<'_>) {
        self.0 += 1;
        assert!(self.0 < 1000, "nobody else gets a turn");
        cx.timer_after(0, Duration::ZERO);
    }
}

impl Vector for Restless {}

/// Publishes the log.
struct LogHolder;

impl Element for LogHolder {
    const CLASS: &'static str = "LogHolder";
    const PORTS: &'static str = "0/0";
    const PHASE: runtime::Phase = runtime::Phase::Info;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        cx.shared(Log::default);
        Ok(Self)
    }
}

fn registry() -> Arc<Registry> {
    let mut r = elements::registry();
    r.add(simple::<Note>());
    r.add(vector::<Copy>());
    r.add(vector::<Hop>());
    r.add(simple::<Alone>());
    r.add(vector::<Source4>());
    r.add(vector::<Restless>());
    r.add(vector::<Sticky>());
    r.add(vector::<Hoard>());
    r.add(vector::<Refuse>());
    r.add(simple::<Dice>());
    r.add(simple::<Caller>());
    r.add(runtime::inert::<LogHolder>());
    r.add(runtime::inert::<Actor>());
    Arc::new(r)
}

fn router(config: &str, options: Options) -> Router {
    elements::router(&format!("log :: LogHolder;\n{config}"), registry(), options)
}

fn packets(bytes: &[u8]) -> Batch {
    bytes.iter().map(|b| Packet::from_bytes(&[*b]).unwrap()).collect()
}

fn log(router: &Router) -> Vec<String> {
    router.shared::<Log>("log").unwrap().0.lock().unwrap().clone()
}

fn dropped(router: &Router, element: &str) -> Vec<(&'static str, u64)> {
    let id = router.find("", element).unwrap();
    router.elements()[id.0 as usize].totals().drops
}

const TREE: &str = "Source(0) -> c :: Copy; a :: Note; a2 :: Note; b :: Note; s :: Sink; c [0] -> a -> a2 -> s; c [1] -> b -> s;";

#[test]
fn one_packet_at_a_time_goes_depth_first_in_the_order_of_emission() {
    let mut r = router(TREE, Options { batch_size: 1, ..Options::default() });
    r.inject("c", 0, packets(&[1, 2]));
    assert_eq!(log(&r), ["b:1", "a:1", "a2:1", "b:2", "a:2", "a2:2"]);
}

#[test]
fn a_batch_stays_together_and_keeps_the_order_of_each_path() {
    let mut r = router(TREE, Options { batch_size: 32, ..Options::default() });
    r.inject("c", 0, packets(&[1, 2, 3]));
    assert_eq!(log(&r), ["b:1", "b:2", "b:3", "a:1", "a:2", "a:3", "a2:1", "a2:2", "a2:3"]);
    assert_eq!(r.read("s.count", "").unwrap(), "6");
}

#[test]
fn packets_may_come_back_to_the_element_that_sent_them() {
    for batch_size in [1, 32] {
        let mut r = router(
            "h :: Hop; h [0] -> n :: Note -> h; h [1] -> s :: Sink;",
            Options { batch_size, ..Options::default() },
        );
        r.inject("h", 0, packets(&[3, 0, 2]));
        assert_eq!(r.read("s.count", "").unwrap(), "3");
        assert_eq!(log(&r).len(), 5);
    }
}

#[test]
fn a_loop_without_end_is_broken_and_counted() {
    let mut r = router("a :: Note -> b :: Alone -> a;", Options::default());
    r.inject("b", 0, packets(&[7]));
    let lost: u64 = ["a", "b"].iter().flat_map(|e| dropped(&r, e)).map(|d| d.1).sum();
    assert_eq!(lost, 1);
}

#[test]
fn the_only_instance_gets_the_packets_of_all_workers() {
    let options = Options { workers: 3, threads: true, batch_size: 8, ..Options::default() };
    let mut r = router("Source(100) -> a :: Alone -> s :: Sink;", options);
    r.start();
    for _ in 0..1000 {
        if r.read("s.count", "").unwrap() == "300" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(r.read("a.seen", "").unwrap(), "300");
    assert_eq!(r.read("s.count", "").unwrap(), "300");
}

#[test]
fn a_hot_swap_delivers_what_is_on_the_way_between_workers() {
    let options = Options { workers: 2, batch_size: 8, hotswap: true, ..Options::default() };
    let mut r = router("Source(1) -> a :: Alone -> n :: Note -> s :: Sink;", options);
    r.start();
    r.turn();
    assert_eq!(log(&r), ["n:1"], "the other worker's packet is on the way");
    r.hotswap(Source::new("test", "log :: LogHolder; Source(0) -> s :: Sink;")).unwrap();
    assert_eq!(log(&r), ["n:1", "n:1"]);
    assert_eq!(r.hub().strays(), 0);
}

#[test]
fn a_timer_that_is_always_due_leaves_room_for_others() {
    let options = Options { simulated_time: true, ..Options::default() };
    let mut r = router("Restless; Source(5) -> s :: Sink;", options);
    r.drive(|| false);
    assert_eq!(r.read("s.count", "").unwrap(), "5");
}

#[test]
fn an_element_that_panics_stops_the_router() {
    let mut r = router("Source(666) -> s :: Sink;", Options { threads: true, ..Options::default() });
    let began = Instant::now();
    r.drive(|| false);
    assert!(r.hub().failed());
    assert!(began.elapsed() < Duration::from_secs(5), "nobody waits for the worker that is gone");
}

#[test]
fn the_driver_stops_when_an_element_asks() {
    let mut r = router("Source(5) -> s :: Sink;", Options::default());
    r.drive(|| false);
    assert_eq!(r.read("s.count", "").unwrap(), "5");
}

#[test]
fn a_hot_swap_keeps_state_by_name_and_class() {
    let mut r =
        router("a :: Alone -> s :: Sink; Source(0) -> a;", Options { hotswap: true, ..Options::default() });
    r.inject("a", 0, packets(&[1, 2]));
    r.hotswap(Source::new("new", "s :: Sink; n :: Alone; Source(0) -> n -> s;")).unwrap();
    assert_eq!(r.read("s.count", "").unwrap(), "2");
    assert_eq!(r.read("n.seen", "").unwrap(), "0");
    assert!(r.read("a.seen", "").is_err());
    assert_eq!(r.generation(), 1);
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let mut r =
        router("a :: Alone -> s :: Sink; Source(0) -> a;", Options { hotswap: true, ..Options::default() });
    r.inject("a", 0, packets(&[1]));
    for bad in [
        "a :: Alone -> ",
        "x :: Nonsense;",
        "Source(x) -> s :: Sink;",
        "Source(13) -> s :: Sink;",
        "s :: Sink;",
    ] {
        assert!(r.hotswap(Source::new("new", bad)).is_err(), "{bad}");
    }
    r.inject("a", 0, packets(&[1]));
    assert_eq!(r.read("s.count", "").unwrap(), "2");
    assert_eq!(r.generation(), 0);
}

#[test]
fn every_fault_of_a_configuration_is_reported_with_its_place() {
    let text = "log :: LogHolder;\nSource(x) -> Sink;\nSource(1) -> Sink(2);\nFoo -> Bar;\n";
    let Err(diags) =
        Router::new(&[Source::new("f.click", text)], LoadOptions::default(), registry(), Options::default())
    else {
        panic!("no error");
    };
    assert!(diags.len() >= 2, "{}", diags.render_plain(diags.sources()));
    let Err(diags) = Router::new(
        &[Source::new("f.click", &text[..text.len() - 12])],
        LoadOptions::default(),
        registry(),
        Options::default(),
    ) else {
        panic!("no error");
    };
    let shown = diags.render_plain(diags.sources());
    assert_eq!(
        shown,
        "f.click:2: While configuring 'Source@2 :: Source':\n  N: invalid number\n\
         f.click:3: While configuring 'Sink@5 :: Sink':\n  too many arguments\n"
    );
}

#[test]
fn handler_errors_say_what_is_wrong() {
    let mut r = router("s :: Sink; Source(0) -> s;", Options::default());
    let text = |e: Result<String, runtime::HandlerError>| e.unwrap_err().to_string();
    assert_eq!(text(r.read("q.count", "")), "no element named 'q'");
    assert_eq!(text(r.read("s.nothing", "")), "no handler named 's.nothing'");
    assert_eq!(text(r.read("s.pull", "")), "'s.pull' is a write handler");
    assert_eq!(r.write("s.count", "1").unwrap_err().to_string(), "'s.count' is a read handler");
    assert_eq!(r.read("s.class", "").unwrap(), "Sink");
    let stats = r.read("stats.json", "").unwrap();
    assert!(stats.contains(r#""name":"s""#) && stats.contains(r#""class":"Sink""#), "{stats}");
}

#[test]
fn ports_must_fit() {
    let wrong = |config: &str| match Router::new(
        &[Source::new("f", config)],
        LoadOptions::default(),
        registry(),
        Options::default(),
    ) {
        Ok(_) => panic!("no error: {config}"),
        Err(d) => d.render_plain(d.sources()),
    };
    assert_eq!(wrong("Source(1) -> h :: Hop -> Sink;"), "f:1: 'h :: Hop' output 1 unused\n");
    assert_eq!(
        wrong("\ns :: Source(1) -> Sink;\ns -> Sink;"),
        "f:2: illegal reuse of 's :: Source' push output 0\n"
    );
    assert!(wrong("s :: Sink; Source(1) -> [1] s;").starts_with("f:1: 's :: Sink' has no input 1\n"));
}

#[test]
fn a_handler_that_calls_itself_comes_to_an_end() {
    let mut r = router("Source(0) -> c :: Caller -> Sink;", Options::default());
    r.write("c.again", "").unwrap();
    assert_eq!(r.hub().lost_writes(), 1);
    assert!(r.read("c.called", "").unwrap().parse::<u64>().unwrap() > 1000);
}

/// Emits a packet in each run of its task. As long as the test sets the flag, the second worker stays in one
/// run.
struct Sticky(Arc<StickyFlags>);

#[derive(Default)]
struct StickyFlags {
    stick: AtomicBool,
    stuck: AtomicBool,
}

impl Element for Sticky {
    const CLASS: &'static str = "Sticky";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self(cx.shared(StickyFlags::default)))
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        while cx.worker().0 == 1 && self.0.stick.load(Ordering::Acquire) {
            self.0.stuck.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(1));
        }
        cx.output(0, Packet::from_bytes(&[1]).unwrap());
        cx.reschedule();
        true
    }
}

impl Vector for Sticky {}

/// Keeps every packet, and emits none.
struct Hoard(Vec<Packet>);

impl Element for Hoard {
    const CLASS: &'static str = "Hoard";
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self(Vec::new()))
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.sum("length", |e| e.0.len() as u64);
    }
}

impl Vector for Hoard {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.0.extend(batch.drain(..));
        cx.recycle(batch);
    }
}

/// Registers two actions for the moment when the configuration takes effect: one while it is configured, one
/// while it is initialized.
struct Actor;

/// What the `Actor`s have done, in order.
#[derive(Default)]
struct Acts(Mutex<Vec<&'static str>>);

impl Element for Actor {
    const CLASS: &'static str = "Actor";
    const PORTS: &'static str = "0/0";
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let fails = args.p::<bool>("FAILS")?.unwrap_or(false);
        let acts = cx.hub().resource("acts", || Ok(Acts::default()))?;
        cx.before_start(move || if fails { Err("no".to_owned()) } else { Ok(()) });
        cx.at_change_over(move || {
            acts.0.lock().unwrap().push("configured");
            Ok(())
        });
        Ok(Self)
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let acts = cx.hub().resource("acts", || Ok(Acts::default()))?;
        cx.at_change_over(move || {
            acts.0.lock().unwrap().push("initialized");
            Err("as late as this it is only reported".to_owned())
        });
        Ok(())
    }
}

#[test]
fn a_hot_swap_that_a_worker_does_not_follow_changes_no_worker() {
    let options = Options { workers: 2, threads: true, batch_size: 8, hotswap: true, ..Options::default() };
    let mut r = router("src :: Sticky -> old :: Sink;", options);
    let flags = r.shared::<StickyFlags>("src").unwrap();
    r.start();
    flags.stick.store(true, Ordering::Release);
    assert!(until(|| flags.stuck.load(Ordering::Acquire)));
    r.set_answer_limit(Duration::from_millis(100));
    let acts = r.hub().resource("acts", || Ok(Acts::default())).unwrap();
    let done = || acts.0.lock().unwrap().clone();
    let new = || Source::new("new", "log :: LogHolder; src :: Sticky -> new :: Sink; a :: Actor;");
    let Err(diags) = r.hotswap(new()) else { panic!("the second worker is stuck") };
    let text = diags.render_plain(diags.sources());
    assert!(text.contains("worker 1 does not answer") && text.contains("goes on"), "{text}");
    assert_eq!(r.generation(), 0);
    assert!(done().is_empty(), "nothing is done for a configuration that does not run");
    // The first worker still runs the old graph, and so does the second one when it is free.
    let count = |r: &mut Router| r.read("old.count", "").unwrap().parse::<u64>().unwrap();
    let before = count(&mut r);
    assert!(until(|| count(&mut r) > before), "the first worker forwards");
    assert!(r.read("new.count", "").is_err());
    flags.stick.store(false, Ordering::Release);
    r.set_answer_limit(Duration::from_secs(10));
    let id = r.find("", "old").unwrap().0 as usize;
    let second = |r: &Router| r.elements()[id].stats[1].snapshot().packets;
    let before = second(&r);
    assert!(until(|| second(&r) > before), "the second worker forwards to the old element");
    let fails = Source::new("new", "log :: LogHolder; src :: Sticky -> new :: Sink; a :: Actor(true);");
    assert!(r.hotswap(fails).is_err() && done().is_empty());
    // Now the swap succeeds, on both.
    r.hotswap(new()).unwrap();
    assert_eq!(done(), ["configured", "initialized"], "once, not for each worker");
    assert!(until(|| (0..2).all(|w| r.elements()[2].stats[w].snapshot().packets > 0)));
    assert_eq!(r.elements()[2].name, "new");
}

#[test]
fn packets_that_go_with_their_element_are_counted() {
    for workers in [1, 2] {
        let options =
            Options { workers, threads: workers > 1, batch_size: 8, hotswap: true, ..Options::default() };
        let mut r = router("Source(0) -> a :: Hoard; Source(0) -> b :: Hoard;", options);
        r.inject("a", 0, packets(&[0; 5]));
        r.inject("b", 0, packets(&[0; 2]));
        r.hotswap(Source::new("new", "Source(0) -> c :: Hoard;")).unwrap();
        let drops = r.read("drops", "").unwrap();
        assert_eq!(drops, "5\ta\tremoved by hot swap\n2\tb\tremoved by hot swap\n");
        r.hotswap(Source::new("new", "Source(0) -> c :: Hoard;")).unwrap();
        assert_eq!(r.read("drops", "").unwrap(), drops, "the count stays");
    }
}

const REFUSED: DropReason = DropReason::new("refused");

/// Drops everything.
struct Refuse;

impl Element for Refuse {
    const CLASS: &'static str = "Refuse";
    const DROPS: &'static [DropCase] = &[REFUSED.when("always")];
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for Refuse {
    fn push(&mut self, _: usize, batch: Batch, cx: &mut Cx<'_>) {
        cx.drop_batch(batch, REFUSED);
    }
}

#[test]
fn what_an_element_has_dropped_stays_in_the_books_when_it_goes() {
    let mut r = router("Source(0) -> a :: Refuse;", Options { hotswap: true, ..Options::default() });
    let drops = |r: &mut Router, n: usize| {
        r.inject("a", 0, packets(&vec![0; n]));
        r.read("drops", "").unwrap()
    };
    assert_eq!(drops(&mut r, 3), "3\ta\trefused\n");
    r.hotswap(Source::new("new", "a :: Refuse; Source(0) -> a; log :: LogHolder;")).unwrap();
    assert_eq!(drops(&mut r, 1), "4\ta\trefused\n", "the same element goes on");
    r.hotswap(Source::new("new", "Source(0) -> b :: Refuse;")).unwrap();
    assert_eq!(drops(&mut r, 0), "4\ta\trefused\n");
    r.hotswap(Source::new("new", "Source(0) -> a :: Refuse;")).unwrap();
    assert_eq!(drops(&mut r, 2), "6\ta\trefused\n", "another one of that name");
}

#[test]
fn random_numbers_go_on_over_a_hot_swap() {
    let mut r = router("n :: Dice -> Sink; Source(0) -> n;", Options::default());
    let first = r.read("n.roll", "").unwrap();
    r.hotswap(Source::new("new", "log :: LogHolder; n :: Dice -> Sink; Source(0) -> n;")).unwrap();
    assert_ne!(r.read("n.roll", "").unwrap(), first);
}

/// Draws random numbers.
struct Dice;

impl Element for Dice {
    const CLASS: &'static str = "Dice";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read_with("roll", runtime::Combine::First, |_, _, cx| Ok(cx.random().to_string()));
    }
}

impl Simple for Dice {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        Some(packet)
    }
}

/// Writes a handler for every packet; the handler is slow.
struct Caller {
    called: Counter,
}

impl Element for Caller {
    const CLASS: &'static str = "Caller";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { called: Counter::new() })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.counter("called", |e| &e.called);
        h.write("call", |e, _, _| {
            e.called.add(1);
            Ok(())
        });
        h.write("again", |e, _, cx| {
            e.called.add(1);
            cx.call(None, "again", "");
            Ok(())
        });
    }
}

impl Simple for Caller {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        cx.call(None, "call", "");
        Some(packet)
    }
}

#[test]
fn handler_calls_that_come_too_fast_are_lost_and_counted() {
    let options = Options { workers: 2, ..Options::default() };
    let mut r = router("Source(0) -> c :: Caller -> Sink;", options);
    let printed = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&printed);
    r.hub().listen(Box::new(move |line| lines.lock().unwrap().push(line.to_owned())));
    r.inject("c", 0, packets(&[0; 2000]));
    let lost = r.hub().lost_writes();
    assert_eq!(lost, 2000 - 1024);
    let printed = printed.lock().unwrap().clone();
    assert_eq!(printed.len(), 10, "at 1, 2, 4, ..., 512: {printed:?}");
    assert!(
        printed[9].starts_with("c: ") && printed[9].ends_with("calls lost so far: 512"),
        "{}",
        printed[9]
    );
    // Each turn performs some calls and lets the control tasks have their turns.
    r.turn();
    let called: u64 = r.read("c.called", "").unwrap().parse().unwrap();
    assert!(called > 0 && called < 2 * 1024, "{called}");
    assert!(until(|| {
        r.turn();
        r.read("c.called", "").unwrap() == (2 * 1024).to_string()
    }));
}
