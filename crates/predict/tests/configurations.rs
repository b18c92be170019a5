//! Configurations of made packets, which need no port: what is seen in them, and that all parts add up. How
//! long anything takes is not tested.

use lang::{LoadOptions, Source};
use predict::{Failure, Kept, Line, Observed, Prediction, Traffic};
use runtime::{Options, Registry};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One at a time: what is recorded is recorded for the whole process.
static TURN: Mutex<()> = Mutex::new(());

struct Case {
    registry: Arc<Registry>,
    options: Options,
    _turn: MutexGuard<'static, ()>,
}

impl Case {
    fn new() -> Self {
        let options = Options { batch_size: 32, optimize: true, ..Options::default() };
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { registry: Arc::new(elements::registry()), options, _turn: turn }
    }
    fn observe(&self, text: &str) -> Result<Observed, Failure> {
        let source = Source::new("test", text);
        predict::observe(&source, &LoadOptions::default(), &self.registry, &self.options, &Traffic::default())
    }
    fn predict(&self, text: &str) -> (Observed, Prediction) {
        let observed = self.observe(text).unwrap();
        let mut kept = Kept::load(Path::new("/dev/null/costs.json"), "test", false);
        let prediction =
            predict::predict(&observed, &self.registry, &self.options, &mut kept, |_, _| ()).unwrap();
        (observed, prediction)
    }
}

fn line<'a>(prediction: &'a Prediction, name: &str) -> &'a Line {
    prediction.lines.iter().find(|line| line.name == name).unwrap()
}

/// All elements that packets come to are known, and the sum is that of its parts.
fn adds_up(prediction: &Prediction) {
    let parts: f64 = prediction
        .lines
        .iter()
        .map(|line| line.share * *line.cycles.as_ref().unwrap_or_else(|why| panic!("{}: {why}", line.name)))
        .sum();
    let sum = parts + prediction.runs;
    assert!((prediction.cycles - sum).abs() < 1e-6 * sum, "{} {sum}", prediction.cycles);
    assert!(prediction.cycles > 0.0 && prediction.rate() > 0.0 && prediction.rate().is_finite());
}

const FRAME: &str = "DATA \\<020000000001 020000000002 0800 45000028 00000000 40115db3 0a090909 0a000001 03e8 07d0 0014 0000>";

#[test]
fn shares_batches_and_bytes_are_those_of_the_configuration() {
    let case = Case::new();
    let (_, p) = case.predict(&format!(
        "InfiniteSource({FRAME}, LENGTH 60) -> s :: Strip(14) -> t :: Tee(3);
         t [0] -> a :: Counter -> r :: RoundRobinSwitch; r [0] -> half :: Counter -> Discard; r [1] -> Discard;
         t [1] -> Discard; t [2] -> never :: Switch(-1) -> nothing :: Counter -> Discard;"
    ));
    adds_up(&p);
    assert!((line(&p, "a").share - 1.0).abs() < 0.01 && (line(&p, "half").share - 0.5).abs() < 0.01);
    assert_eq!((line(&p, "s").bytes, line(&p, "a").bytes), (60.0, 46.0));
    assert!((line(&p, "a").batch - 32.0).abs() < 0.5 && (line(&p, "half").batch - 16.0).abs() < 0.5);
    assert!(p.lines.iter().all(|line| line.name != "nothing"), "no packet comes there");
    assert_eq!(p.sent, 0.0);
}

#[test]
fn elements_that_are_pulled_that_wait_and_that_refer_to_tables_are_measured() {
    let case = Case::new();
    let (observed, p) = case.predict(&format!(
        "AddressInfo(me 10.9.9.9 2:0:0:0:0:7); hosts :: ARPTable;
         InfiniteSource({FRAME}, LENGTH 60, BURST 32) -> Strip(14) -> check :: CheckIPHeader -> q :: Queue(500) -> c :: Counter
         -> sched :: RoundRobinSched -> pulls :: Unqueue(BURST 8) -> arp :: ARPQuerier(me, TABLE hosts) -> Discard;
         Idle -> [1] arp; InfiniteSource({FRAME}, LENGTH 60, BURST 32) -> second :: Queue(500) -> [1] sched;
         outer :: {{ input -> Null -> inner :: Paint(3) -> output }}; InfiniteSource -> outer -> Discard;"
    ));
    adds_up(&p);
    for name in ["check", "q", "c", "sched", "pulls", "arp", "outer/inner"] {
        assert!(line(&p, name).share > 0.0, "{name}");
    }
    // Queues of sources that are faster than what follows are full.
    assert!(observed.waiting() > 800, "{}", observed.waiting());
}

#[test]
fn annotations_that_somebody_reads_later_are_set_alone_too() {
    // The destination of CheckIPHeader is read by the look-up only.
    let case = Case::new();
    let (_, p) = case.predict(&format!(
        "InfiniteSource({FRAME}, LENGTH 60) -> Strip(14) -> check :: CheckIPHeader -> rt :: LookupIPRoute(10.0.0.0/8 0, 0.0.0.0/0 1);
         rt [0] -> there :: Counter -> Discard; rt [1] -> elsewhere :: Counter -> Discard;"
    ));
    adds_up(&p);
    assert!((line(&p, "there").share - 1.0).abs() < 0.01);
    assert!(p.lines.iter().all(|line| line.name != "elsewhere"));
}

#[test]
fn what_is_measured_is_the_configuration_that_was_seen() {
    let case = Case::new();
    let observed = case.observe("InfiniteSource -> c :: Counter -> Discard;").unwrap();
    let measured = predict::measured(&observed, &case.registry, &case.options).unwrap();
    assert!(measured.cycles > 0.0 && measured.cycles.is_finite());
    assert!(measured.elements.iter().any(|(name, cycles)| name == "c" && *cycles > 0.0));
}

#[test]
fn known_costs_are_not_measured_again() {
    let case = Case::new();
    let observed = case.observe("InfiniteSource -> c :: Counter -> Discard;").unwrap();
    let directory = std::env::temp_dir().join(format!("valiant-predict-{}", std::process::id()));
    let path = directory.join("costs.json");
    let costs = |again| {
        let mut kept = Kept::load(&path, "test", again);
        let p = predict::predict(&observed, &case.registry, &case.options, &mut kept, |_, _| ()).unwrap();
        kept.save().unwrap();
        p.lines.iter().map(|line| line.cycles.clone().unwrap()).collect::<Vec<_>>()
    };
    let first = costs(false);
    assert_eq!(costs(false), first);
    assert_ne!(costs(true), first, "two measurements have not the same result to the last digit");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn configurations_that_cannot_be_predicted_say_why() {
    let case = Case::new();
    let Err(Failure::Message(message)) = case.observe("Idle -> Discard;") else { panic!("observed") };
    assert!(message.contains("no packets come in"), "{message}");
    let Err(Failure::Configuration(diags)) = case.observe("InfiniteSource -> Strip(x) -> Discard;") else {
        panic!("observed")
    };
    let text = diags.render(diags.sources(), false);
    assert!(text.contains("test:1") && text.contains("Strip"), "{text}");
}
