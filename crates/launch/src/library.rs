//! Finding the libraries that configurations name.

use lang::Source;
use std::path::{Path, PathBuf};

/// Looks a library up: beside the file that asks for it, then along the path.
#[must_use]
pub fn library(path: String) -> lang::Library {
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
                // If it is nowhere, that is what is reported.
                Err(e) if problem.is_empty() && e.kind() != std::io::ErrorKind::NotFound => {
                    problem = format!("{}: {}", candidate.display(), crate::reason(&e))
                }
                Err(_) => {}
            }
        }
        Err(problem)
    })
}
