//! Servers over ports: the paper's Fig. 3.

use crate::plan::{PlanError, Topology, plan};
use crate::wanted::{CONFIGURATIONS, Configuration, FIGURE_RATE_BPS, Matrix, Switch, Wanted};

/// A point of a curve of Fig. 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// External ports.
    pub ports: u64,
    /// Servers, or their equivalent in price.
    pub servers: f64,
    /// How the servers are joined; absent for the switched cluster.
    pub topology: Option<Topology>,
}

/// A curve of Fig. 3.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The configuration's name, or `48-port switches`.
    pub name: String,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// The four curves of Fig. 3: servers over external ports of 10 Gbps, from 4 to 2048.
///
/// # Errors
///
/// A switch with no ports.
pub fn figure3(switch: &Switch) -> Result<Vec<Curve>, PlanError> {
    let ports = || (2..=11).map(|power| 1_u64 << power);
    let planned = |one: &Configuration, ports| {
        plan(&Wanted {
            ports,
            rate_bps: FIGURE_RATE_BPS,
            matrix: Matrix::Worst,
            server: one.server(),
            switch: switch.clone(),
        })
    };
    let mut curves = Vec::new();
    for one in &CONFIGURATIONS {
        let point = |n| {
            planned(one, n).map(|p| Point {
                ports: n,
                servers: p.servers() as f64,
                topology: Some(p.topology),
            })
        };
        curves
            .push(Curve { name: one.name.to_owned(), points: ports().map(point).collect::<Result<_, _>>()? });
    }
    let mut points = Vec::new();
    for n in ports() {
        // The servers of the switched cluster are today's.
        if let Some(other) = planned(&CONFIGURATIONS[0], n)?.switched {
            points.push(Point { ports: n, servers: other.server_equivalents, topology: None });
        }
    }
    curves.push(Curve { name: format!("{}-port switches", switch.ports), points });
    Ok(curves)
}
