//! What generator and sink do without the device.

use serde::{Deserialize, Serialize};

/// What generator and sink do alone, at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alone {
    /// Packets a second, for each port.
    pub(crate) rate: u64,
    /// The median latency, in nanoseconds; none: nothing has come.
    pub(crate) latency_p50_ns: Option<f64>,
    /// The part that was lost.
    pub(crate) loss: f64,
}

/// In words; nothing without any.
pub(crate) fn text(all: &[Alone]) -> Option<String> {
    let of = all.iter().filter_map(|alone| alone.latency_p50_ns);
    let (least, most) = of.fold((f64::INFINITY, 0.0_f64), |(l, m), own| (l.min(own), m.max(own)));
    if all.is_empty() || least > most {
        return None;
    }
    let us = |ns: f64| format!("{:.1}", ns / 1e3);
    let range = if us(least) == us(most) { us(least) } else { format!("{} to {}", us(least), us(most)) };
    let lost: Vec<String> = all
        .iter()
        .filter(|alone| alone.loss > 0.0)
        .map(|alone| format!("{:.4} % at {} packets a second", alone.loss * 100.0, alone.rate))
        .collect();
    let lost = if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") };
    Some(format!(
        "generator and sink without the device take {range} us (medians at the same rates), which is taken off all latencies, and lose {lost}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_is_said_and_what_is_lost_too() {
        let of = |rate, p50, loss| Alone { rate, latency_p50_ns: p50, loss };
        assert_eq!((text(&[]), text(&[of(1, None, 1.0)])), (None, None));
        let one = text(&[of(100, Some(4_000.0), 0.0)]).unwrap();
        assert!(one.contains("take 4.0 us") && one.ends_with("lose nothing"), "{one}");
        let two = text(&[of(100, Some(4_000.0), 0.0), of(200, Some(5_500.0), 0.01)]).unwrap();
        assert!(
            two.contains("take 4.0 to 5.5 us") && two.ends_with("lose 1.0000 % at 200 packets a second"),
            "{two}"
        );
    }
}
