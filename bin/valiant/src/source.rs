//! Which configuration a command is given, and reading it.

use clap::Args;
use lang::{LoadOptions, Source};
use launch::reason;
use std::io::Read;

/// Where the configuration comes from.
#[derive(Args, Default, Clone)]
pub(crate) struct FileArgs {
    /// Configuration file (`-`: standard input), and NAME=VALUE definitions for its variables.
    #[arg(value_name = "FILE | NAME=VALUE")]
    pub(crate) words: Vec<String>,
    /// Configuration file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// The configuration itself.
    #[arg(short, long, value_name = "EXPR")]
    pub(crate) expression: Option<String>,
    /// Directories to search for libraries that `require(library ...)` names.
    #[arg(short = 'C', long, value_name = "PATH", env = "CLICKPATH")]
    pub(crate) clickpath: Option<String>,
}

/// A configuration that the command line names.
pub(crate) struct Wanted {
    pub(crate) source: Source,
    pub(crate) options: LoadOptions,
    /// Its name in messages.
    pub(crate) name: String,
}

/// Whether a word of the command line defines a variable: `NAME=VALUE`.
fn definition(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let good = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    good.then(|| (name.to_owned(), value.to_owned()))
}

/// Whether the command line names more than one configuration.
pub(crate) fn is_twice(args: &FileArgs) -> bool {
    let words = args.words.iter().filter(|word| definition(word).is_none());
    words.count() + usize::from(args.file.is_some()) + usize::from(args.expression.is_some()) > 1
}

/// Takes away the words that define a variable again; returns a message for each.
pub(crate) fn drop_repeated(words: &mut Vec<String>) -> Vec<String> {
    let (mut known, mut repeated) = (Vec::new(), Vec::new());
    words.retain(|word| {
        let Some((name, _)) = definition(word) else { return true };
        let is_new = !known.contains(&name);
        if is_new {
            known.push(name);
        } else {
            repeated.push(multiply_defined(&name));
        }
        is_new
    });
    repeated
}

fn multiply_defined(name: &str) -> String {
    format!("parameter '{name}' multiply defined")
}

/// Reads the configuration.
///
/// # Errors
/// A message for the user: two configurations, a file that cannot be read.
pub(crate) fn load(args: &FileArgs) -> Result<Wanted, String> {
    let mut options = LoadOptions::default();
    let mut file = args.file.clone();
    for word in &args.words {
        if let Some(define) = definition(word) {
            if options.defines.iter().any(|(name, _)| *name == define.0) {
                return Err(multiply_defined(&define.0));
            }
            options.defines.push(define);
        } else {
            file = Some(word.clone());
        }
    }
    if is_twice(args) {
        return Err("router configuration specified twice".into());
    }
    let path = args.clickpath.clone().unwrap_or_default();
    options.library = Some(launch::library(path));
    if let Some(text) = &args.expression {
        return Ok(Wanted { source: Source::new("config", text.clone()), options, name: "<config>".into() });
    }
    let name = file.unwrap_or_else(|| "-".into());
    let (source, name) = if name == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|e| format!("<stdin>: {e}"))?;
        (Source::from_bytes("<stdin>", &bytes), "<stdin>".to_owned())
    } else {
        let bytes = std::fs::read(&name).map_err(|e| format!("{name}: {}", reason(&e)))?;
        (Source::from_bytes(name.as_str(), &bytes), name)
    };
    Ok(Wanted { source, options, name })
}
