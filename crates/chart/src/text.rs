//! Words in a drawing.

/// A letter of the size that is used is at most about so wide.
pub(crate) const LETTER: f64 = 7.0;

/// Text for XML and HTML, as content or in an attribute's quotes. Characters that XML cannot have are left
/// out.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => all += "&amp;",
            '<' => all += "&lt;",
            '>' => all += "&gt;",
            '"' => all += "&quot;",
            '\'' => all += "&#39;",
            '\t' | '\n' | '\r' => all.push(letter),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => {}
            letter => all.push(letter),
        }
    }
    all
}

/// About how wide a text is.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// A text that is at most so wide; what is left out is replaced by dots.
pub(crate) fn fitted(text: &str, most: f64) -> String {
    let letters = (most / LETTER).max(2.0) as usize;
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_for_content_and_attributes() {
        assert_eq!(escaped("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
        assert_eq!(escaped("a\u{0}b\u{1b}[31mc\nd\u{ffff}"), "ab[31mc\nd");
    }

    #[test]
    fn what_does_not_fit_ends_in_dots() {
        assert_eq!(fitted("abcdef", 6.0 * LETTER), "abcdef");
        assert_eq!(fitted("abcdef", 4.0 * LETTER), "abc…");
        assert_eq!(fitted("äöüß", 0.0), "ä…");
    }
}
