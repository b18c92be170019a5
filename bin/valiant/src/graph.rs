//! `valiant graph`: the element graph as a drawing.

use crate::source::{self, FileArgs};
use clap::Args;
use lang::Config;
use launch::logging::error;
use launch::output::print;
use launch::report;
use runtime::Registry;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// Draw SVG (needs Graphviz's `dot`).
    #[arg(long)]
    pub(crate) svg: bool,
}

/// Prints DOT, or has Graphviz make SVG of it.
pub(crate) fn graph(registry: &Arc<Registry>, args: &GraphArgs) -> ExitCode {
    let wanted = match source::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let config = match lang::load(&[wanted.source], &wanted.options, &**registry) {
        Ok(config) => config,
        Err(diags) => {
            report(&diags);
            return ExitCode::FAILURE;
        }
    };
    let text = dot(&config);
    if !args.svg {
        print(&text);
        return ExitCode::SUCCESS;
    }
    match svg(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            error(&message);
            ExitCode::FAILURE
        }
    }
}

/// The graph in Graphviz's DOT language; elements of a compound element share a box.
fn dot(config: &Config) -> String {
    let mut text = String::from(
        "digraph router {\n  rankdir=TB;\n  node [shape=record, fontname=\"sans-serif\", fontsize=10];\n",
    );
    let escape = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"");
    let field = |s: &str| {
        escape(s).chars().fold(String::new(), |mut t, c| {
            if "{}|<> ".contains(c) {
                t.push('\\');
            }
            t.push(c);
            t
        })
    };
    let ports = |element: usize, outputs: bool| -> usize {
        let used = config.connections.iter().map(|c| if outputs { c.from } else { c.to });
        used.filter(|p| p.element == element).map(|p| p.port + 1).max().unwrap_or(0)
    };
    let cells = |n: usize, tag: &str| (0..n).map(|p| format!("<{tag}{p}> {p}")).collect::<Vec<_>>().join("|");
    for (i, e) in config.elements.iter().enumerate() {
        let mut rows = Vec::new();
        let (ins, outs) = (ports(i, false), ports(i, true));
        if ins > 1 {
            rows.push(format!("{{{}}}", cells(ins, "i")));
        }
        rows.push(format!("<m> {}\\n{}", field(&e.name), field(&e.class)));
        if outs > 1 {
            rows.push(format!("{{{}}}", cells(outs, "o")));
        }
        let _ = writeln!(
            text,
            "  n{i} [label=\"{{{}}}\", tooltip=\"{}\"];",
            rows.join("|"),
            escape(&e.config).replace('\n', " ")
        );
    }
    for c in &config.connections {
        let side = |element: usize, port: usize, outputs: bool| {
            if ports(element, outputs) > 1 {
                format!("n{element}:{}{port}", if outputs { 'o' } else { 'i' })
            } else {
                format!("n{element}:m")
            }
        };
        let _ = writeln!(
            text,
            "  {} -> {};",
            side(c.from.element, c.from.port, true),
            side(c.to.element, c.to.port, false)
        );
    }
    text + "}\n"
}

fn svg(text: &str) -> Result<(), String> {
    let missing =
        |e: std::io::Error| format!("cannot run Graphviz's dot: {e}\nhelp: apt-get install graphviz");
    let mut child = Command::new("dot").arg("-Tsvg").stdin(Stdio::piped()).spawn().map_err(missing)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes()).map_err(missing)?;
    }
    match child.wait().map_err(missing)?.success() {
        true => Ok(()),
        false => Err("dot failed".into()),
    }
}
