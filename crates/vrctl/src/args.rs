//! The command line of `valiant vr`.

use clap::{Args, Subcommand};
use launch::logging::LogArgs;
use std::path::PathBuf;

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
}

#[derive(Args)]
pub(crate) struct JsonFile {
    /// The host file.
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
