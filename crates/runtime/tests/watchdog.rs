//! A worker that does not finish its batch is detected and reported with its element, and reported again when
//! it continues.

use lang::{LoadOptions, Source};
use runtime::{ArgError, Args, ConfigCx, Cx, Element, Options, Registry, Router, Vector, vector};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

static HELD: AtomicBool = AtomicBool::new(true);

/// Emits packets, one after the other, so that there is always one to hold.
struct Starter;

impl Element for Starter {
    const CLASS: &'static str = "Starter";
    const PORTS: &'static str = "0/1";
    const PROCESSING: &'static str = "h/h";
    const MANUAL: &'static str = "";
    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        dpdk::Packet::from_bytes(b"packet").into_iter().for_each(|p| cx.output(0, p));
        cx.reschedule();
        true
    }
}

impl Vector for Starter {}

/// Blocks its worker until it is released.
struct Holder;

impl Element for Holder {
    const CLASS: &'static str = "Holder";
    const PORTS: &'static str = "1/0";
    const PROCESSING: &'static str = "h/h";
    const MANUAL: &'static str = "";
    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for Holder {
    fn push(&mut self, _port: usize, batch: dpdk::Batch, cx: &mut Cx<'_>) {
        while HELD.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        cx.recycle(batch);
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_stuck_worker_is_named_with_its_element_and_forgotten_when_it_goes_on() {
    let mut registry = Registry::new();
    registry.add(vector::<Starter>());
    registry.add(vector::<Holder>());
    let config = Source::new("test", "s :: Starter -> bad :: Holder;");
    let options = Options {
        workers: 2,
        threads: true,
        hotswap: true,
        watchdog: Some(Duration::from_millis(300)),
        ..Options::default()
    };
    let Ok(mut router) = Router::new(&[config], LoadOptions::default(), Arc::new(registry), options) else {
        panic!("a good configuration");
    };
    router.set_answer_limit(Duration::from_millis(100));
    let printed = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&printed);
    router.hub().listen(Box::new(move |line| lines.lock().unwrap().push(line.to_owned())));
    let was_printed = |what: &str| printed.lock().unwrap().iter().any(|line| line.contains(what));
    assert_eq!(router.read("stuck", "").unwrap(), "");
    router.start();
    until("the worker is found", || !router.read("stuck", "").unwrap().is_empty());
    let stuck = router.read("stuck", "").unwrap();
    assert!(
        stuck.starts_with("0\t") && stuck.ends_with("\t'bad :: Holder'\n") && stuck.lines().count() == 1,
        "{stuck}"
    );
    let stats: serde_json::Value = serde_json::from_str(&router.read("stats.json", "").unwrap()).unwrap();
    assert_eq!(
        (&stats["stuck"][0]["worker"], &stats["stuck"][0]["element"]),
        (&0.into(), &"'bad :: Holder'".into())
    );
    assert!(router.read("cycles", "").unwrap().contains("worker 0 is stuck in 'bad :: Holder'"));
    until("it is printed", || was_printed("worker 0 is stuck") && was_printed("'bad :: Holder'"));
    // A configuration cannot be replaced while a worker does not answer; the worker is still recorded as
    // stuck.
    assert!(router.hotswap(Source::new("test", "s :: Starter -> bad :: Holder;")).is_err());
    assert!(!router.read("stuck", "").unwrap().is_empty());
    HELD.store(false, Ordering::Relaxed);
    until("it goes on", || router.read("stuck", "").unwrap().is_empty());
    until("that it continues is reported", || was_printed("worker 0 continues after"));
    // The replica that comes next is watched too, under its own names. Its worker may answer late on a busy
    // machine.
    router.set_answer_limit(Duration::from_secs(60));
    assert!(router.hotswap(Source::new("test", "s :: Starter -> worse :: Holder;")).is_ok());
    HELD.store(true, Ordering::Relaxed);
    until("it is found again", || router.read("stuck", "").unwrap().contains("'worse :: Holder'"));
    HELD.store(false, Ordering::Relaxed);
}
