//! A test bench for one element: packets in, packets out, handlers; without root and without DPDK's EAL.

use crate::class::{Class, Registry, inert, vector};
use crate::configure::ConfigCx;
use crate::declare::Handlers;
use crate::element::{Element, Sharing, Vector};
use crate::options::Options;
use crate::router::Router;
use crate::{ArgError, Args, Batch, Cx, Packet};
use lang::{LoadOptions, Source};
use locks::IgnorePoison;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What arrived at the bench's sinks: (output port, packet), in order.
#[derive(Default)]
pub struct Caught(Mutex<Vec<(usize, Packet)>>);

struct BenchIn;

impl Element for BenchIn {
    const CLASS: &'static str = "BenchIn";
    const PORTS: &'static str = "0/1";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Vector for BenchIn {}

struct BenchOut {
    port: usize,
    caught: Arc<Caught>,
}

impl Element for BenchOut {
    const CLASS: &'static str = "BenchOut";
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { port: args.mp::<u32>("PORT")? as usize, caught: cx.shared_of("bench_caught", "a bench")? })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.write("pull", |e, n, cx| {
            let mut batch = cx.spare_batch();
            cx.pull(0, n.parse().unwrap_or(1), &mut batch);
            e.push(0, batch, cx);
            Ok(())
        });
    }
}

impl Vector for BenchOut {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let mut caught = self.caught.0.lock().ignore_poison();
        caught.extend(batch.drain(..).map(|p| (self.port, p)));
        drop(caught);
        cx.recycle(batch);
    }
}

struct BenchCaught;

impl Element for BenchCaught {
    const CLASS: &'static str = "BenchCaught";
    const PORTS: &'static str = "0/0";
    const PHASE: crate::Phase = crate::Phase::Info;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        cx.shared(Caught::default);
        Ok(Self)
    }
}

/// One element under test, called `e`, with a source on each input and a sink on each output.
pub struct Bench {
    router: Router,
    caught: Arc<Caught>,
}

/// The bench's result for each packet: the output port and the bytes.
pub type Out = (usize, Vec<u8>);

impl Bench {
    /// Makes a bench around `declaration` (`Class(arguments)`). Unlimited port counts become one port; see
    /// [`Bench::with_ports`].
    ///
    /// # Panics
    /// If the configuration is wrong.
    #[must_use]
    pub fn new(registry: &Registry, declaration: &str) -> Self {
        let class = declaration.split('(').next().unwrap_or_default().trim();
        let (inputs, outputs) = registry.get(class).map_or((1, 1), |c| default_ports(c, 1));
        Self::with_ports(registry, declaration, inputs, outputs)
    }
    /// The same, which may fail, with `open` ports on sides where the class leaves their number open.
    ///
    /// # Errors
    /// The errors in the configuration, as they are shown to users.
    pub fn attempt(
        registry: &Registry,
        declaration: &str,
        open: usize,
        options: Options,
    ) -> Result<Self, String> {
        let class = declaration.split_once("::").map_or(declaration, |(_, class)| class);
        let class = class.split('(').next().unwrap_or_default().trim();
        let (inputs, outputs) = registry.get(class).map_or((1, 1), |c| default_ports(c, open));
        let named = if declaration.contains("::") { "" } else { "e :: " };
        Self::try_with(registry, &format!("{named}{declaration};"), inputs, outputs, options)
    }
    /// The same with given numbers of inputs and outputs.
    ///
    /// # Panics
    /// If the configuration is wrong.
    #[must_use]
    pub fn with_ports(registry: &Registry, declaration: &str, inputs: usize, outputs: usize) -> Self {
        Self::with(registry, &format!("e :: {declaration};"), inputs, outputs, Options::default())
    }
    /// The same with a whole configuration, in which one element is called `e`.
    ///
    /// # Panics
    /// If the configuration is wrong.
    #[must_use]
    pub fn with(registry: &Registry, config: &str, inputs: usize, outputs: usize, options: Options) -> Self {
        match Self::try_with(registry, config, inputs, outputs, options) {
            Ok(bench) => bench,
            Err(text) => panic!("{text}"),
        }
    }
    /// The error message of a declaration that must be rejected.
    ///
    /// # Panics
    /// If it is accepted.
    #[must_use]
    pub fn error(registry: &Registry, declaration: &str) -> String {
        let class = declaration.split('(').next().unwrap_or_default().trim();
        let (inputs, outputs) = registry.get(class).map_or((1, 1), |c| default_ports(c, 1));
        match Self::try_with(registry, &format!("e :: {declaration};"), inputs, outputs, Options::default()) {
            Ok(_) => panic!("no error"),
            Err(text) => text,
        }
    }

