//! Which line leads where.
//!
//! A mesh has a line from each node to each. A fly has stages of servers: an input's own server is stage 0, and the last stage's
//! lines lead back to the servers with ports. Rows are counted in digits of mixed radix, no radix above k, whose product is the
//! number of ports: k^n = N gives digits to base k. The lines from stage to stage set one digit each; the last n set the digits
//! of the output in turn. Before them, in one pass, the input's own lines set the first digit at random; in two passes n sets of
//! lines set all digits at random, so that a packet may be at any of N servers when it begins to be routed.

use super::fabric::{Pace, Packet};
use super::{Config, Pass, SimError, Topology, bad};

pub(super) enum Shape {
    Mesh { n: u32, link: Pace, rate: Pace },
    Fly(Fly),
}

pub(super) struct Fly {
    n: u32,
    /// The values of the digits, and what each counts.
    radix: Vec<u32>,
    worth: Vec<u32>,
    /// Sets of lines that are drawn, and all.
    drawn: usize,
    hops: usize,
    widest: u32,
    paces: Vec<Pace>,
    rate: Pace,
}

/// Where a packet goes next.
pub(super) enum End {
    Output(u32),
    Link(u32),
}

/// `n` factors of `ports`, none above `k`, as even as can be.
fn factors(ports: u32, k: u32, n: u32) -> Option<Vec<u32>> {
    if n == 0 {
        return (ports == 1).then(Vec::new);
    }
    // The largest is tried from the even share upwards, so that no stage has wider servers than it must.
    let even = f64::from(ports).powf(1.0 / f64::from(n)).ceil() as u32;
    let try_one = |radix: u32| {
        let mut rest = factors(ports / radix, radix, n - 1)?;
        rest.insert(0, radix);
        Some(rest)
    };
    (even.max(2)..=k).filter(|r| ports.is_multiple_of(*r)).find_map(try_one)
}

