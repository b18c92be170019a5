//! Running a configuration: the user-level driver.

use crate::cli::RunArgs;
use crate::load;
use clap::{Args, FromArgMatches};
use lang::{Diagnostics, Source};
use runtime::{Options, Registry, Router};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Vectors of a router that is not asked to be exactly Click.
const DEFAULT_VECTOR: usize = 64;

/// Acts as Click's `click`: one packet at a time, Click's order, Click's flags.
pub(crate) fn click(registry: &Arc<Registry>) -> ExitCode {
    let command = RunArgs::augment_args(
        clap::Command::new("click")
            .version(env!("CARGO_PKG_VERSION"))
            .disable_version_flag(true)
            .disable_help_flag(true),
    )
    .about("Runs a Click configuration, as Click's user-level driver does (this is Valiant).")
    .mut_arg("version", |a| a.short('v').visible_short_alias('V'));
    let matches = match command.try_get_matches_from(without_dpdk(std::env::args().collect())) {
        Ok(matches) => matches,
        Err(e) if !e.use_stderr() => e.exit(),
        Err(e) => {
            // Click's driver exits with 1 when it is called wrongly.
            eprint!("{e}");
            return ExitCode::FAILURE;
        }
    };
    match RunArgs::from_arg_matches(&matches) {
        Ok(mut args) => {
            args.burst = args.burst.or(Some(1));
            run(registry, &args, "click")
        }
        Err(e) => e.exit(),
    }
}

/// FastClick's `--dpdk EAL-ARGUMENT... --` becomes `--eal`.
fn without_dpdk(mut args: Vec<String>) -> Vec<String> {
    if let Some(start) = args.iter().position(|a| a == "--dpdk") {
        let end = args[start..].iter().position(|a| a == "--").map_or(args.len(), |n| start + n + 1);
        let eal: Vec<String> = args.drain(start..end).filter(|a| a != "--dpdk" && a != "--").collect();
        if !eal.is_empty() {
            args.insert(1, format!("--eal={}", eal.join(" ")));
        }
    }
    args
}

