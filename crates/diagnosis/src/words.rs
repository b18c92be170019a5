//! Numbers for people.

pub(crate) use measure::rate::short;

/// A part of a whole, in percent.
pub(crate) fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    match percent {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.1 => "less than 0.1 %".to_owned(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Packets a second.
pub(crate) fn rate(packets: u64, seconds: f64) -> String {
    format!("{}packets/s", short(packets as f64 / seconds))
}

/// `1 packet`, `2 packets`.
pub(crate) fn packets(n: u64) -> String {
    if n == 1 { "1 packet".to_owned() } else { format!("{n} packets") }
}

/// Bytes in powers of 1024.
pub(crate) fn bytes(n: u64) -> String {
    if n >= 1 << 20 { format!("{} MB", n >> 20) } else { format!("{} KB", n.div_ceil(1 << 10)) }
}

/// `0`, `0 and 1`, `0, 1 and 2`.
pub(crate) fn listed(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_words() {
        assert_eq!(
            [percent(0.0), percent(0.0004), percent(0.031), percent(0.5)],
            ["0 %", "less than 0.1 %", "3.1 %", "50 %"]
        );
        assert_eq!([rate(10, 2.0), packets(1), packets(2)], ["5 packets/s", "1 packet", "2 packets"]);
        assert_eq!([bytes(100), bytes(64 << 20)], ["1 KB", "64 MB"]);
        assert_eq!([listed(&[]), listed(&[1]), listed(&[0, 1, 2])], ["", "1", "0, 1 and 2"]);
    }
}
