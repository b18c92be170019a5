//! The traffic between nodes, and the fairness of oversubscribed outputs.

use super::interval::{Interval, short};
use super::view::View;
use crate::file::Node;
use measure::fairness::{jain, max_min};
use std::fmt::Write;

/// Packets a second from a node to another: directly, via an intermediate node; and as the intermediate node
/// of other packets.
pub(super) struct Flow {
    pub(super) direct: f64,
    pub(super) via: f64,
    pub(super) transit: f64,
    pub(super) direct_bps: f64,
    pub(super) via_bps: f64,
}

pub(super) fn flow(interval: &Interval<'_>, to: u16) -> Flow {
    let rate =
        |what: &str, unit: &str| interval.rate(|status| &status["matrix"]["to"][usize::from(to)][what][unit]);
    Flow {
        direct: rate("direct", "packets"),
        via: rate("via_intermediate", "packets"),
        transit: rate("transit", "packets"),
        direct_bps: 8.0 * rate("direct", "bytes"),
        via_bps: 8.0 * rate("via_intermediate", "bytes"),
    }
}

/// The offered load and the throughput of a node's external ports, in bits a second by input node.
pub(super) struct Output {
    pub(super) node: u16,
    pub(super) wanted_bps: Vec<f64>,
    pub(super) left_pps: Vec<f64>,
    pub(super) left_bps: Vec<f64>,
}

/// An output is oversubscribed if less than this part of the offered load leaves.
const CARRIED: f64 = 0.98;

impl Output {
    /// Of each node that answers.
    pub(super) fn all(view: &View<'_>) -> Vec<Self> {
        let intervals: Vec<Option<Interval<'_>>> =
            view.nodes.iter().map(|(_, answer)| answer.as_ref().ok().map(Interval::new)).collect();
        let output = |(node, interval): (&Node, &Interval<'_>)| {
            let left = |unit: &str| -> Vec<f64> {
                let of =
                    |id: u16| interval.rate(|status| &status["matrix"]["to"][usize::from(id)]["left"][unit]);
                view.nodes.iter().map(|(from, _)| of(from.id)).collect()
            };
            let left_bps: Vec<f64> = left("bytes").into_iter().map(|bytes| 8.0 * bytes).collect();
            let wanted = intervals.iter().zip(&left_bps).map(|(from, left)| {
                let flow = from.as_ref().map(|from| flow(from, node.id));
                // Packets that enter and leave at one node may not pass its switch.
                flow.map_or(0.0, |f| f.direct_bps + f.via_bps).max(*left)
            });
            Self { node: node.id, wanted_bps: wanted.collect(), left_pps: left("packets"), left_bps }
        };
        let both = view.nodes.iter().zip(&intervals);
        both.filter_map(|((node, _), interval)| Some((*node, interval.as_ref()?))).map(output).collect()
    }
    /// Jain's index of throughput over max-min fair share, by input node, if the output is oversubscribed: 1
    /// is fair.
    pub(super) fn jain(&self) -> Option<f64> {
        let sum = |all: &[f64]| all.iter().sum::<f64>();
        let room = sum(&self.left_bps);
        if room <= 0.0 || room >= CARRIED * sum(&self.wanted_bps) {
            return None;
        }
        let of_share: Vec<f64> = (max_min(&self.wanted_bps, room).iter().zip(&self.left_bps))
            .filter(|(share, _)| **share > 0.0)
            .map(|(share, left)| left / share)
            .collect();
        Some(jain(&of_share))
    }
}

/// The packets that left, by input and output node, with a line about oversubscribed outputs.
pub(super) fn outputs_text(view: &View<'_>, outer: u16) -> String {
    let outputs: Vec<Output> = Output::all(view).into_iter().filter(|o| o.node < outer).collect();
    if outputs.iter().all(|o| o.left_pps.iter().all(|pps| *pps == 0.0)) {
        return String::new();
    }
    let mut text =
        String::from("packets per second from input node (row) that left by output node (column)\n     ");
    for output in &outputs {
        let _ = write!(text, " {:>9}", output.node);
    }
    text.push('\n');
    for (i, (from, _)) in view.nodes.iter().enumerate().filter(|(_, (from, _))| from.id < outer) {
        let _ = write!(text, "{:>5}", from.id);
        for output in &outputs {
            let pps = output.left_pps.get(i).copied().unwrap_or(0.0);
            let cell = if pps == 0.0 { ".".to_owned() } else { short(pps) };
            let _ = write!(text, " {cell:>9}");
        }
        text.push('\n');
    }
    let jains: Vec<Option<f64>> = outputs.iter().map(Output::jain).collect();
    if jains.iter().any(Option::is_some) {
        text += " Jain";
        for jain in jains {
            let cell = jain.map_or_else(|| "-".to_owned(), |jain| format!("{jain:.4}"));
            let _ = write!(text, " {cell:>9}");
        }
        text += "  where more is wanted than leaves: 1 if each node has its fair share\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(wanted: &[f64], left: &[f64]) -> Output {
        Output { node: 0, wanted_bps: wanted.to_vec(), left_pps: left.to_vec(), left_bps: left.to_vec() }
    }

    #[test]
    fn the_index_is_about_outputs_that_are_short_of_room() {
        assert_eq!(output(&[5.0, 3.0], &[5.0, 3.0]).jain(), None);
        assert_eq!(output(&[0.0, 0.0], &[0.0, 0.0]).jain(), None);
        assert_eq!(output(&[1.0, 5.0, 9.0, 0.0], &[1.0, 4.0, 4.0, 0.0]).jain(), Some(1.0));
        // The same part of each offered load, as one common queue would give.
        let fifo = output(&[2.5, 6.0, 10.0], &[1.35, 3.24, 5.41]).jain().unwrap();
        assert!((fifo - 0.866).abs() < 0.002, "{fifo}");
    }
}
