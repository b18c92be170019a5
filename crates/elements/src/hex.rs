//! Bytes from hexadecimal digits.

/// The byte for each pair of digits; `None` if a pair contains another character, or only one digit is left.
/// Nothing is copied, so that no copy of a key stays in memory.
pub(crate) fn pairs(mut digits: impl Iterator<Item = char>) -> impl Iterator<Item = Option<u8>> {
    std::iter::from_fn(move || {
        let high = digits.next()?;
        let low = digits.next();
        Some(low.and_then(|low| Some((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_digits_are_bytes_and_everything_else_is_not() {
        let read = |text: &str| pairs(text.chars()).collect::<Option<Vec<u8>>>();
        assert_eq!(read("00fFa5"), Some(vec![0, 0xff, 0xa5]));
        assert_eq!(read(""), Some(vec![]));
        for wrong in ["1", "123", "0g", "g0", " 1", "\u{661}1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
