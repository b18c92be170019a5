//! `valiant element`, `valiant elements`, `valiant man`: the manuals.

use clap::Args;
use launch::logging::error;
use launch::output::print;
use runtime::{Class, Registry};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct ElementArgs {
    /// The element class.
    pub(crate) name: String,
}

#[derive(Args)]
pub(crate) struct ElementsArgs {
    /// Only classes whose name or summary contains this.
    pub(crate) filter: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints an element's manual.
pub(crate) fn element(registry: &Registry, args: &ElementArgs) -> ExitCode {
    let Some(class) = registry.get(&args.name) else {
        error(&format!("unknown element class '{}'", args.name));
        if let Some(near) = lang::nearest(&args.name, registry.iter().map(|c| c.name)) {
            error(&format!("help: did you mean '{near}'?"));
        }
        return ExitCode::FAILURE;
    };
    let sharing = match class.sharing {
        runtime::Sharing::PerWorker => "per worker",
        runtime::Sharing::Shared => "shared",
        runtime::Sharing::Single => "one instance",
    };
    print(&format!(
        "{}\n## Runtime\nports {}, processing {}, flow {}, sharing: {sharing}\n",
        class.manual().trim_end(),
        class.ports,
        class.processing,
        class.flow
    ));
    ExitCode::SUCCESS
}

/// Lists the element classes.
pub(crate) fn elements(registry: &Registry, args: &ElementsArgs) -> ExitCode {
    let filter = args.filter.as_deref().unwrap_or("").to_lowercase();
    let chosen: Vec<&Class> = registry
        .iter()
        .filter(|c| c.name.to_lowercase().contains(&filter) || c.summary().to_lowercase().contains(&filter))
        .collect();
    if args.json {
        let list: Vec<_> = chosen
            .iter()
            .map(|c| {
                json!({"name": c.name, "summary": c.summary(), "ports": c.ports, "processing": c.processing,
                    "handlers": c.handlers.iter().map(|h| h.name).collect::<Vec<_>>()})
            })
            .collect();
        print(&format!("{}\n", serde_json::Value::from(list)));
        return ExitCode::SUCCESS;
    }
    let width = chosen.iter().map(|c| c.name.len()).max().unwrap_or(0);
    print(&chosen.iter().fold(String::new(), |t, c| t + &format!("{:width$}  {}\n", c.name, c.summary())));
    ExitCode::SUCCESS
}

/// Prints valiant(1), or writes it with the subcommands' and elements' pages into a directory.
pub(crate) fn man_pages(registry: &Registry, command: clap::Command, dir: Option<&Path>) -> ExitCode {
    let written = match dir {
        None => {
            let mut page = Vec::new();
            let made = clap_mangen::Man::new(command).render(&mut page);
            print(&String::from_utf8_lossy(&page));
            made
        }
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command, dir))
            .and_then(|()| {
                registry.iter().try_for_each(|c| std::fs::write(dir.join(format!("{}.n", c.name)), roff(c)))
            }),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            error(&format!("cannot write the man pages: {e}"));
            ExitCode::FAILURE
        }
    }
}

/// An element's manual in man(7)'s language.
fn roff(class: &Class) -> String {
    let mut text = format!(".TH {} n\n.SH NAME\n{} \\- {}\n", class.name, class.name, class.summary());
    let mut code = false;
    for line in class.manual().lines().skip(1) {
        let plain = line.replace('\\', "\\e").replace('`', "").replace("**", "");
        if line.starts_with("```") {
            code = !code;
            text += if code { ".nf\n" } else { ".fi\n" };
        } else if let Some(title) = plain.strip_prefix("## ") {
            text += &format!(".SH {}\n", title.to_uppercase());
        } else if let Some(item) = plain.strip_prefix("- ").filter(|_| !code) {
            text += &format!(".IP \\(bu 2\n{item}\n");
        } else if plain.is_empty() {
            text += ".PP\n";
        } else {
            text += if plain.starts_with(['.', '\'']) { "\\&" } else { "" };
            text += &plain;
            text.push('\n');
        }
    }
    text
}
