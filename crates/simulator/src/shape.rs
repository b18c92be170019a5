//! Which servers each line connects: [`cluster::topology`] with a number for each line.
//!
//! A mesh has a line from each node to each other node. A fly has k lines from each server to the next stage;
//! the server chooses the line of a packet by the packet's target, phase and flow, with the code that the
//! elements run ([`NextLinks`]).

use crate::config::Config;
use crate::error::SimError;
use crate::fabric::{Pace, Packet, Path};
use cluster::topology::{NextLinks, Reach, Topology};
use cluster::{Failures, NodeId, Phase};

pub(crate) struct Shape {
    pub(crate) topology: Topology,
    /// External nodes, and links of a server.
    n: u32,
    links: u32,
    outputs_at: u32,
    link: Pace,
    rate: Pace,
    /// The planned load of a link.
    link_bps: f64,
    /// In a fly: the lines of each server.
    next_links: Vec<NextLinks>,
    /// The column that the first link of each server is connected to.
    first: Vec<u32>,
}

/// The next place of a packet.
pub(crate) enum End {
    Output(u32),
    Link(u32),
    Nowhere,
}

impl Shape {
    pub(crate) fn new(config: &Config) -> Result<Self, SimError> {
        let (topology, links, bps) = match config.k {
            None => (Topology::mesh(config.ports)?, config.ports, config.mesh_link_bps()),
            Some(k) => (
                Topology::fly(config.ports, k)?,
                k,
                config.link_bps.unwrap_or(2 * config.rate_bps / u64::from(k)),
            ),
        };
        let mut this = Self {
            topology,
            n: config.ports.into(),
            links: links.into(),
            outputs_at: u32::from(topology.nodes()) * u32::from(links),
            link: Pace::new(bps),
            rate: Pace::new(config.rate_bps),
            link_bps: bps as f64,
            next_links: Vec::new(),
            first: Vec::new(),
        };
        if !topology.is_mesh() {
            let column = |node| topology.next(node).next().map_or(0, |to| topology.place(to).1.into());
            this.first = (0..topology.nodes()).map(|node| column(NodeId(node))).collect();
            this.apply(&Failures::none(topology.nodes())?)?;
        }
        Ok(this)
    }
    /// Sets what is dead from now on. Returns the information for the balancers.
    pub(crate) fn apply(&mut self, failures: &Failures) -> Result<Failures, SimError> {
        let between = self.topology.between(failures)?;
        if !self.is_mesh() {
            let (topology, reach) = (self.topology, Reach::new(&self.topology, failures)?);
            let next_links = (0..topology.nodes()).map(NodeId).map(|me| {
                NextLinks::new(&topology, me, |link, to| {
                    let on = link == to || !topology.is_external(link) && reach.leads(link, to);
                    on && failures.link_up(me, link)
                })
            });
            self.next_links = next_links.collect::<Result<_, _>>()?;
        }
        Ok(between)
    }
    pub(crate) const fn is_mesh(&self) -> bool {
        self.topology.is_mesh()
    }
    /// Links, and output lines after them.
    pub(crate) const fn lines(&self) -> usize {
        (self.outputs_at + self.n) as usize
    }
    #[inline]
    pub(crate) const fn is_output(&self, line: u32) -> bool {
        line >= self.outputs_at
    }
    /// Servers, those with ports first.
    pub(crate) fn nodes(&self) -> usize {
        self.topology.nodes().into()
    }
    #[inline]
    pub(crate) const fn pace(&self, line: u32) -> Pace {
        if self.is_output(line) { self.rate } else { self.link }
    }
    /// The line from one server to another server that it is connected to.
    #[inline]
    pub(crate) fn line(&self, from: u16, to: u16) -> u32 {
        let (from, to) = (u32::from(from), u32::from(to));
        let at = match self.first.get(from as usize) {
            None => to,
            Some(first) => (to % self.n + self.n - first) % self.n,
        };
        from * self.links + at
    }
    /// Chooses the line that a packet takes from its present server, and moves the packet to the far end of
    /// that line.
    #[inline]
    pub(crate) fn next(&self, p: &mut Packet) -> End {
        if p.at == p.dst {
            return End::Output(self.outputs_at + u32::from(p.dst));
        }
        let first = p.path == Path::Via && !p.half;
        p.half |= first && p.at == p.via;
        let (target, phase) = match p.path {
            Path::Via if !p.half => (p.via, Phase::First),
            Path::Via => (p.dst, Phase::Second),
            _ => (p.dst, Phase::Direct),
        };
        let to = if self.is_mesh() {
            target
        } else {
            let (next_links, target) = (self.next_links.get(usize::from(p.at)), NodeId(target));
            let to = next_links.and_then(|next_links| match phase {
                Phase::Second if p.at == p.via => next_links.at(target, p.hash),
                _ if p.at == p.src => next_links.at(target, p.first),
                _ => next_links.toward(target, phase, p.hash),
            });
            match to {
                Some(to) => to.0,
                None => return End::Nowhere,
            }
        };
        let line = self.line(p.at, to);
        p.at = to;
        End::Link(line)
    }
    /// The links in use, and the planned load of each.
    pub(crate) fn links(&self) -> (Vec<u32>, f64) {
        let lines = (0..self.outputs_at).filter(|line| !self.is_mesh() || line / self.n != line % self.n);
        (lines.collect(), self.link_bps)
    }
    /// The first output line.
    pub(crate) const fn first_output(&self) -> u32 {
        self.outputs_at
    }
    /// In words.
    pub(crate) fn text(&self) -> String {
        self.topology.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::matrix::{Matrix, Named};

    #[test]
    fn every_line_has_its_number_and_packets_arrive() {
        for (ports, k) in [(4, None), (4, Some(2)), (9, Some(3)), (10, Some(4)), (7, Some(2))] {
            let matrix = Matrix::named(Named::Uniform, ports, 0).unwrap();
            let shape = Shape::new(&Config { k, ..Config::new(ports, 1_000_000_000, matrix, 0.5) }).unwrap();
            let mut lines: Vec<u32> = Vec::new();
            for from in (0..shape.topology.nodes()).map(NodeId) {
                lines.extend(shape.topology.next(from).map(|to| shape.line(from.0, to.0)));
            }
            lines.sort_unstable();
            assert_eq!(lines, shape.links().0, "{ports} {k:?}");
            for (src, dst, via) in
                (0..ports).flat_map(|s| (0..ports).map(move |d| (s, d, (s + d + 1) % ports)))
            {
                let mut p = Packet::new(0, 0, 0, src, dst, 100);
                p.path = if via == src || via == dst { Path::Direct } else { Path::Via };
                (p.via, p.hash) = (via, src * 77 + dst);
                let mut hops = 0;
                let over = std::iter::from_fn(|| match shape.next(&mut p) {
                    End::Link(_) => {
                        hops += 1;
                        Some(p.at)
                    }
                    End::Output(line) => {
                        assert_eq!(line, shape.first_output() + u32::from(dst));
                        None
                    }
                    End::Nowhere => panic!("{ports} {k:?}: lost from {src} to {dst}"),
                });
                let over: Vec<u16> = over.take(50).collect();
                let (direct_length, via_length) = shape.topology.path_lengths();
                let wanted = if src == dst {
                    1
                } else if p.path == Path::Direct {
                    direct_length
                } else {
                    via_length
                };
                assert_eq!(over.len() as u16 + 1, wanted, "{ports} {k:?} {src} {dst} {via}: {over:?}");
                assert!(p.path == Path::Direct || src == dst || over.contains(&via));
            }
        }
    }
}
