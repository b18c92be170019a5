//! What the tests of several modules use: cluster files and programs as text.

use super::file::Cluster;
use super::split::ClusterProgram;
use lang::Source;
use std::path::Path;

pub(super) const CONF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf");

/// A cluster file for nodes in a mesh with one port each, changed by `change`.
pub(super) fn file(nodes: u16, change: impl Fn(String) -> String) -> String {
    let mut text =
        String::from("name = \"t\"\nkey_file = \"t.key\"\nrate = \"1Gbps\"\nprogram = \"p.click\"\n");
    for id in 0..nodes {
        text += &format!(
            "[[node]]\nid = {id}\n[[node.port]]\ndevice = \"eth{id}\"\nnetwork = \"10.0.{}.1/24\"\nmac = \"02:00:00:00:00:{id:02x}\"\n",
            id + 1
        );
        for to in (0..nodes).filter(|to| *to != id) {
            text += &format!("[[node.link]]\nto = {to}\ndevice = \"n{id}l{to}\"\n");
        }
    }
    change(text)
}

/// Parses a cluster file. Returns the errors as text.
pub(super) fn parse(text: &str) -> Result<Cluster, String> {
    Cluster::parse("t.toml", text, Path::new("/conf")).map_err(|d| d.render(d.sources(), false))
}

/// The errors in a cluster file, as text.
pub(super) fn refused(text: &str) -> String {
    parse(text).map(drop).unwrap_err()
}

/// Loads a program for a cluster. Returns the errors as text.
pub(super) fn load(cluster: &Cluster, program: &str) -> Result<ClusterProgram, String> {
    let source = Source::new("p.click", program);
    ClusterProgram::load(cluster, &source, None, &elements::registry())
        .map_err(|d| d.render(d.sources(), false))
}

/// The configuration of a node.
pub(super) fn node(program: &ClusterProgram, cluster: &Cluster, id: u16) -> String {
    program
        .node(cluster, cluster.node(id).unwrap())
        .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())))
}

/// The line that declares an element.
pub(super) fn element<'a>(text: &'a str, name: &str) -> &'a str {
    let start = format!("{name} :: ");
    text.lines()
        .find_map(|l| l.strip_prefix(&start))
        .unwrap_or_else(|| panic!("no {name} in\n{text}"))
        .trim_end_matches(';')
}

/// Checks that the text is a configuration.
pub(super) fn reads(text: &str) {
    lang::load(&[Source::new("node", text)], &lang::LoadOptions::default(), &elements::registry())
        .unwrap_or_else(|d| panic!("{}\n{text}", d.render_plain(d.sources())));
}

/// The example router with this many ports.
pub(super) fn router(ports: usize) -> String {
    std::fs::read_to_string(format!("{CONF}/ip-router-{ports}.click")).unwrap()
}
