//! `valiant check` and `valiant flatten`.

use crate::source::{self, FileArgs};
use clap::Args;
use launch::progress::waiting;
use launch::report;
use runtime::{Options, Registry, Router, Sharing};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// How many workers to check for.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Show which runs of elements are executed as one.
    #[arg(short = 'O', long)]
    pub(crate) optimise: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct FlattenArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// Add comments that say which runs of elements are executed as one.
    #[arg(short = 'O', long)]
    pub(crate) optimise: bool,
}

/// Checks a configuration: everything that is wrong, and what serialises.
pub(crate) fn check(registry: &Arc<Registry>, args: &CheckArgs) -> ExitCode {
    let wanted = match source::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            if args.json {
                println!("{}", json!({"ok": false, "error": message}));
            }
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let options = Options {
        workers: args.threads.max(1),
        check_only: true,
        optimise: args.optimise,
        ..Options::default()
    };
    match waiting(false, "checking the configuration", || {
        Router::new(&[wanted.source], wanted.options, Arc::clone(registry), options)
    }) {
        Ok(router) => {
            let serial: Vec<(&str, &str)> = router
                .elements()
                .iter()
                .filter(|e| e.sharing == Sharing::Single && e.n_inputs > 0)
                .map(|e| (e.name.as_str(), e.class))
                .collect();
            let chains = chains(&router);
            if args.json {
                let serial: Vec<_> =
                    serial.iter().map(|(name, class)| json!({"name": name, "class": class})).collect();
                let warnings = router.warnings().to_json(router.warnings().sources());
                println!(
                    "{}",
                    json!({"ok": true, "elements": router.elements().len(), "workers": args.threads.max(1),
                        "serialises": serial, "executed_as_one": chains, "warnings": warnings})
                );
            } else {
                report(&router.config().warnings);
                report(router.warnings());
                println!("{}: {} elements, no errors", wanted.name, router.elements().len());
                for (name, class) in serial {
                    println!(
                        "{name} :: {class} serialises: it has one instance, and all workers hand their packets to it"
                    );
                }
                for chain in chains {
                    println!("executed as one: {}", chain.join(" -> "));
                }
            }
            ExitCode::SUCCESS
        }
        Err(diags) => {
            if args.json {
                println!("{}", json!({"ok": false, "diagnostics": diags.to_json(diags.sources())}));
            } else {
                report(&diags);
            }
            ExitCode::FAILURE
        }
    }
}

/// The names of the elements of each chain that the optimiser found.
fn chains(router: &Router) -> Vec<Vec<&str>> {
    let name = |i: &u32| router.elements().get(*i as usize).map(|e| e.name.as_str());
    router.chains().iter().map(|chain| chain.iter().filter_map(name).collect()).collect()
}

/// Prints the flat configuration.
pub(crate) fn flatten(registry: &Arc<Registry>, args: &FlattenArgs) -> ExitCode {
    let wanted = match source::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    if args.optimise {
        let options = Options { check_only: true, optimise: true, ..Options::default() };
        return match waiting(false, "checking the configuration", || {
            Router::new(&[wanted.source], wanted.options, Arc::clone(registry), options)
        }) {
            Ok(router) => {
                report(&router.config().warnings);
                print!("{}", router.config().unparse());
                chains(&router)
                    .iter()
                    .for_each(|chain| println!("// executed as one: {}", chain.join(" -> ")));
                ExitCode::SUCCESS
            }
            Err(diags) => {
                report(&diags);
                ExitCode::FAILURE
            }
        };
    }
    match lang::load(&[wanted.source], &wanted.options, &**registry) {
        Ok(config) => {
            report(&config.warnings);
            print!("{}", config.unparse());
            ExitCode::SUCCESS
        }
        Err(diags) => {
            report(&diags);
            ExitCode::FAILURE
        }
    }
}