    fn try_with(
        registry: &Registry,
        config: &str,
        inputs: usize,
        outputs: usize,
        options: Options,
    ) -> Result<Self, String> {
        let mut registry = registry.clone();
        registry.add(vector::<BenchOut>());
        registry.add(vector::<BenchIn>());
        registry.add(inert::<BenchCaught>());
        let mut text = format!("bench_caught :: BenchCaught;\n{config}\n");
        for i in 0..inputs {
            text += &format!("in{i} :: BenchIn; in{i} -> [{i}] e;\n");
        }
        for i in 0..outputs {
            text += &format!("out{i} :: BenchOut({i}); e [{i}] -> out{i};\n");
        }
        let mut router =
            Router::new(&[Source::new("bench", text)], LoadOptions::default(), Arc::new(registry), options)
                .map_err(|d| d.render_plain(d.sources()))?;
        let caught = router.shared("bench_caught").ok_or("no sink")?;
        router.start();
        Ok(Self { router, caught })
    }

    /// Pushes a packet with these bytes; returns what came out.
    pub fn push(&mut self, port: usize, bytes: &[u8]) -> Vec<Out> {
        self.push_packet(port, Packet::from_bytes(bytes).expect("memory"))
    }
    /// Pushes a packet; returns the bytes that came out.
    pub fn push_packet(&mut self, port: usize, packet: Packet) -> Vec<Out> {
        self.send(port, packet).into_iter().map(|(o, p)| (o, p.data().to_vec())).collect()
    }
    /// Pushes a packet; returns the packets that came out, with their annotations.
    pub fn send(&mut self, port: usize, packet: Packet) -> Vec<(usize, Packet)> {
        self.send_batch(port, vec![packet])
    }
    /// Pushes one batch of packets; returns the packets that came out.
    pub fn send_batch(&mut self, port: usize, packets: Vec<Packet>) -> Vec<(usize, Packet)> {
        self.router.inject("e", port, packets.into_iter().collect());
        self.take()
    }
    /// Pulls up to `n` packets from an output.
    pub fn pull(&mut self, port: usize, n: usize) -> Vec<(usize, Packet)> {
        self.router.write(&format!("out{port}.pull"), &n.to_string()).expect("the sink pulls");
        self.take()
    }
    /// Packets that have come out since the last call.
    pub fn take(&mut self) -> Vec<(usize, Packet)> {
        std::mem::take(&mut *self.caught.0.lock().ignore_poison())
    }
    /// Runs the driver for one round (tasks, timers, control) and sleeps for a millisecond at most.
    pub fn turn(&mut self) {
        let rest = self.router.step().min(Duration::from_millis(1));
        // In simulated time, nothing is left to wait for once the driver would sleep.
        if !rest.is_zero() && !self.router.options().simulated_time {
            std::thread::sleep(rest);
        }
    }
    /// Runs the driver for a number of rounds; returns what came out.
    pub fn turns(&mut self, n: usize) -> Vec<Out> {
        for _ in 0..n {
            self.turn();
        }
        self.take().into_iter().map(|(o, p)| (o, p.data().to_vec())).collect()
    }
    /// Runs the driver for many rounds.
    pub fn run(&mut self) -> Vec<Out> {
        self.turns(200)
    }
    /// Reads a handler of the element; `.name` or `other.name` for others. A parameter may follow after a
    /// space.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn read(&mut self, handler: &str) -> String {
        self.try_read(handler).expect("handler")
    }
    /// Reads a handler.
    ///
    /// # Errors
    /// As [`Router::read`].
    pub fn try_read(&mut self, handler: &str) -> Result<String, crate::HandlerError> {
        let (handler, parameter) = handler.split_once(' ').unwrap_or((handler, ""));
        self.router.read(&scoped(handler), parameter)
    }
    /// Writes a handler of the element.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&mut self, handler: &str, value: &str) {
        self.try_write(handler, value).expect("handler");
    }
    /// Writes a handler.
    ///
    /// # Errors
    /// As [`Router::write`].
    pub fn try_write(&mut self, handler: &str, value: &str) -> Result<(), crate::HandlerError> {
        self.router.write(&scoped(handler), value)
    }
    /// What the element has dropped: (reason, packets).
    pub fn drops(&mut self) -> Vec<(String, u64)> {
        let id = self.router.find("", "e").expect("e");
        self.router.elements()[id.0 as usize]
            .totals()
            .drops
            .iter()
            .map(|(r, n)| ((*r).to_owned(), *n))
            .collect()
    }
    /// The router around the element.
    pub fn router(&mut self) -> &mut Router {
        &mut self.router
    }
}

fn scoped(handler: &str) -> String {
    if handler.contains('.') { handler.to_owned() } else { format!("e.{handler}") }
}

/// The most ports of a side that its code allows, or `open` where there is no limit.
fn default_ports(class: &Class, open: usize) -> (usize, usize) {
    let (ins, outs) = class.ports.split_once('/').unwrap_or((class.ports, class.ports));
    let side = |code: &str, other: usize| -> usize {
        if code.starts_with('=') {
            return other + code.len() - 1;
        }
        let last = code.rsplit('-').next().unwrap_or_default();
        last.parse().unwrap_or_else(|_| code.trim_end_matches('-').parse().unwrap_or(0).max(open))
    };
    let inputs = side(ins, 1);
    (inputs, side(outs, inputs))
}
