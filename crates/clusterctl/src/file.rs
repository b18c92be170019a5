//! The cluster file: the nodes, their external ports, the links between them, and the program of the whole
//! router. All errors are collected, with their places.

mod agree;
mod model;
mod raw;
mod read;
mod reader;
#[cfg(test)]
mod tests;

pub(crate) use model::{
    Cluster, EtcdSettings, Link, LinkKind, Node, Port, Route, Topology, Vxlan, broadcast,
};

use lang::{Diagnostics, NameDb, Source};
use launch::settings;
use reader::Reader;
use std::path::Path;

impl Cluster {
    /// Reads a cluster file.
    ///
    /// # Errors
    /// All errors of the file.
    pub(crate) fn load(path: &Path) -> Result<Self, Diagnostics> {
        let (source, dir) = settings::load(path, "conf/rb4.toml is an example of a cluster file")?;
        Self::parse(&source.name, &source.text, &dir)
    }

    /// What a text describes; the paths in it start at `dir`.
    ///
    /// # Errors
    /// All errors of the file.
    pub(crate) fn parse(name: &str, text: &str, dir: &Path) -> Result<Self, Diagnostics> {
        let mut reader = Reader { diags: Diagnostics::new(), dir, names: NameDb::new() };
        let help = "conf/rb4.toml is an example, doc/cluster.md has all keys";
        let cluster = settings::read(text, help, &mut reader.diags).map(|raw| reader.cluster(raw));
        let mut diags = reader.diags;
        settings::finish(&mut diags, &Source::new(name, text));
        match cluster {
            Some(cluster) if !diags.has_errors() => Ok(Self { warnings: diags, ..cluster }),
            _ => Err(diags),
        }
    }
}
