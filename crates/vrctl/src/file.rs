//! The host file: the physical ports, the virtual routers on them, the virtual links between these. All
//! errors are collected, with their places.

mod address;
mod agree;
mod control;
mod model;
mod raw;
mod read;
mod reader;
#[cfg(test)]
mod tests;

pub(crate) use model::usable;
pub use model::{
    Control, HostFile, HostPort, InterfaceId, Limits, Link, Owner, Scheme, Sharing, Tag, VirtualInterface,
    VirtualRouter,
};

use lang::{Diagnostics, Source};
use launch::{settings, shortest};
use reader::Reader;
use std::collections::BTreeSet;
use std::path::Path;

/// Where the keys are described.
const HELP: &str = "conf/virtual-routers.toml is an example, doc/virtual-routers.md has all keys";

impl HostFile {
    /// Whether its routers get their shares of the processors' time.
    #[must_use]
    pub fn fair(&self) -> bool {
        self.ports.iter().any(|port| port.sharing != Sharing::Software)
    }

    /// Reads a host file. The programs that it names must be files; what is in them is not looked at.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        let (host, diags) = Self::read(path);
        Self::good(host, diags)
    }

    /// What a text describes, without a look at any other file; the paths in it start at `dir`.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn parse(name: &str, text: &str, dir: &Path) -> Result<Self, Diagnostics> {
        let (host, diags) = Self::read_text(&Source::new(name, text), dir);
        Self::good(host, diags)
    }

    fn good(host: Option<Self>, diags: Diagnostics) -> Result<Self, Diagnostics> {
        match host {
            Some(host) if !diags.has_errors() => Ok(Self { warnings: diags, ..host }),
            _ => Err(diags),
        }
    }

    /// Reads a host file as far as it can be read, and all messages about it.
    pub(crate) fn read(path: &Path) -> (Option<Self>, Diagnostics) {
        let (source, dir) = match settings::load(path, HELP) {
            Ok(loaded) => loaded,
            Err(diags) => return (None, diags),
        };
        let (host, mut diags) = Self::read_text(&source, &dir);
        for router in host.iter().flat_map(|host| &host.routers) {
            let problem = match std::fs::metadata(&router.program) {
                Ok(found) if found.is_file() => continue,
                Ok(_) => "it is not a file".to_owned(),
                Err(e) => launch::reason(&e),
            };
            let message = format!("the program {}: {problem}", shortest(&router.program));
            let help = "paths start at the directory of the host file";
            diags.error_with_help(router.program_span, message, help);
        }
        settings::finish(&mut diags, &source);
        (host, diags)
    }

    fn read_text(source: &Source, dir: &Path) -> (Option<Self>, Diagnostics) {
        let stem = Path::new(&source.name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let mut reader = Reader {
            diags: Diagnostics::new(),
            dir,
            stem,
            excused: BTreeSet::new(),
            strays: false,
            core_spans: Vec::new(),
        };
        let host = settings::read(&source.text, HELP, &mut reader.diags).map(|raw| reader.host(raw));
        let mut diags = reader.diags;
        settings::finish(&mut diags, source);
        let host = host.map(|host| Self { sources: diags.sources().clone(), ..host });
        (host, diags)
    }
}
