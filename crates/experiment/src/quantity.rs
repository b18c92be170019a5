//! The results of an experiment of which something can be expected.

use crate::reading::{Reading, Row};
use crate::values::figure;
use measure::rate::short;

/// Which of the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Pps,
    Gbps,
    Latency,
    Latency99,
    Cycles,
    CyclesPerByte,
    Load,
    Imbalance,
    Instructions,
    LlcMisses,
    Efficiency,
    /// A figure of the command.
    Figure(String),
}

/// Their names in files.
pub(crate) const QUANTITIES: [(&str, Of); 11] = [
    ("pps", Of::Pps),
    ("gbps", Of::Gbps),
    ("latency", Of::Latency),
    ("latency-99", Of::Latency99),
    ("cycles", Of::Cycles),
    ("cycles/byte", Of::CyclesPerByte),
    ("load", Of::Load),
    ("imbalance", Of::Imbalance),
    ("instructions", Of::Instructions),
    ("llc-misses", Of::LlcMisses),
    ("efficiency", Of::Efficiency),
];

impl Of {
    pub(crate) fn value(&self, row: &Row, reading: &Reading) -> Option<f64> {
        match self {
            Self::Pps => row.pps.median,
            Self::Gbps => row.l1_gbps,
            Self::Latency => row.latency()[0],
            Self::Latency99 => row.latency()[1],
            Self::Cycles => row.cost().cycles_per_packet,
            Self::CyclesPerByte => reading.by_size(row).map(|line| line.cycles_per_byte),
            Self::Load => row.cost().load,
            // With all workers alike it is 0, and a ratio of that is none: what the busiest has over the
            // mean.
            Self::Imbalance => row.cost().imbalance.map(|more| 1.0 + more),
            Self::Instructions => row.cost().instructions_per_packet,
            Self::LlcMisses => row.cost().llc_misses_per_packet,
            Self::Efficiency => reading.efficiency(row),
            Self::Figure(name) => row.figures.get(name)?.median,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Pps => "the rate in packets",
            Self::Gbps => "the rate in bits (L1)",
            Self::Latency => "the median latency",
            Self::Latency99 => "the latency at 99 %",
            Self::Cycles => "cycles for each packet",
            Self::CyclesPerByte => "cycles for each byte",
            Self::Load => "the load without empty polls",
            Self::Imbalance => "the busiest worker over the mean",
            Self::Instructions => "instructions for each packet",
            Self::LlcMisses => "misses of the last cache for each packet",
            Self::Efficiency => "the scaling efficiency",
            Self::Figure(name) => name,
        }
    }

    pub(crate) fn text(&self, value: f64) -> String {
        match self {
            Self::Pps => short(value).trim_end().to_owned(),
            Self::Gbps => format!("{value:.3} Gb/s"),
            Self::Latency | Self::Latency99 => format!("{:.1} us", value / 1e3),
            Self::Cycles | Self::Instructions => format!("{value:.0}"),
            Self::Load => format!("{:.1} %", value * 100.0),
            Self::Imbalance | Self::Efficiency | Self::CyclesPerByte | Self::LlcMisses => {
                format!("{value:.3}")
            }
            Self::Figure(_) => figure(value),
        }
    }
}
