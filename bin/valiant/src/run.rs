//! `valiant run`: the user-level driver.

use crate::privileges::{PrivilegeArgs, PrivilegeDrop};
use crate::source::{self, FileArgs};
use crate::{cores, dropfile, elapsed, handlers};
use clap::Args;
use lang::Source;
use lang::args::NameDb;
use launch::logging::{LogArgs, error};
use launch::progress::waiting;
use launch::{Launch, StopSignals, WATCHDOG_SECONDS, report, report_as_click};
use runtime::{Registry, Router};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args, Default, Clone)]
#[command(disable_help_flag = true, version, disable_version_flag = true)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// Listen for control connections on a TCP port of the loopback interface; `PORT+`: or on the next one
    /// that is free.
    #[arg(short, long, value_name = "PORT", value_parser = tcp_port)]
    pub(crate) port: Vec<String>,
    /// Listen for control connections on a Unix socket.
    #[arg(short, long, value_name = "PATH")]
    pub(crate) unix_socket: Vec<PathBuf>,
    /// Serve a control connection over a connected socket that the process has got, by its descriptor.
    #[arg(long, value_name = "FD")]
    pub(crate) socket: Vec<i32>,
    /// Let the `hotconfig` handler replace the configuration.
    #[arg(short = 'R', long)]
    pub(crate) allow_reconfigure: bool,
    /// How many workers.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// How the work is distributed over workers: `parallel` (each worker receives, processes and sends),
    /// `pipeline` (half of the workers receive, the others process and send), `serial` (one receives, one
    /// sends, the others process), `single`.
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) placement: runtime::Placement,
    /// Whether packet buffers, queues and each worker's elements are in memory of the NUMA node where they
    /// are used; `off` is for comparison.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    pub(crate) numa: String,
    /// The most packets that are processed together (a batch), 64 if not given; 1 gives exactly Click's
    /// order.
    #[arg(long, value_name = "N")]
    pub(crate) burst: Option<usize>,
    /// What workers do without work: `sleep`, which adds up to half a millisecond to the latency of the first
    /// packet where a port cannot wake them, or `poll`, which takes a whole processor for each.
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) when_idle: runtime::Idle,
    /// Use the fast paths of elements; the default unless `--burst 1`. `valiant check -O` shows which
    /// elements have one.
    #[arg(short = 'O', long, alias = "optimise", overrides_with = "no_optimize")]
    pub(crate) optimize: bool,
    /// Do not use the fast paths of elements.
    #[arg(long, alias = "no-optimise")]
    pub(crate) no_optimize: bool,
    /// CPUs for the workers, as in `0-3,6`: worker N runs on the N-th one. `auto`: the best ones, as
    /// `valiant plan-cores` shows them, which is the default if there are isolated ones.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// The most memory for packet buffers, in MB.
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<usize>,
    /// Do not use hugepages.
    #[arg(long)]
    pub(crate) no_huge: bool,
    /// Further arguments for DPDK's EAL, as in `--eal "--log-level=lib.eal:debug"`.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) eal: Option<String>,
    /// Print how long the driver ran.
    #[arg(short, long)]
    pub(crate) time: bool,
    /// Do not print warnings.
    #[arg(short = 'w', long)]
    pub(crate) no_warnings: bool,
    /// Do not run the driver.
    #[arg(short, long)]
    pub(crate) quit: bool,
    /// After the run, print a read handler, `ELEMENT.HANDLER`; ELEMENT may be a pattern or a class.
    #[arg(short = 'h', long = "handler", value_name = "ELEMENT.HANDLER")]
    pub(crate) handler: Vec<String>,
    /// Take the exit status from a read handler.
    #[arg(short = 'x', long, value_name = "ELEMENT.HANDLER")]
    pub(crate) exit_handler: Option<String>,
    /// Write the flat configuration to a file (`-`: standard output).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Run in simulated time: waiting takes no time. It starts SECONDS after the epoch, or 1,000,000,000 if
    /// not given.
    #[arg(
        long,
        visible_alias = "simulation-time",
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000000000",
        value_parser = lang::args::parse::<Duration>
    )]
    pub(crate) simtime: Option<Duration>,
    /// Report a worker that does not finish a batch within this time, and the element that it is
    /// in; 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = WATCHDOG_SECONDS)]
    pub(crate) watchdog: u32,
    /// Once the ports are open, run as this user, with only the capabilities that the ports need. Without
    /// this option, a router that the service manager has started as root stays root and gives up the other
    /// capabilities.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Also keep these capabilities, as in `net_raw,net_admin`, for ports that a hot swap adds. `all`: give
    /// up none.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) keep_capability: Vec<String>,
    /// Write dropped packets to a pcapng file, with the element and the drop reason as a comment.
    #[arg(long, value_name = "FILE")]
    pub(crate) drop_pcap: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
    /// Print the version.
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    pub(crate) version: Option<bool>,
}

