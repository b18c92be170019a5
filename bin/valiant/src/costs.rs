//! `valiant bench elements`: what elements cost.

use crate::predict::{AloneArgs, kept, options};
use clap::Args;
use launch::logging::error;
use launch::output::print;
use launch::progress::Progress;
use predict::ElementCost;
use runtime::Registry;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

/// Which elements are measured, and how.
#[derive(Args)]
pub(crate) struct ElementsArgs {
    /// Elements, as a configuration has them: `Strip(14)`.
    element: Vec<String>,
    /// What packets pass before they come to the elements.
    #[arg(long, value_name = "PATH")]
    before: Option<String>,
    #[command(flatten)]
    alone: AloneArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What packets may pass before they come to an element: as frames, or as IP packets with their annotations.
const BEFORE: [&str; 2] = ["", "Strip(14) -> CheckIPHeader -> GetIPAddress(16)"];

/// Measures elements.
pub(crate) fn elements(registry: &Arc<Registry>, args: &ElementsArgs) -> ExitCode {
    let fail = |message: &str| {
        error(&format!("error: {message}"));
        ExitCode::FAILURE
    };
    let options = match options(&args.alone) {
        Ok(options) => options,
        Err(message) => return fail(&message),
    };
    let all = if args.element.is_empty() { predict::usual(registry) } else { args.element.clone() };
    let before = args.before.as_deref().map_or(BEFORE.to_vec(), |path| vec![path]);
    let measure = match predict::Elements::new(registry, &options) {
        Ok(measure) => measure,
        Err(message) => return fail(&message),
    };
    let mut kept = kept(&args.alone, &options);
    let mut progress = Progress::new(false, "bench elements ", false);
    let mut found = Vec::new();
    for (n, element) in all.iter().enumerate() {
        progress.update(n as f64 / all.len() as f64, || element.clone());
        found.push((element, measure.cost(element, &before, &mut kept)));
    }
    drop(progress);
    if let Err(e) = kept.save() {
        error(&format!("the costs cannot be kept for the next time: {e}"));
    }
    let (batch, failed) = (options.batch_size, found.iter().any(|(_, cost)| cost.is_err()));
    print(&if args.json { format!("{:#}\n", as_json(&found, batch)) } else { as_table(&found, batch) });
    // Of those that nobody asked for, some need what is not there.
    if failed && !args.element.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// An element, and what it costs, or why that is not known.
type Found<'a> = (&'a String, Result<ElementCost, String>);

fn as_json(found: &[Found<'_>], batch: usize) -> Value {
    let one = |(element, cost): &Found<'_>| match cost {
        Ok(c) => json!({
            "element": element, "before": c.before, "batch_cycles": c.batch, "packet_cycles": c.packet,
            "byte_cycles": c.byte, "cold_cycles": c.cold, "small_packet_cycles": c.of_small(batch),
        }),
        Err(why) => json!({"element": element, "error": why}),
    };
    let elements: Vec<Value> = found.iter().map(one).collect();
    json!({"batch": batch, "tsc_hz": dpdk::cycles_per_second(), "elements": elements})
}

fn as_table(found: &[Found<'_>], batch: usize) -> String {
    let width = found.iter().map(|(element, _)| element.len()).fold(7, usize::max).min(60);
    let mut text = format!(
        "cycles; packets in batches of {batch}\n{:width$} {:>9} {:>9} {:>9} {:>9} {:>9}  of\n",
        "element", "60 bytes", "batch", "packet", "byte", "cold"
    );
    for (element, cost) in found {
        let _ = match cost {
            Ok(c) => writeln!(
                text,
                "{element:width$} {:>9.1} {:>9.0} {:>9.1} {:>9.3} {:>9.1}  {}",
                c.of_small(batch),
                c.batch,
                c.packet,
                c.byte,
                c.cold,
                packets(&c.before)
            ),
            Err(why) => {
                writeln!(text, "{element:width$} not measured: {}", why.lines().next().unwrap_or_default())
            }
        };
    }
    text
}

/// What packets are behind a path.
fn packets(path: &str) -> &str {
    match path {
        "" => "frames",
        path if path == BEFORE[1] => "IP packets",
        other => other,
    }
}
