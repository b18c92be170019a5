//! Click's `click`: its driver's command line.

use crate::cli;
use crate::run::{RunArgs, run};
use clap::{Args, FromArgMatches};
use launch::logging;
use runtime::Registry;
use std::process::ExitCode;
use std::sync::Arc;

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
        Err(e) => {
            let status = cli::answer(&e);
            // Click's driver exits with 1 when it is called wrongly.
            return if e.use_stderr() { ExitCode::FAILURE } else { status };
        }
    };
    match RunArgs::from_arg_matches(&matches) {
        Ok(mut args) => {
            args.burst = args.burst.or(Some(1));
            // Click does not limit its messages.
            let _logging = logging::start(&args.log, false);
            run(registry, &args, "click")
        }
        Err(e) => cli::answer(&e),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpdk_arguments_of_fastclick() {
        let args = |a: &str| a.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(without_dpdk(args("click --dpdk -m 64 -- a.click")), ["click", "--eal=-m 64", "a.click"]);
        assert_eq!(without_dpdk(args("click a.click")), ["click", "a.click"]);
    }
}
