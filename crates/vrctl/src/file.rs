//! The host file: the physical ports, the virtual routers on them, the virtual links between these. All
//! errors are collected, with their places.

mod address;
mod again;
mod agree;
mod allow;
mod control;
mod model;
mod raw;
mod read;
mod reader;
mod tcp;
#[cfg(test)]
mod tests;

pub(crate) use model::usable;
pub use model::{
    Control, HostFile, HostPort, InterfaceId, Limits, Link, Owner, Scheme, Sharing, Tag, Tcp, TunnelEnds,
    VirtualInterface, VirtualRouter,
};

use lang::{Diagnostics, Source};
use launch::{settings, shortest};
use reader::Reader;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How much of a file is looked at for its host, in bytes.
const BEGINNING: u64 = 8192;

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
        Self::read_known(path, None)
    }

    /// The same for a file that has been read before: what is in it as before is not interpreted again.
    pub(crate) fn read_again(&self, path: &Path) -> (Option<Self>, Diagnostics) {
        Self::read_known(path, Some(self))
    }

    fn read_known(path: &Path, before: Option<&Self>) -> (Option<Self>, Diagnostics) {
        let (source, dir) = match settings::load(path, raw::HELP) {
            Ok(loaded) => loaded,
            Err(diags) => return (None, diags),
        };
        let again = before.and_then(|before| again::read_again(&source, &dir, stem(path), before));
        let (host, mut diags) = match again {
            Some((host, mut diags)) => {
                settings::finish(&mut diags, &source);
                (Some(Self { sources: diags.sources().clone(), ..host }), diags)
            }
            None => Self::read_text(&source, &dir),
        };
        let mut programs: HashMap<&OsStr, Option<String>> = HashMap::new();
        for router in host.iter().flat_map(|host| &host.routers) {
            let Some(program) = &router.program else { continue };
            let look = || match std::fs::metadata(program) {
                Ok(found) if found.is_file() => None,
                Ok(_) => Some("it is not a file".to_owned()),
                Err(e) => Some(launch::reason(&e)),
            };
            let Some(problem) = programs.entry(program.as_os_str()).or_insert_with(look) else {
                continue;
            };
            let message = format!("the program {}: {problem}", shortest(program));
            let help = "paths start at the directory of the host file";
            diags.error_with_help(router.program_span, message, help);
        }
        if !diags.is_empty() {
            settings::finish(&mut diags, &source);
        }
        (host, diags)
    }

    /// The directory of a host's sockets, for who only asks a host that runs.
    ///
    /// # Errors
    /// All errors of the file, if it does not say without doubt what the directory is.
    pub(crate) fn directory_of(path: &Path) -> Result<PathBuf, Diagnostics> {
        let mut text = String::new();
        let begun = std::fs::File::open(path).and_then(|file| file.take(BEGINNING).read_to_string(&mut text));
        // A character may be cut in two: then all is read.
        if let Some(raw) = begun.ok().and_then(|_| again::host_alone(&text)) {
            let dir = settings::directory(path);
            let mut reader = Reader::new(&dir, stem(path));
            let (_, directory) = reader.host_place(&raw);
            if reader.diags.is_empty() {
                return Ok(directory);
            }
        }
        Self::load(path).map(|host| host.directory)
    }

    fn read_text(source: &Source, dir: &Path) -> (Option<Self>, Diagnostics) {
        let mut reader = Reader::new(dir, stem(Path::new(&source.name)));
        let raw = settings::read(&source.text, raw::HELP, &mut reader.diags);
        let host = raw.map(|raw| reader.host(raw, Vec::new()));
        let mut diags = reader.diags;
        settings::finish(&mut diags, source);
        let host = host.map(|mut host| {
            again::place_entries(&mut host, &source.text);
            Self { sources: diags.sources().clone(), ..host }
        });
        (host, diags)
    }
}

/// The name of a file without `.toml`.
fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}
