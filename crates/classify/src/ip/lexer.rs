//! Cuts a pattern into words.

use std::ops::Range;

/// A word and its position in the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) span: Range<usize>,
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-./@_:".contains(&byte)
}

/// The words of a pattern. Operators stand alone; a colon is part of a word unless spaces surround it.
pub(crate) fn words(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if is_space(byte) {
            at += 1;
            continue;
        }
        let second = bytes.get(at + 1).copied();
        let length = match byte {
            b'&' | b'|' if second == Some(byte) => 2,
            b'<' | b'>' | b'!' | b'=' if second == Some(b'=') => 2,
            _ if is_word(byte) => bytes[at..].iter().take_while(|&&byte| is_word(byte)).count(),
            _ => text[at..].chars().next().map_or(1, char::len_utf8),
        };
        words.push(Token { text: &text[at..at + length], span: at..at + length });
        at += length;
    }
    words
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_and_operators() {
        let words = |text| super::words(text).into_iter().map(|word| word.text).collect::<Vec<_>>();
        assert_eq!(words("src port!=80&&(tcp)"), ["src", "port", "!=", "80", "&&", "(", "tcp", ")"]);
        assert_eq!(words("transp[0:2] & 0xff >= 3"), ["transp", "[", "0:2", "]", "&", "0xff", ">=", "3"]);
        assert_eq!(words(" a ? b : c\t"), ["a", "?", "b", ":", "c"]);
        assert_eq!(words("é é"), ["é", "é"]);
        assert_eq!(words(""), [""; 0]);
    }
}