impl Shape {
    pub(super) fn new(config: &Config) -> Result<Self, SimError> {
        let n = u32::from(config.ports);
        let rate = Pace::new(config.rate_bps);
        let Topology::Fly { k, pass } = config.topology else {
            return Ok(Self::Mesh { n, link: Pace::new(config.mesh_link_bps()), rate });
        };
        if k < 2 {
            return bad(format!("a {k}-ary fly: a server needs 2 links or more towards the next stage"));
        }
        let mut stages = 1;
        let mut reached = u32::from(k);
        while reached < n {
            reached = reached.saturating_mul(k.into());
            stages += 1;
        }
        let Some(radix) = factors(n, k.into(), stages) else {
            return bad(format!(
                "{n} ports are no product of {stages} numbers up to k = {k}, which a butterfly of {stages} stage(s) needs: {reached} \
                 ports would do"
            ));
        };
        let worth = radix.iter().scan(1, |worth, r| {
            let this = *worth;
            *worth *= r;
            Some(this)
        });
        let worth = worth.collect();
        let drawn = if pass == Pass::One { 1 } else { stages as usize };
        let hops = drawn + stages as usize;
        let links = |hop: usize| u64::from(radix[if hop < drawn { hop } else { hop - drawn }]);
        let paces = (0..hops).map(|hop| Pace::new(2 * config.rate_bps / links(hop))).collect();
        let widest = radix.iter().copied().max().unwrap_or(1);
        Ok(Self::Fly(Fly { n, radix, worth, drawn, hops, widest, paces, rate }))
    }
    pub(super) const fn is_mesh(&self) -> bool {
        matches!(self, Self::Mesh { .. })
    }
    /// Links, of which some may lead nowhere, and output lines after them.
    pub(super) fn lines(&self) -> usize {
        let (n, links) = (self.ports(), self.outputs_at());
        links as usize + n as usize
    }
    fn ports(&self) -> u32 {
        match self {
            Self::Mesh { n, .. } => *n,
            Self::Fly(fly) => fly.n,
        }
    }
    #[inline]
    fn outputs_at(&self) -> u32 {
        match self {
            Self::Mesh { n, .. } => n * n,
            Self::Fly(fly) => fly.hops as u32 * fly.n * fly.widest,
        }
    }
    #[inline]
    pub(super) fn is_output(&self, line: u32) -> bool {
        line >= self.outputs_at()
    }
    /// Servers, those with ports first.
    pub(super) fn nodes(&self) -> usize {
        match self {
            Self::Mesh { n, .. } => *n as usize,
            Self::Fly(fly) => fly.n as usize * fly.hops,
        }
    }
    /// What a link is to bear: 2R/N, 2R/k.
    #[inline]
    pub(super) fn pace(&self, line: u32) -> Pace {
        match self {
            Self::Mesh { rate, link, .. } => {
                if self.is_output(line) {
                    *rate
                } else {
                    *link
                }
            }
            Self::Fly(fly) => *fly.paces.get((line / (fly.n * fly.widest)) as usize).unwrap_or(&fly.rate),
        }
    }
    /// The link of a mesh.
    pub(super) fn link(&self, from: u16, to: u16) -> u32 {
        u32::from(from) * self.ports() + u32::from(to)
    }
    /// The number of the server that a packet is at.
    #[inline]
    pub(super) fn node(&self, p: &Packet) -> usize {
        match self {
            Self::Mesh { .. } => p.at.into(),
            Self::Fly(fly) => (usize::from(p.hop) % fly.hops) * fly.n as usize + usize::from(p.at),
        }
    }
    /// Which line a packet takes from where it is, and moves it there.
    #[inline]
    pub(super) fn next(&self, p: &mut Packet) -> End {
        match self {
            Self::Mesh { n, .. } => {
                if p.at == p.dst {
                    return End::Output(n * n + u32::from(p.dst));
                }
                let to = if p.hop == 0 { p.via } else { p.dst };
                let line = self.link(p.at, to);
                p.at = to;
                p.hop += 1;
                End::Link(line)
            }
            Self::Fly(fly) => {
                let hop = usize::from(p.hop);
                if hop == fly.hops || (hop == 0 && p.src == p.dst) {
                    return End::Output(self.outputs_at() + u32::from(p.dst));
                }
                let (digit, target) = if hop < fly.drawn { (hop, p.via) } else { (hop - fly.drawn, p.dst) };
                let (radix, worth) = (fly.radix[digit], fly.worth[digit]);
                let value = u32::from(target) / worth % radix;
                let row = u32::from(p.at);
                let line = (hop as u32 * fly.n + row) * fly.widest + value;
                p.at = (row - row / worth % radix * worth + value * worth) as u16;
                p.hop += 1;
                End::Link(line)
            }
        }
    }
    /// Links that lead somewhere else, with what they bear in bits per second, given R.
    pub(super) fn links(&self, config: &Config) -> Vec<(u32, f64)> {
        match self {
            Self::Mesh { n, .. } => {
                let bps = config.mesh_link_bps() as f64;
                (0..n * n).filter(|line| line / n != line % n).map(|line| (line, bps)).collect()
            }
            Self::Fly(fly) => (0..self.outputs_at())
                .filter_map(|line| {
                    let hop = (line / (fly.n * fly.widest)) as usize;
                    let radix = fly.radix[if hop < fly.drawn { hop } else { hop - fly.drawn }];
                    let exists = line % fly.widest < radix;
                    exists.then(|| (line, 2.0 * config.rate_bps as f64 / f64::from(radix)))
                })
                .collect(),
        }
    }
    /// The first output line.
    pub(super) fn first_output(&self) -> u32 {
        self.outputs_at()
    }
    /// In words.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Mesh { n, .. } => format!("full mesh of {n} servers"),
            Self::Fly(fly) => {
                let digits: Vec<String> = fly.radix.iter().map(u32::to_string).collect();
                format!(
                    "butterfly of {} x {} servers, {} stages between inputs and outputs, links of {}",
                    fly.n,
                    fly.hops,
                    fly.hops - 1,
                    digits.join(" x ")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products() {
        assert_eq!(factors(1024, 32, 2), Some(vec![32, 32]));
        assert_eq!(factors(64, 32, 2), Some(vec![8, 8]));
        assert_eq!(factors(12, 4, 2), Some(vec![4, 3]));
        assert_eq!(factors(64, 4, 3), Some(vec![4, 4, 4]));
        assert_eq!(factors(17, 16, 2), None);
    }
}
