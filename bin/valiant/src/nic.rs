//! `valiant nic`: what a port's device offers to a router, how its classifier behaves with many rules, and
//! where the rules of a running router are.

mod bench;
mod measure;
mod report;
mod rules;
mod score;

use clap::{Args, Subcommand};
use dpdk::nic::{NicOptions, probe};
use dpdk::{EalOptions, PortSpec};
use launch::logging::error;
use launch::output::print;
use launch::progress::waiting;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};

pub(crate) const EXAMPLES: &str = "\
Examples:
  valiant nic probe 0000:03:00.0              a card that is bound to vfio-pci (`valiant ports` lists them)
  valiant nic probe net_tap0 --json
  valiant nic rules                           the flow rules of a running router: in hardware or in software
  valiant nic bench --quick                   how the classifier in software behaves with many rules, and while they change
  valiant nic probe --help                    what the words in its report mean";

const PROBE_EXAMPLES: &str = "\
Nothing in the report is known from the name of a driver. For each ability it says
  advertised   what the driver says of it
  accepted     whether the driver takes the call that asks for it; of flow rules, how many, put in until one is refused
  seen         whether frames show that it works: they are sent by the port itself, if they come back, or by the Linux interface that belongs to it. With `-` there is no way to see it, and the reason is below, or in the JSON.

Then it says which settings can be changed while the port runs, which only while it is stopped, and how well the device suits a parallel router: 2 points for what was seen to work, 1 for what was accepted, 0 else; what is only advertised counts nothing. The wishes are those of Manesh, Argyraki, Dobrescu, Egi, Fall, Iannaccone, Kohler and Ratnasamy, \"Evaluating the Suitability of Server Network Cards for Software Routers\" (PRESTO 2010).

The port must not be in use. Its settings are changed and set back; its link may go down for moments. Rules that are put in are removed.

Examples:
  valiant nic probe 0000:03:00.0
  valiant nic probe net_ring0                 a port whose frames come back, so that much can be seen
  valiant nic probe net_tap0,iface=tap7
  valiant nic probe net_af_packet0,iface=eth0 --no-frames
  valiant nic probe 0000:03:00.0 --json | jq '.abilities[] | select(.area == \"rules\")'

Exit status: 0 the port was examined, 1 it could not be opened, 2 wrong usage.";

#[derive(Args)]
pub(crate) struct NicArgs {
    #[command(subcommand)]
    command: NicCommand,
}

#[derive(Subcommand)]
enum NicCommand {
    /// Find out what a port can do, by asking its driver and by trying.
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(ProbeArgs),
    /// Ask eight questions of a port's classifier, or of that in software: how it behaves with many rules,
    /// and while they change.
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::BenchArgs),
    /// Measure one point of `nic bench`.
    #[command(after_help = measure::EXAMPLES)]
    Measure(measure::MeasureArgs),
    /// Show where the flow rules of a running router are, and what they have counted.
    #[command(after_help = rules::EXAMPLES)]
    Rules(rules::RulesArgs),
}

#[derive(Args)]
struct ProbeArgs {
    /// The port: a PCI address, the arguments of a virtual device, or an interface, as FromDevice takes them.
    port: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Send no frames; then nothing can be seen to work.
    #[arg(long)]
    no_frames: bool,
    /// The most flow rules of each kind that are put in to find the limit.
    #[arg(long, value_name = "N", default_value = "65536", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rules: u32,
    /// Examine the port in this process. Without it another one does, so that it does not matter here if a
    /// driver crashes.
    #[arg(long, hide = true)]
    here: bool,
}

pub(crate) fn nic(args: &NicArgs) -> ExitCode {
    match &args.command {
        NicCommand::Probe(args) if args.here => examine(args),
        NicCommand::Probe(args) => examine_apart(args),
        NicCommand::Bench(args) => bench::bench(args),
        NicCommand::Measure(args) => measure::measure(args),
        NicCommand::Rules(args) => rules::show(args),
    }
}

/// `valiant nic probe`, in a process of its own: what is tried is what drivers are rarely asked for, and a
/// driver that crashes takes its process with it.
fn examine_apart(args: &ProbeArgs) -> ExitCode {
    let started = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.args(["nic", "probe", "--here", "--rules", &args.rules.to_string()]);
        command.args(args.json.then_some("--json")).args(args.no_frames.then_some("--no-frames"));
        command.args(["--", &args.port]).status()
    });
    match started {
        Ok(status) => {
            if let Some(text) = crash(status, &args.port) {
                error(&text);
                error("help: --no-frames and --rules 1 try less");
            }
            ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        Err(e) => {
            error(&format!("cannot start this program again: {}", launch::reason(&e)));
            ExitCode::FAILURE
        }
    }
}

/// What is to be said of a process that has examined a port and was ended by a signal.
fn crash(status: ExitStatus, port: &str) -> Option<String> {
    const CRASHES: [Signal; 5] =
        [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT];
    let signal = status.signal()?;
    Some(if CRASHES.iter().any(|crash| *crash as i32 == signal) {
        format!("{port}: its driver has crashed while the port was examined ({status})")
    } else {
        format!("{port}: the process that examined it was ended ({status})")
    })
}

/// `valiant nic probe`, in this process.
fn examine(args: &ProbeArgs) -> ExitCode {
    // The port is free when the command has ended, whatever has ended it.
    let _ = args.here.then(|| set_pdeathsig(Signal::SIGTERM));
    let spec = match PortSpec::parse(&args.port) {
        Ok(spec) => spec,
        Err(e) => {
            error(&e.to_string());
            return ExitCode::from(2);
        }
    };
    let options = NicOptions { frames: !args.no_frames, most_rules: args.rules as usize };
    let found = waiting(!args.json, "examining the port", || probe(&spec, &EalOptions::default(), &options));
    match found {
        Ok(nic) => {
            let score = score::Score::of(&nic);
            let text = if args.json {
                format!("{}\n", report::json(&nic, &score))
            } else {
                report::text(&nic, &score)
            };
            print(&text);
            ExitCode::SUCCESS
        }
        Err(e) => {
            error(&e.to_string());
            error(
                "help: `valiant ports` lists the ports of this machine, `valiant doctor` says what is missing",
            );
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_told_from_an_end() {
        let ended = |how: &str| crash(Command::new("sh").args(["-c", how]).status().unwrap(), "eth0");
        assert_eq!((ended("exit 0"), ended("exit 1")), (None, None));
        let text = ended("kill -TERM $$").unwrap();
        assert!(text.contains("was ended") && text.contains("SIGTERM"), "{text}");
        let text = ended("kill -SEGV $$").unwrap();
        assert!(text.starts_with("eth0: its driver has crashed") && text.contains("SIGSEGV"), "{text}");
    }
}
