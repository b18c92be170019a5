//! `valiant bench`: what a machine allows.

use ::bench::{Host, Options};
use clap::{Args, Subcommand};
use launch::cpu_list;
use launch::logging::error;
use launch::output::print;
use launch::progress::Progress;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  valiant bench host                  processors, caches, memory and links of this machine, and what they allow
  valiant bench host --json >host.json
  valiant bench host --cpus 2,3       two processors alone";

const HOST_EXAMPLES: &str = "\
It takes about ten seconds and needs no rights. Other programs should rest meanwhile: what they use is missing.

How to read it: a router's program takes some lines of memory for each packet. Where they are in a cache, a line costs a few cycles; where they
come from memory one after another, some hundred. The last table is the most that memory alone lets through, without any program.
A NIC's line says what its PCI Express link can carry, whatever its port is called.

Examples:
  valiant bench host
  valiant bench host --memory 1024    lines among up to 1 GiB, where caches are larger than 64 MB";

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measure this machine: processors, caches, memory, system calls, links of NICs.
    #[command(after_help = HOST_EXAMPLES)]
    Host(HostArgs),
}

#[derive(Args)]
struct HostArgs {
    /// The processors to measure, such as 0-3,8 (all that this process may use).
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// The memory in which lines are read, in MiB (four times the last cache, at least 256).
    #[arg(long, value_name = "MIB")]
    memory: Option<usize>,
    /// Samples of each thing.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: u32,
    /// Milliseconds of each sample.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sample: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn bench(args: &BenchArgs) -> ExitCode {
    match &args.what {
        What::Host(args) => host(args),
    }
}

fn host(args: &HostArgs) -> ExitCode {
    let processors = match args.cpus.as_deref().map(cpu_list).transpose() {
        Ok(processors) => processors.unwrap_or_default(),
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let options = Options {
        processors,
        bytes: args.memory.map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
        samples: args.samples as usize,
        sample: Duration::from_millis(args.sample.into()),
    };
    let mut progress = Progress::new(false, "bench host ", false);
    let measured = Host::measure(&options, |step, done| progress.update(done, || step.to_owned()));
    drop(progress);
    match measured {
        Ok(host) if args.json => print(&format!("{:#}\n", host.json())),
        Ok(host) => print(&host.text()),
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
