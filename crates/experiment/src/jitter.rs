//! How latency differs from a frame to the next, in a trial.

use serde::{Deserialize, Serialize};

/// How latency differs from a frame to the next ([`measure::jitter`]), in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Jitter {
    /// Mean of the absolute values of IPDV (RFC 3393).
    pub ipdv_mean: f64,
    /// The median of them, and the 99.9th percentile.
    #[serde(default)]
    pub ipdv_p50: Option<f64>,
    /// See `ipdv_p50`.
    #[serde(default)]
    pub ipdv_p99_9: Option<f64>,
    /// The largest of them.
    pub ipdv_max: f64,
    /// The least IPDV with its sign, the median and the most (RFC 8219, section 7.3.2).
    #[serde(default)]
    pub dmin: Option<f64>,
    /// See `dmin`.
    #[serde(default)]
    pub dmed: Option<f64>,
    /// See `dmin`.
    #[serde(default)]
    pub dmax: Option<f64>,
    /// Interarrival jitter after the last frame (RFC 3550).
    pub rfc3550: f64,
}
