//! Times, parts and rates, as the reports write them.

use measure::rate::{Achieved, Rate, short};
use serde_json::{Value, json};

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A time, with the unit chosen by its size.
pub(super) fn span(ns: f64) -> String {
    match ns {
        n if n >= 1e9 => format!("{:.2} s", n / 1e9),
        n if n >= 1e6 => format!("{:.2} ms", n / 1e6),
        n if n >= 1e3 => format!("{:.2} us", n / 1e3),
        n => format!("{n:.0} ns"),
    }
}

/// A part of the whole in percent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// A rate in all three units.
pub(super) fn rate_words(rate: &Achieved) -> String {
    format!(
        "{}pps, {}bit/s, {}bit/s with Ethernet overhead",
        short(rate.pps()),
        short(rate.l2_bps()),
        short(rate.l1_bps())
    )
}

/// The requested rate, in its own unit.
pub(super) fn asked(rate: Rate) -> String {
    match rate {
        Rate::Unlimited => "as fast as possible".to_owned(),
        Rate::Packets(n) => format!("{}pps", short(n as f64)),
        Rate::Bits { per_s, overhead } => {
            format!("{}bit/s{}", short(per_s as f64), if overhead { " with Ethernet overhead" } else { "" })
        }
    }
}

/// A rate in all three units, as JSON.
pub(super) fn rate_json(rate: &Achieved) -> Value {
    json!({"pps": rate.pps(), "l2_gbps": rate.l2_bps() / 1e9, "l1_gbps": rate.l1_bps() / 1e9})
}
