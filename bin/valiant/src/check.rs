//! `valiant check` and `valiant flatten`.

use crate::predict::{PredictArgs, predict};
use crate::source::{self, FileArgs};
use clap::Args;
use launch::logging::error;
use launch::output::print;
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
    /// Show which elements have a fast path.
    #[arg(short = 'O', long, alias = "optimise")]
    pub(crate) optimize: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Predict how fast it will run on this machine: it runs for a moment, to see which packets come to which
    /// element; then each element is timed alone, and the times are added up.
    #[arg(long)]
    pub(crate) predict: bool,
    #[command(flatten)]
    pub(crate) how: PredictArgs,
}

#[derive(Args)]
pub(crate) struct FlattenArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// Add a comment that shows which elements have a fast path.
    #[arg(short = 'O', long, alias = "optimise")]
    pub(crate) optimize: bool,
    /// Add comments that say, for each connection, which annotations of its packets elements behind it may
    /// read.
    #[arg(long)]
    pub(crate) annotations: bool,
    /// Write to a file (`-`: standard output).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}

impl FlattenArgs {
    /// Prints the configuration, or writes it to the file.
    fn write(&self, text: &str) -> ExitCode {
        match self.output.as_deref().filter(|file| *file != "-") {
            None => print(text),
            Some(file) => {
                if let Err(e) = std::fs::write(file, text) {
                    error(&format!("{file}: {}", runtime::reason(&e)));
                    return ExitCode::FAILURE;
                }
            }
        }
        ExitCode::SUCCESS
    }
}

/// Checks a configuration: all errors, and which elements run on one worker only.
pub(crate) fn check(registry: &Arc<Registry>, args: &CheckArgs) -> ExitCode {
    let wanted = match source::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            if args.json {
                print(&format!("{}\n", json!({"ok": false, "error": message})));
            }
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    if !args.predict && args.how != PredictArgs::default() {
        error("error: --traffic, --scale, --cpu and --again are for --predict");
        return ExitCode::from(2);
    }
    if args.predict {
        return predict(registry, &wanted, &args.how, (false, args.json));
    }
    let options = Options {
        workers: args.threads.max(1),
        check_only: true,
        optimize: args.optimize,
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
            let fast = if args.optimize { fast_paths(&router, registry) } else { Vec::new() };
            if args.json {
                let serial: Vec<_> =
                    serial.iter().map(|(name, class)| json!({"name": name, "class": class})).collect();
                let warnings = router.warnings().to_json(router.warnings().sources());
                print(&format!(
                    "{}\n",
                    json!({"ok": true, "elements": router.elements().len(), "workers": args.threads.max(1),
                        "not_parallel": serial, "fast_paths": fast, "warnings": warnings})
                ));
            } else {
                report(&router.config().warnings);
                report(router.warnings());
                let mut text = format!("{}: {} elements, no errors\n", wanted.name, router.elements().len());
                for (name, class) in serial {
                    text += &format!(
                        "{name} :: {class} runs on one worker only: it has one instance, and all workers hand their packets over to it\n"
                    );
                }
                if !fast.is_empty() {
                    text += &format!("with a fast path: {}\n", fast.join(", "));
                }
                print(&text);
            }
            ExitCode::SUCCESS
        }
        Err(diags) => {
            if args.json {
                print(&format!("{}\n", json!({"ok": false, "diagnostics": diags.to_json(diags.sources())})));
            } else {
                report(&diags);
            }
            ExitCode::FAILURE
        }
    }
}

/// The names of the elements that packets pass on a fast path.
fn fast_paths<'a>(router: &'a Router, registry: &Registry) -> Vec<&'a str> {
    let has = |class: &str| registry.get(class).is_some_and(|class| class.step.is_some());
    router.elements().iter().filter(|e| has(e.class)).map(|e| e.name.as_str()).collect()
}

/// A comment for each connection: the annotations of its packets that elements downstream may read.
fn annotations(config: &lang::Config, registry: &Registry) -> String {
    let live = runtime::live_annotations(config, registry);
    let mut text = String::new();
    for (c, fields) in config.connections.iter().zip(live) {
        let name = |element: usize| config.elements.get(element).map_or("", |e| e.name.as_str());
        let output = if c.from.port == 0 { String::new() } else { format!(" [{}]", c.from.port) };
        let input = if c.to.port == 0 { String::new() } else { format!("[{}] ", c.to.port) };
        let (from, to) = (name(c.from.element), name(c.to.element));
        text += &format!("// read behind {from}{output} -> {input}{to}: {fields}\n");
    }
    text
}

/// Prints the flat configuration.
pub(crate) fn flatten(registry: &Arc<Registry>, args: &FlattenArgs) -> ExitCode {
    let wanted = match source::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    if args.optimize {
        let options = Options { check_only: true, optimize: true, ..Options::default() };
        return match waiting(false, "checking the configuration", || {
            Router::new(&[wanted.source], wanted.options, Arc::clone(registry), options)
        }) {
            Ok(router) => {
                report(&router.config().warnings);
                let mut text = router.config().unparse();
                let fast = fast_paths(&router, registry);
                if !fast.is_empty() {
                    text += &format!("// with a fast path: {}\n", fast.join(", "));
                }
                if args.annotations {
                    text += &annotations(router.config(), registry);
                }
                args.write(&text)
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
            let mut text = config.unparse();
            if args.annotations {
                text += &annotations(&config, registry);
            }
            args.write(&text)
        }
        Err(diags) => {
            report(&diags);
            ExitCode::FAILURE
        }
    }
}
