//! What generator and sink do without the device.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What generator and sink do alone, at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alone {
    /// Packets a second, for each port.
    pub(crate) rate: u64,
    /// The median latency, in nanoseconds; none: nothing has come.
    pub(crate) latency_p50_ns: Option<f64>,
    /// The part that was lost.
    pub(crate) loss: f64,
    /// This median is more than one with the device at this rate, of which it cannot be taken off.
    #[serde(default)]
    pub(crate) exceeds_device: bool,
}

/// In words; nothing without any.
pub(crate) fn text(all: &[Alone]) -> Option<String> {
    let at = |which: fn(&Alone) -> bool| {
        let rates: BTreeSet<u64> = all.iter().filter(|alone| which(alone)).map(|alone| alone.rate).collect();
        let rates: Vec<String> = rates.iter().map(u64::to_string).collect();
        (!rates.is_empty()).then(|| format!("at {} packets a second", rates.join(", ")))
    };
    let silent = at(|alone| alone.latency_p50_ns.is_none());
    let longer = at(|alone| alone.exceeds_device);
    let of = all.iter().filter_map(|alone| alone.latency_p50_ns);
    let (least, most) = of.fold((f64::INFINITY, 0.0_f64), |(l, m), own| (l.min(own), m.max(own)));
    let mut parts = Vec::new();
    if least <= most {
        let us = |ns: f64| format!("{:.1}", ns / 1e3);
        let range = if us(least) == us(most) { us(least) } else { format!("{} to {}", us(least), us(most)) };
        let lost: Vec<String> = all
            .iter()
            .filter(|alone| alone.loss > 0.0 && alone.latency_p50_ns.is_some())
            .map(|alone| format!("{:.4} % at {} packets a second", alone.loss * 100.0, alone.rate))
            .collect();
        let lost = if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") };
        let from = if silent.is_none() && longer.is_none() { "all latencies" } else { "other latencies" };
        parts.push(format!(
            "generator and sink without the device take {range} us (medians at the same rates), which is taken off {from}, and lose {lost}"
        ));
    }
    parts.extend(
        silent.map(|at| format!("nothing has a latency without the device {at}: nothing is taken off there")),
    );
    parts.extend(longer.map(|at| {
        format!("without the device it is more than with it {at}, and no latency is known there: are these ports of the same kind?")
    }));
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_is_said_and_what_is_lost_too() {
        let of = |rate, p50, loss| Alone { rate, latency_p50_ns: p50, loss, exceeds_device: false };
        assert_eq!(text(&[]), None);
        let one = text(&[of(100, Some(4_000.0), 0.0)]).unwrap();
        assert!(one.contains("take 4.0 us") && one.ends_with("off all latencies, and lose nothing"), "{one}");
        let two = text(&[of(100, Some(4_000.0), 0.0), of(200, Some(5_500.0), 0.01)]).unwrap();
        assert!(
            two.contains("take 4.0 to 5.5 us") && two.ends_with("lose 1.0000 % at 200 packets a second"),
            "{two}"
        );
    }

    #[test]
    fn rates_of_which_nothing_is_taken_off_are_named() {
        let of = |rate, p50, exceeds_device| Alone { rate, latency_p50_ns: p50, loss: 0.0, exceeds_device };
        let none = text(&[of(1, None, false), of(2, None, false)]).unwrap();
        assert!(none.starts_with("nothing has a latency without the device at 1, 2 packets"), "{none}");
        let all =
            [of(1, Some(4e3), false), of(2, None, false), of(3, Some(9e3), true), of(3, Some(9e3), true)];
        let all = text(&all).unwrap();
        for part in [
            "taken off other latencies",
            "at 2 packets a second: nothing",
            "than with it at 3 packets",
            "same kind?",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
