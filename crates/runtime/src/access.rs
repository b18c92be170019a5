//! Access to a router's control socket over TCP, for those who know a token.

use std::fmt;
use std::net::TcpListener;

/// The longest token, in bytes: a client that has not sent the token may send only little.
const LONGEST_TOKEN: usize = 4096;

/// A secret that clients of a control socket have to send.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// The most that a file with a token may have, in bytes.
    pub const LONGEST_FILE: usize = 2 * LONGEST_TOKEN;

    /// The token in a text; blanks around it are no part of it.
    ///
    /// # Errors
    /// It is not one word, or too long.
    pub fn new(text: &str) -> Result<Self, String> {
        let token = text.trim();
        if token.is_empty() || token.contains(char::is_whitespace) {
            return Err("a token is one word".to_owned());
        }
        if token.len() > LONGEST_TOKEN {
            return Err(format!("a token has at most {LONGEST_TOKEN} bytes"));
        }
        Ok(Self(token.to_owned()))
    }

    /// The token in a file.
    ///
    /// # Errors
    /// It is not text, not one word, or too long.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        // Of a line that is no text, a session knows only where it is none: many would be equal.
        Self::new(std::str::from_utf8(bytes).map_err(|_| "a token is text (UTF-8)".to_owned())?)
    }

    /// Whether a client has sent it. The comparison takes the same time for any text of the same length.
    #[must_use]
    pub fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let differ = own.iter().zip(shown).fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b)));
        differ == 0 && own.len() == shown.len()
    }

    /// The word itself.
    #[must_use]
    pub fn word(&self) -> &str {
        &self.0
    }

    /// What is said of a file with a token that others than its owner can read.
    #[must_use]
    pub fn readable_by_others(path: impl fmt::Display) -> String {
        format!("others than its owner can read {path}: chmod 600 {path}")
    }
}

/// A socket that listens, and what its clients have to send.
#[derive(Debug)]
pub struct Access {
    /// The socket.
    pub listener: TcpListener,
    /// The token.
    pub token: Token,
}

/// Gives a control socket this access beside its own, in place of a former one; see [`Hub::on_access`].
/// Returns whether the control socket is still there.
///
/// [`Hub::on_access`]: crate::Hub::on_access
pub type Admit = Box<dyn Fn(Option<Access>) -> bool + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_as_a_whole() {
        let token = Token::new(" secret\n").unwrap();
        assert!(token.is("secret"));
        for wrong in ["", "s", "secre", "secret1", "Secret", "secres", "ssecret"] {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_one_word_and_is_not_shown() {
        for (text, reason) in [("", "one word"), (" \n", "one word"), ("a b", "one word")] {
            assert!(Token::new(text).unwrap_err().contains(reason), "{text}");
        }
        assert_eq!(Token::from_bytes("pässword\n".as_bytes()), Token::new("pässword"));
        assert!(Token::from_bytes(b"\xff\xfe\xfd").unwrap_err().contains("a token is text"));
        assert!(Token::new(&"a".repeat(4096)).is_ok());
        assert!(Token::new(&"a".repeat(4097)).unwrap_err().contains("at most 4096 bytes"));
        assert!(!format!("{:?}", Token::new("secret")).contains("secret"));
    }
}
