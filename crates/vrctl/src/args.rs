//! The command line of `valiant vr`.

use clap::{Args, Subcommand};
use launch::live::time;
use launch::logging::LogArgs;
use std::path::PathBuf;
use std::time::Duration;

/// Examples, for the end of the help.
pub const EXAMPLES: &str = "\
A host file lists the physical ports, the processors and the virtual routers of a host; conf/virtual-routers.toml is an example, doc/virtual-routers.md has all keys. Each router runs a program of its own, an ordinary configuration, which does not need to know that its interfaces are virtual:

  [port.lan]
  device = \"eth0\"

  [router.blue]
  program = \"blue.click\"               # its device is $DEV0
  [[router.blue.interface]]
  name = \"DEV0\"
  port = \"lan\"
  vlan = 10

Example:
  valiant vr check conf/virtual-routers.toml     all errors at once, in the file and in all programs

Exit status: 0 done, 1 failed, 2 wrong usage.";

/// `valiant vr`.
#[derive(Args)]
pub struct VrArgs {
    #[command(subcommand)]
    pub(crate) command: VrCommand,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Subcommand)]
pub(crate) enum VrCommand {
    /// Check a host file and the programs of all its routers. Nothing is opened.
    #[command(after_help = "\
Each router's program is loaded with its variables and its interfaces, and each device that it names must be one of these. Then routers, interfaces, tags and addresses are printed.

Warnings also say what this machine lacks: processors, users and groups that the file names.

Examples:
  valiant vr check conf/virtual-routers.toml
  valiant vr check conf/virtual-routers.toml --json | jq '.routers[].interfaces[].mac'")]
    Check(JsonFile),
    /// Run a host: open its ports and run all its routers, until it is interrupted.
    #[command(after_help = "\
Routers whose program is wrong do not run; the others do. Each router has a control socket in the host's directory, DIRECTORY/ROUTER.sock, which belongs to the router's owner.

A router with the scheme `direct` runs in a process of its own, as its owner or as `nobody`, with its ports alone; one with the scheme `hybrid` too, to which packets pass by memif. If this process fails, it is started again after a pause.

Examples:
  valiant vr run conf/virtual-routers.toml
  valiant read --socket /run/valiant/edge/blue.sock list")]
    Run(RunHost),
    /// Start a host in the background, and wait until its routers run.
    #[command(after_help = "\
Errors of the file and of the programs are shown first, as by `valiant vr check`; nothing is started then. What the host logs is in DIRECTORY/host.log, and `valiant vr down` ends it.

Example:
  sudo valiant vr up conf/virtual-routers.toml && valiant vr top conf/virtual-routers.toml")]
    Up(UpHost),
    /// Show the routers of a running host again and again: rates, time used and due, losses, and why each
    /// does not get more.
    #[command(after_help = "\
The routers that use most time come first. Ctrl-C ends it. With --json, each time is an object on a line: what `valiant vr status --json` prints.

Examples:
  valiant vr top conf/virtual-routers.toml
  valiant vr top conf/virtual-routers.toml --count 1 --json | jq '.routers[] | {name, why}'")]
    Top(TopArgs),
    /// Show the routers and the ports of a running host: rates, time used and due, losses, processes.
    Status(JsonFile),
    /// Read and write the handlers of a router of a running host line by line, with history and completion.
    #[command(after_help = "\
It is `valiant console` at the router's own control socket: its owner may do the same without the host file. `help` lists what lines can say.

Examples:
  valiant vr console conf/virtual-routers.toml blue
  echo drops | valiant vr console conf/virtual-routers.toml blue")]
    Console(NamedRouter),
    /// Have a running host read its file again, and do the difference: routers are added and removed, changed
    /// programs are hot-swapped. All or nothing.
    Apply(JsonFile),
    /// Start a router of the host file at a running host.
    Add(NamedRouter),
    /// Stop a router of a running host.
    Remove(NamedRouter),
    /// End a running host.
    Down(HostFileArgs),
    /// The process of one router; a part of `run`.
    #[command(hide = true)]
    RunRouter,
    /// What cleans up if a host is killed; a part of `run`.
    #[command(hide = true)]
    CleanUp,
}

#[derive(Args)]
pub(crate) struct RunHost {
    /// The host file.
    pub(crate) file: PathBuf,
    /// The most memory for packet buffers, in MB.
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<usize>,
    /// Do not use hugepages.
    #[arg(long)]
    pub(crate) no_huge: bool,
    /// Further arguments for DPDK's EAL.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) eal: Option<String>,
}

impl RunHost {
    /// The same, without the file, as arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.memory.map(|memory| format!("--memory={memory}")));
        words.extend(self.eal.as_ref().map(|eal| format!("--eal={eal}")));
        words.extend(self.no_huge.then(|| "--no-huge".to_owned()));
        words
    }
}

#[derive(Args)]
pub(crate) struct UpHost {
    #[command(flatten)]
    pub(crate) run: RunHost,
    /// How long the host may take to start.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(crate) patience: Duration,
}

#[derive(Args)]
pub(crate) struct TopArgs {
    /// The host file.
    pub(crate) file: PathBuf,
    /// Interval over which rates are measured.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(crate) interval: Duration,
    /// How often it is shown [default: until Ctrl-C].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Print JSON, an object on each line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct NamedRouter {
    /// The host file.
    pub(crate) file: PathBuf,
    /// The router.
    pub(crate) router: String,
}

#[derive(Args)]
pub(crate) struct HostFileArgs {
    /// The host file.
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct JsonFile {
    /// The host file.
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