/// Runs a configuration.
pub(crate) fn run(registry: &Arc<Registry>, args: &RunArgs, program: &str) -> ExitCode {
    let wanted = match load::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let mut sources = vec![wanted.source];
    let sockets = control_sockets(args);
    if !sockets.is_empty() {
        sources.push(Source::new("command line", sockets));
    }
    let cpus = match choose_cpus(registry, args, &sources, &wanted.options) {
        Ok(cpus) => cpus,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let options = match options(args, program, &cpus) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    // Before anything is open that a helper would have too.
    let rights = match crate::rights::Plan::of(args, program) {
        Ok(rights) => rights,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let stop = StopSignals::watch();
    let mut router = match Router::new(&sources, wanted.options, Arc::clone(registry), options) {
        Ok(router) => router,
        Err(diags) => {
            report(&diags);
            if program == "click" {
                eprintln!("Router could not be initialized!");
            }
            return ExitCode::FAILURE;
        }
    };
    stop.steer(router.hub());
    if !args.no_warnings {
        report(&router.config().warnings);
        report(router.warnings());
        if program != "click" {
            report(router.shortage());
        }
    }
    if !args.no_warnings {
        describe_ports();
        crowding(args.threads, &cpus);
        if let Some(line) = crate::plan::line(&router, &cpus) {
            eprintln!("{line}");
        }
    }
    let mut status = 0;
    if let Some(path) = &args.output {
        let text = router.config().unparse();
        let written = if path == "-" {
            std::io::stdout().write_all(text.as_bytes())
        } else {
            std::fs::write(path, text)
        };
        if let Err(e) = written {
            eprintln!("{path}: {}", load::reason(&e));
            status = 1;
        }
    }
    let samples = match args.drop_pcap.as_deref().map(|p| crate::client::drop_file(p, &router)).transpose() {
        Ok(samples) => samples,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(rights) = rights {
        match rights.carry_out() {
            Ok(line) if args.no_warnings || program == "click" => drop(line),
            Ok(line) => eprintln!("{line}"),
            Err(message) => {
                eprintln!("{message}");
                return ExitCode::FAILURE;
            }
        }
    }
    let began = Instant::now();
    if !args.quit {
        if router.elements().is_empty() {
            if !args.no_warnings {
                eprintln!("{}: warning: configuration has no elements, exiting", wanted.name);
            }
        } else {
            crate::service::ready();
            router.drive(|| stop.wanted());
            crate::service::stopping();
        }
    }
    if let Some(samples) = samples {
        router.hub().set_waits_for("the last dropped packets to be written");
        samples.finish(&router);
        router.hub().set_waits_for("");
    }
    if router.hub().failed() {
        return ExitCode::FAILURE;
    }
    if args.time {
        print_time(began.elapsed());
    }
    if !read_handlers(&mut router, &args.handler) {
        status = 1;
    }
    if let Some(handler) = &args.exit_handler {
        status = exit_status(&mut router, handler);
    }
    ExitCode::from(status)
}

/// How a router runs that is started with these arguments; from here on its workers have their CPUs.
///
/// # Errors
/// A message for the user.
pub(crate) fn options(args: &RunArgs, program: &str, cpus: &[usize]) -> Result<Options, String> {
    // Under this name standard error is Click's.
    if program != "click" {
        crate::crash::install();
    }
    // Set once: there is one router in a process.
    drop(CPUS.set(cpus.to_vec()));
    let nodes = if args.numa == "off" { Vec::new() } else { nodes_of(cpus) };
    drop(NODES.set(nodes.clone()));
    let eal = dpdk::EalOptions {
        numa_off: args.numa == "off",
        memory_mb: args.memory,
        hugepages: if args.no_huge { dpdk::Hugepages::Never } else { dpdk::Hugepages::default() },
        extra: args.eal.iter().flat_map(|e| e.split_whitespace()).map(str::to_owned).collect(),
        ..dpdk::EalOptions::default()
    };
    let vector = args.burst.unwrap_or(DEFAULT_VECTOR);
    Ok(Options {
        workers: args.threads.max(1),
        threads: !args.simtime && (args.threads > 1 || program != "click"),
        vector,
        // Vectors of one are for those who want exactly Click's order.
        optimise: args.optimise || (vector > 1 && !args.no_optimise),
        simulated_time: args.simtime,
        // Simulations repeat themselves.
        seed: if args.simtime { 0 } else { RandomState::new().build_hasher().finish() },
        placement: args.placement,
        nodes,
        hotswap: args.allow_reconfigure,
        check_only: false,
        click: program == "click",
        eal,
        watchdog: (program != "click" && args.watchdog > 0)
            .then(|| Duration::from_secs(args.watchdog.into())),
        enter: Some(enter),
    })
}

/// The NUMA nodes of the workers whose packets are to be there.
static NODES: OnceLock<Vec<Option<usize>>> = OnceLock::new();
/// Where the workers run.
static CPUS: OnceLock<Vec<usize>> = OnceLock::new();

/// The processors that the workers are bound to; none if the kernel is to choose. Only isolated processors are taken
/// without being asked: the kernel would leave all workers on one of them, and several routers may share the others.
pub(crate) fn choose_cpus(
    registry: &Arc<Registry>,
    args: &RunArgs,
    sources: &[Source],
    options: &lang::LoadOptions,
) -> Result<Vec<usize>, String> {
    match args.cpus.as_deref() {
        Some("auto") => {}
        Some(list) => return cpu_list(list),
        None if args.simtime => return Ok(Vec::new()),
        None => {}
    }
    let topology = dpdk::Topology::here();
    let isolated = topology.cores().iter().any(|core| core.isolated && core.allowed);
    if args.cpus.is_none() && !isolated {
        return Ok(Vec::new());
    }
    let several = topology.cores().windows(2).any(|pair| pair[0].node != pair[1].node);
    // What is wrong with the configuration is said when it is loaded to be run.
    let config = several.then(|| lang::load(sources, options, &**registry).ok()).flatten();
    let ports = config.map(|config| crate::plan::port_nodes(&config, &topology)).unwrap_or_default();
    Ok(topology.seats(args.threads.max(1), &ports).iter().map(|seat| seat.cpu).collect())
}

/// Reads a list of CPUs such as `0-3,6`.
pub(crate) fn cpu_list(text: &str) -> Result<Vec<usize>, String> {
    let bad = || format!("--cpus: '{text}' is not a list of CPUs such as 0-3,6");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.trim().parse::<usize>().ok().zip(last.trim().parse::<usize>().ok());
        let (first, last) = range.filter(|(a, b)| a <= b && b - a < 4096).ok_or_else(bad)?;
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// What a worker thread does first: goes to its CPU, and tells DPDK that it is a worker, so that it has a cache in every
/// pool.
fn enter(worker: runtime::WorkerId) -> Box<dyn std::any::Any> {
    if let Some(&cpu) = CPUS.get().and_then(|cpus| cpus.get(worker.0))
        && let Err(e) = dpdk::set_affinity(&[cpu])
    {
        eprintln!("warning: worker {} cannot run on CPU {cpu}: {}", worker.0, load::reason(&e));
    }
    match dpdk::WorkerThread::register(NODES.get().and_then(|nodes| nodes.get(worker.0).copied()?)) {
        Ok(guard) => Box::new(guard),
        Err(e) => {
            eprintln!("warning: {e}");
            Box::new(())
        }
    }
}

/// The NUMA nodes of processors.
fn nodes_of(cpus: &[usize]) -> Vec<Option<usize>> {
    if cpus.is_empty() {
        return Vec::new();
    }
    dpdk::Topology::here().seated(cpus).iter().map(|seat| seat.node).collect()
}

/// Warns if workers have to share processors.
fn crowding(workers: usize, cpus: &[usize]) {
    let usable = dpdk::Topology::here().cores().iter().filter(|core| core.allowed).count();
    if workers > 1 && workers > usable {
        eprintln!("warning: {workers} workers share {usable} processors: they hold each other up");
    } else if !cpus.is_empty() && cpus.len() < workers {
        eprintln!(
            "warning: --cpus names {} processors for {workers} workers: the others run anywhere",
            cpus.len()
        );
    }
}

/// Says how the ports were opened and why, and what the memory costs: a line each.
pub(crate) fn describe_ports() {
    let environment = dpdk::Eal::get().map(dpdk::Eal::notes).unwrap_or_default();
    for note in environment {
        eprintln!("{note}");
    }
    for port in dpdk::all_ports() {
        eprintln!("{}", port.choice());
        for note in port.notes() {
            eprintln!("{}: {note}", port.name());
        }
    }
}

/// The control sockets of the command line, as configuration text.
fn control_sockets(args: &RunArgs) -> String {
    let tcp = args.port.iter().map(|p| format!("tcp, {p}"));
    let unix = args.unix_socket.iter().map(|p| format!("unix, {}", lang::quote(&p.display().to_string())));
    tcp.chain(unix)
        .enumerate()
        .map(|(i, c)| format!("click_driver@@ControlSocket@{i} :: ControlSocket({c});\n"))
        .collect()
}

/// Prints what is wrong, in colour for a terminal.
pub(crate) fn report(diags: &Diagnostics) {
    if diags.is_empty() {
        return;
    }
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    eprint!("{}", diags.render(diags.sources(), color));
}

/// How soon after the first signal another one is taken for its echo (shells and timeout(1) send to the process and to
/// its group) rather than for impatience.
const ECHO: Duration = Duration::from_millis(500);

/// Signals that stop the router. The first one lets it end in order, ports closed and handlers read; the second one says
/// what that waits for, the third ends the process as it is. Signals that an element claims are left to it.
pub(crate) struct StopSignals {
    wanted: Arc<AtomicBool>,
    /// The router, once there is one.
    hub: Arc<OnceLock<Arc<runtime::Hub>>>,
}

impl StopSignals {
    /// Begins to watch.
    pub(crate) fn watch() -> Self {
        let this = Self { wanted: Arc::default(), hub: Arc::default() };
        // nohup(1) has SIGHUP ignored, and means it.
        let kinds = runtime::STOP_SIGNALS
            .into_iter()
            .filter(|s| *s != signal_hook::consts::SIGHUP || !ignored(signal_hook::consts::SIGHUP));
        // If no handler can be installed, a signal ends the process, which is what the user wants anyway.
        if let Ok(mut signals) = signal_hook::iterator::Signals::new(kinds) {
            let (wanted, hub) = (Arc::clone(&this.wanted), Arc::clone(&this.hub));
            std::thread::spawn(move || {
                let (mut count, mut last) = (0, Instant::now());
                for signal in signals.forever() {
                    let hub = hub.get();
                    if hub.is_some_and(|h| h.signal_claimed(signal)) || (count > 0 && last.elapsed() < ECHO) {
                        continue;
                    }
                    (count, last) = (count + 1, Instant::now());
                    match count {
                        1 => {
                            wanted.store(true, Ordering::Relaxed);
                            hub.into_iter().for_each(|hub| hub.ring());
                        }
                        2 => eprintln!(
                            "stopping: still waiting for {}; a third signal ends the process at once",
                            waits_for(hub)
                        ),
                        _ => std::process::exit(128 + signal),
                    }
                }
            });
        }
        this
    }
    /// From here on the signals are for this router.
    pub(crate) fn steer(&self, hub: &Arc<runtime::Hub>) {
        // Set once: there is one router in a process.
        let _ = self.hub.set(Arc::clone(hub));
    }
    /// Whether the router is to stop.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }
}

/// What an end in order waits for.
fn waits_for(hub: Option<&Arc<runtime::Hub>>) -> String {
    match hub.map(|h| h.waits_for()) {
        None => "the configuration to be set up".to_owned(),
        Some(what) if what.is_empty() => "handlers to be read".to_owned(),
        Some(what) => what,
    }
}

/// Whether this process ignores a signal.
fn ignored(signal: i32) -> bool {
    // SigIgn is a mask in hexadecimal digits, the lowest bit for signal 1 (proc(5)).
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The processor time that this process has used: user and system.
fn processor_time() -> (Duration, Duration) {
    // /proc/self/stat fields 14 and 15 (proc(5)), in clock ticks of 10 ms; fields are counted after the command name.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (Duration::from_millis(ticks(11) * 10), Duration::from_millis(ticks(12) * 10))
}

fn print_time(wall: Duration) {
    let (user, system) = processor_time();
    println!(
        "{}.{:03}u {}.{:03}s {}:{:02}.{:02}",
        user.as_secs(),
        user.subsec_millis(),
        system.as_secs(),
        system.subsec_millis(),
        wall.as_secs() / 60,
        wall.as_secs() % 60,
        wall.subsec_millis() / 10
    );
}

/// Prints read handlers as `-h` asks for them. Returns whether all could be read.
fn read_handlers(router: &mut Router, wanted: &[String]) -> bool {
    let mut good = true;
    let mut calls: Vec<(String, bool)> = Vec::new();
    for spec in wanted {
        let name_it = wanted.len() > 1;
        let Some((element, handler)) = spec.rsplit_once('.') else {
            calls.push((spec.clone(), name_it));
            continue;
        };
        if router.find("", element).is_some() {
            calls.push((spec.clone(), name_it));
            continue;
        }
        let is_pattern = element.contains(['*', '?', '[']);
        let mut any = false;
        for e in router.elements() {
            if if is_pattern { glob(element, &e.name) } else { e.class == element } {
                any = true;
                let name = format!("{}.{handler}", e.name);
                if router.check_handler(&name, false).is_ok() {
                    calls.push((name, true));
                }
            }
        }
        if !any {
            eprintln!("{} '{element}'", if is_pattern { "no element matching" } else { "no element" });
            good = false;
        }
    }
    let mut out = std::io::stdout().lock();
    for (spec, name_it) in calls {
        match router.read(&spec, "") {
            Ok(value) => {
                let newline = if value.is_empty() || value.ends_with('\n') { "" } else { "\n" };
                let text = if name_it {
                    format!("{spec}:\n{value}{newline}\n")
                } else {
                    format!("{value}{newline}")
                };
                // A reader that went away is no reason to fail.
                let _ = out.write_all(text.as_bytes());
            }
            Err(runtime::HandlerError::NoHandler(_)) => {
                eprintln!("no '{spec}' handler");
                good = false;
            }
            Err(e) => {
                eprintln!("{e}");
                good = false;
            }
        }
    }
    good
}

/// Shell patterns: `*`, `?`, `[set]`.
fn glob(pattern: &str, name: &str) -> bool {
    fn matches(p: &[char], n: &[char]) -> bool {
        match p.split_first() {
            None => n.is_empty(),
            Some(('*', rest)) => (0..=n.len()).any(|skip| matches(rest, &n[skip..])),
            Some(('?', rest)) => !n.is_empty() && matches(rest, &n[1..]),
            Some(('[', rest)) => {
                let Some(end) = rest.iter().position(|c| *c == ']') else { return false };
                n.first().is_some_and(|c| rest[..end].contains(c)) && matches(&rest[end + 1..], &n[1..])
            }
            Some((c, rest)) => n.first() == Some(c) && matches(rest, &n[1..]),
        }
    }
    let chars = |s: &str| s.chars().collect::<Vec<_>>();
    matches(&chars(pattern), &chars(name))
}

/// `-x`: an integer is the status, true is 0, false is 1.
fn exit_status(router: &mut Router, handler: &str) -> u8 {
    match router.read(handler, "") {
        Ok(value) => match value.trim() {
            "true" => 0,
            "false" => 1,
            text => text.parse::<i32>().map_or_else(
                |_| {
                    eprintln!("exit handler value should be integer");
                    255
                },
                |n| (n & 0xff) as u8,
            ),
        },
        Err(e) => {
            eprintln!("{e}");
            255
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-2,6"), Ok(vec![0, 1, 2, 6]));
        assert!(cpu_list("2-1").is_err() && cpu_list("x").is_err() && cpu_list("0-99999999").is_err());
    }

    #[test]
    fn dpdk_arguments_of_fastclick() {
        let args = |a: &str| a.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(without_dpdk(args("click --dpdk -m 64 -- a.click")), ["click", "--eal=-m 64", "a.click"]);
        assert_eq!(without_dpdk(args("click a.click")), ["click", "a.click"]);
    }

    #[test]
    fn patterns() {
        assert!(glob("c*", "counter") && glob("*", "") && glob("a?[xy]", "aby"));
        assert!(!glob("c?", "counter") && !glob("[ab]c", "cc"));
    }
}