/// Runs a configuration.
pub(crate) fn run(registry: &Arc<Registry>, args: &RunArgs, program: &str) -> ExitCode {
    let wanted = match source::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let mut sources = vec![wanted.source];
    let sockets = control_sockets(args);
    if !sockets.is_empty() {
        sources.push(Source::new("command line", sockets));
    }
    let launch = launch_of(args, program);
    let report = if launch.click { report_as_click } else { report };
    let cpus = match launch.choose_cpus(registry, &sources, &wanted.options) {
        Ok(cpus) => cpus,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let options = launch.options(&cpus);
    // Without a word about processors, the kernel chooses among all.
    let bound = !options.threads && launch.cpus.is_some();
    let asked = PrivilegeArgs {
        user: args.user.as_deref(),
        keep: &args.keep_capability,
        hotswap: args.allow_reconfigure,
    };
    // Before anything is opened, because the helper process would inherit it.
    let rights = match PrivilegeDrop::of(&asked, launch.click) {
        Ok(rights) => rights,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let stop = StopSignals::watch();
    // Large tables and devices take some time.
    let router = waiting(launch.click, "setting up the configuration", || {
        Router::new(&sources, wanted.options, Arc::clone(registry), options)
    });
    let mut router = match router {
        Ok(router) => router,
        Err(mut diags) => {
            if args.no_warnings {
                diags.drop_warnings();
            }
            report(&diags);
            if program == "click" && diags.is_parsed() {
                error("Router could not be initialized!");
            }
            return ExitCode::FAILURE;
        }
    };
    stop.steer(router.hub());
    for told in [&router.config().warnings, router.warnings()] {
        let mut told = told.clone();
        if args.no_warnings {
            told.drop_warnings();
        }
        report(&told);
    }
    if !args.no_warnings && program != "click" {
        report(router.shortage());
    }
    if !args.no_warnings && program != "click" {
        launch::describe_ports();
        launch::warn_of_crowding(args.threads, &cpus);
        if let Some(line) = cores::line(&router, &cpus) {
            tracing::info!(target: "router", "{line}");
        }
    }
    let mut status = 0;
    if let Some(path) = &args.output {
        let text = router.config().unparse();
        if path == "-" {
            launch::output::print(&text);
        } else if let Err(e) = std::fs::write(path, text) {
            error(&format!("{path}: {}", launch::reason(&e)));
            status = 1;
        }
    }
    let samples = match args.drop_pcap.as_deref().map(|p| dropfile::drop_file(p, &router)).transpose() {
        Ok(samples) => samples,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    if let Some(rights) = rights {
        match rights.carry_out() {
            Ok(line) if args.no_warnings || program == "click" => drop(line),
            Ok(line) => tracing::info!(target: "router", "{line}"),
            Err(message) => {
                error(&message);
                return ExitCode::FAILURE;
            }
        }
    }
    let began = Instant::now();
    if !args.quit {
        if router.elements().is_empty() {
            if !args.no_warnings {
                let line = match program {
                    "click" => {
                        format!("warning: {}: configuration has no elements, exiting", sources[0].name)
                    }
                    _ => format!("{}: warning: configuration has no elements, exiting", wanted.name),
                };
                tracing::warn!(target: "configuration", "{line}");
            }
        } else {
            // Under the name `click`, standard error has only the messages of Click.
            let service = program != "click";
            if service {
                launch::service::ready();
            }
            if bound {
                launch::bind_here();
            }
            router.drive(|| stop.wanted());
            if service {
                launch::service::stopping();
            }
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
        elapsed::print(began.elapsed());
    }
    if !handlers::print(&mut router, &args.handler) {
        status = 1;
    }
    if let Some(handler) = &args.exit_handler {
        status = handlers::exit_status(&mut router, handler);
    }
    ExitCode::from(status)
}

/// A TCP port, as ControlSocket takes it: a number, a number and `+`, or the name of a service.
fn tcp_port(text: &str) -> Result<String, String> {
    const TCP: u8 = 6;
    let number = lang::args::parse::<u16>(text).ok();
    if let Some(port) = number.or_else(|| NameDb::default().port(TCP, text)) {
        return Ok(port.to_string());
    }
    match text.strip_suffix('+').and_then(|number| lang::args::parse::<u16>(number).ok()) {
        Some(number) => Ok(format!("{number}+")),
        None => Err("expected a number from 0 to 65535, and perhaps a '+'".to_owned()),
    }
}

/// How the router is to be started.
fn launch_of(args: &RunArgs, program: &str) -> Launch {
    Launch {
        workers: args.threads,
        cpus: args.cpus.clone(),
        placement: args.placement,
        numa: args.numa != "off",
        batch_size: args.burst,
        when_idle: args.when_idle,
        optimize: if args.optimize { Some(true) } else { args.no_optimize.then_some(false) },
        memory_mb: args.memory,
        hugepages: !args.no_huge,
        eal: args.eal.clone(),
        simulated_time: args.simtime.is_some(),
        simulation_start_ns: args
            .simtime
            .map(|start| u64::try_from(start.as_nanos()).unwrap_or(u64::MAX / 2)),
        hotswap: args.allow_reconfigure,
        watchdog_s: args.watchdog,
        click: program == "click",
    }
}

/// The control sockets of the command line, as configuration text.
fn control_sockets(args: &RunArgs) -> String {
    let tcp = args.port.iter().map(|p| format!("tcp, {p}"));
    let unix = args.unix_socket.iter().map(|p| format!("unix, {}", lang::quote(&p.display().to_string())));
    let given = args.socket.iter().map(|fd| format!("socket, {fd}"));
    tcp.chain(unix)
        .chain(given)
        .enumerate()
        .map(|(i, c)| {
            // As in Click, the first has no number.
            let number = if i == 0 { String::new() } else { format!("@{i}") };
            format!("click_driver@@ControlSocket{number} :: ControlSocket({c});\n")
        })
        .collect()
}
