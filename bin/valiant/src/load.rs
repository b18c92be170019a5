//! Finding and reading configurations.

use crate::cli::FileArgs;
use lang::{LoadOptions, Source};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A configuration as it was asked for.
pub(crate) struct Wanted {
    pub(crate) source: Source,
    pub(crate) options: LoadOptions,
    /// What messages call it.
    pub(crate) name: String,
}

/// Whether a word of the command line defines a variable: `NAME=VALUE`.
fn definition(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let good = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    good.then(|| (name.to_owned(), value.to_owned()))
}

/// Reads the configuration.
///
/// # Errors
/// A message for the user: two configurations, a file that cannot be read.
pub(crate) fn load(args: &FileArgs) -> Result<Wanted, String> {
    let mut options = LoadOptions::default();
    let mut file = args.file.clone();
    let mut given = usize::from(file.is_some()) + usize::from(args.expression.is_some());
    for word in &args.words {
        if let Some(define) = definition(word) {
            options.defines.push(define);
        } else {
            given += 1;
            file = Some(word.clone());
        }
    }
    if given > 1 {
        return Err("router configuration specified twice".into());
    }
    let path = args.clickpath.clone().unwrap_or_default();
    options.library = Some(library(path));
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

/// An I/O error without Rust's suffix, as C programs print it.
pub(crate) fn reason(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Looks a library up: beside the file that asks for it, then along the path.
pub(crate) fn library(path: String) -> lang::Library {
    std::sync::Arc::new(move |name: &str, from: &str| {
        let beside = Path::new(from).parent().map_or_else(|| PathBuf::from(name), |dir| dir.join(name));
        let along = path.split(':').filter(|p| !p.is_empty()).flat_map(|p| {
            let base = Path::new(p);
            [base.join(name), base.join("conf").join(name)]
        });
        let mut problem = String::new();
        for candidate in std::iter::once(beside).chain(along) {
            match std::fs::read(&candidate) {
                Ok(bytes) => return Ok(Source::from_bytes(candidate.display().to_string(), &bytes)),
                Err(e) if problem.is_empty() => problem = format!("{}: {}", candidate.display(), reason(&e)),
                Err(_) => {}
            }
        }
        Err(problem)
    })
}
