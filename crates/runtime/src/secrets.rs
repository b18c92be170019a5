//! A configuration with possible secrets removed, for files that are sent to others.
//!
//! Keys of IPsec associations should not be in a configuration, but a Script can write them to a handler;
//! tokens and passwords are arguments of elements.

/// As many hexadecimal digits as the shortest key has: 128 bits.
const KEY_DIGITS: usize = 32;
/// Keywords before a secret.
const KEYWORDS: [&str; 4] = ["KEY", "PASSWORD", "SECRET", "TOKEN"];
/// The text that replaces it.
const HIDDEN: &str = "(left out)";

/// The text with all long runs of hexadecimal digits, and what follows words such as `PASSWORD`, left out.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Whether a secret follows the previous word.
    let mut secret = false;
    while !rest.is_empty() {
        if secret && !rest.starts_with(char::is_whitespace) {
            let end = argument(rest);
            if end > 0 {
                out += HIDDEN;
            }
            rest = rest.get(end..).unwrap_or_default();
            secret = false;
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 {
            let mut others = rest.chars();
            out.extend(others.next());
            rest = others.as_str();
            continue;
        }
        let (word, behind) = rest.split_at(end);
        let digits = word.strip_prefix("0x").or(word.strip_prefix("0X")).unwrap_or(word);
        let key = digits.len() >= KEY_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
        out += if key { HIDDEN } else { word };
        secret = KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword));
        rest = behind;
    }
    out
}

/// The length of the rest of an argument: up to a comma, the end of the line, or a bracket that closes what
/// was opened before. A password may have all of these in it, in quotation marks or brackets of its own;
/// comments may come before it.
fn argument(text: &str) -> usize {
    let (mut mark, mut escaped, mut depth, mut any) = (None, false, 0, false);
    let mut next = 0;
    for (at, c) in text.char_indices() {
        if at < next {
            continue;
        }
        let comment = if mark.is_none() { comment(&text[at..]) } else { 0 };
        if comment > 0 {
            next = at + comment;
            continue;
        }
        match (mark, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(m), _) => mark = (m != c).then_some(m),
            (None, '"' | '\'') => mark = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth > 0 => depth -= 1,
            (None, ',' | ')' | ']' | '}') if depth == 0 => return at,
            (None, '\n') if depth == 0 && any => return at,
            _ => {}
        }
        any |= !c.is_whitespace();
    }
    text.len()
}

/// The length of a comment at the beginning.
fn comment(text: &str) -> usize {
    let end = |close: &str| text.find(close).map_or(text.len(), |at| at + close.len());
    match text.get(..2) {
        Some("//") => end("\n"),
        // The beginning must not count as the end too: `/*/` is open.
        Some("/*") => text.get(2..).and_then(|t| t.find("*/")).map_or(text.len(), |at| at + 4),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_passwords_are_left_out() {
        let key = "000102030405060708090a0b0c0d0e0f";
        for (text, left) in [
            (
                format!("s :: Script(write sad.add out 4097 10.0.0.1 10.0.0.2 aes-gcm {key}10111213);"),
                "Script(write sad.add out 4097 10.0.0.1 10.0.0.2 aes-gcm (left out));",
            ),
            (format!("x(0x{key})"), "x((left out))"),
            (
                "c :: ControlSocket(TCP, 7777, TOKEN s3cr3t-!x, PROXY p)".to_owned(),
                "TOKEN (left out), PROXY p)",
            ),
            (
                "c :: ControlSocket(TCP, 7777, PASSWORD \"se, \\\"cret\", PROXY p)".to_owned(),
                "PASSWORD (left out), PROXY p)",
            ),
            ("c :: ControlSocket(TCP, 1, TOKEN s3cr3t;-!x)".to_owned(), "TOKEN (left out))"),
            (
                "c :: ControlSocket(TCP, 1, TOKEN s3cr3t(,)-!x, PROXY p)".to_owned(),
                "TOKEN (left out), PROXY p)",
            ),
            ("c :: ControlSocket(TCP, 1, TOKEN 'a, \\'\"b)\"s3cr3t)".to_owned(), "TOKEN (left out))"),
            ("c :: ControlSocket(TCP, 1, TOKEN /* a, b */ s3cr3t)".to_owned(), "TOKEN (left out))"),
            ("c :: ControlSocket(TCP, 1, TOKEN // a, b)\n s3cr3t)".to_owned(), "TOKEN (left out))"),
            (format!("Script(set k 0X{key})"), "Script(set k (left out))"),
            (
                "c :: Counter; q :: Queue(1000); c -> q -> Discard;".to_owned(),
                "c :: Counter; q :: Queue(1000); c -> q -> Discard;",
            ),
        ] {
            let shown = without_secrets(&text);
            assert!(shown.ends_with(left), "{shown}");
            assert!(
                !shown.contains(key)
                    && !shown.contains("s3cr3t")
                    && !shown.contains("-!x")
                    && !shown.contains("cret\""),
                "{shown}"
            );
        }
    }

    #[test]
    fn any_text_is_taken() {
        for text in [
            "",
            "PASSWORD",
            "PASSWORD ",
            "TOKEN \"",
            "KEY 'a",
            "KEY /",
            "KEY /*/",
            "KEY //é",
            "KEY (\\\"é",
            "é KEY é, TOKEN \"é",
            "0x",
        ] {
            let _ = without_secrets(text);
        }
        assert_eq!(without_secrets("KEY é, x"), "KEY (left out), x");
        assert_eq!(without_secrets("KEY, x"), "KEY, x");
    }

    #[test]
    fn keywords_are_known_in_small_letters() {
        assert_eq!(without_secrets("Script(set password hunter2xyz)"), "Script(set password (left out))");
        assert_eq!(without_secrets("Null(keyword x)"), "Null(keyword x)");
    }
}
