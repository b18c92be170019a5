//! The cluster file: the nodes, their external ports, the links between them, and the program of the whole
//! router. All errors are collected, with their places.

mod agree;
mod model;
mod raw;
mod read;
mod reader;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use model::{
    Cluster, EtcdSettings, Link, LinkKind, Node, Port, Route, Topology, Vxlan, broadcast,
};

use lang::{Diagnostic, Diagnostics, NameDb, Source, SourceMap};
use reader::Reader;
use std::path::{Path, PathBuf};

impl Cluster {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// All errors of the file.
    pub(crate) fn load(path: &Path) -> Result<Self, Diagnostics> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|e| {
            let mut diags = Diagnostics::new();
            diags.push(
                Diagnostic::error(None, format!("{name}: {}", launch::reason(&e)))
                    .with_help("conf/rb4.toml is an example of a cluster file"),
            );
            diags
        })?;
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let dir = absolute.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        Self::parse(&name, &String::from_utf8_lossy(&bytes), &dir)
    }

    /// What a text describes; the paths in it start at `dir`.
    ///
    /// # Errors
    /// All errors of the file.
    pub(crate) fn parse(name: &str, text: &str, dir: &Path) -> Result<Self, Diagnostics> {
        let mut map = SourceMap::new();
        map.add(&Source::new(name, text));
        let mut reader = Reader { diags: Diagnostics::new(), dir, names: NameDb::new() };
        let cluster = text::read(text, &mut reader.diags).map(|raw| reader.cluster(raw));
        let mut diags = reader.diags;
        diags.sort();
        diags.set_sources(map);
        match cluster {
            Some(cluster) if !diags.has_errors() => Ok(Self { warnings: diags, ..cluster }),
            _ => Err(diags),
        }
    }
}
