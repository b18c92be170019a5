//! What `valiant bench run` and an agent on the device's host say to each other: lines of JSON.
//!
//! The agent speaks first ([`Say::Hello`]). Then each request but [`Ask::Beat`] has one answer, and the next
//! request comes after it. Between them the agent says what the device says, and that it has ended. Whoever
//! hears something else ends: there is no way back into step.

use crate::cost::{Cost, Stats};
use crate::local::NotStarted;
use crate::start::Start;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::time::Duration;

/// The number of this form.
pub(crate) const FORM: u32 = 1;
/// A line is at most so long, in bytes; the counters of a router with many elements and workers are long.
const LONGEST: u64 = 64 << 20;
/// A file is sent in parts of so many bytes.
pub(crate) const PART: usize = 1 << 20;
/// So much of a wrong line is shown, in letters.
const SHOWN: usize = 120;
/// So much of a reason, which may have the path of a file.
const REASON: usize = 500;

/// How often the bench shows that it is there.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// From one beat to the next, an agent sends at most so many bytes of what the device says; with what is
/// still to be sent, it is no more than a pipe holds.
pub(crate) const MOST_SAID: usize = 32 << 10;

/// What the bench asks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Whether the agent is there.
    Beat,
    /// To keep a part of a file; the first one begins it.
    Part { name: PathBuf, first: bool, executable: bool, bytes: Bytes },
    /// To start the device, from these files.
    Start(Start),
    /// How long its threads have waited for a processor since they began.
    Waited,
    /// What its router has counted.
    Stats,
    /// To begin to measure its cost.
    Begin,
    /// What it has cost since.
    End,
}

/// What the agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Say {
    Hello(Box<Hello>),
    /// It is there.
    Beat,
    /// What was asked is done; of `Ask::Start`: the device is ready.
    Done,
    /// What was asked cannot be done.
    Cannot(String),
    NotStarted(NotStarted),
    Waited(Duration),
    Stats(Option<Stats>),
    Cost(Box<Cost>),
    /// What the device has said since.
    Log(String),
    /// How the device has ended. It has said all.
    Ended(String),
}

/// Who the agent is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) form: u32,
    /// Its version of Valiant.
    pub(crate) version: String,
    /// The machine that it runs on.
    pub(crate) machine: Value,
    /// What differs between machines, and from one start of a machine to the next.
    pub(crate) boot: String,
}

impl Hello {
    /// Reads the first line of an agent.
    ///
    /// # Errors
    /// It is of another version, or no agent at all.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        let value: Option<Value> = serde_json::from_slice(line).ok();
        let hello = value.as_ref().and_then(|value| value.get("hello"));
        let Some(hello) = hello else {
            return Err(format!(
                "what answers is no agent of Valiant's; it begins with '{}': a shell there must not print anything \
                 by itself",
                shown(line)
            ));
        };
        let version = readable(hello.get("version").and_then(Value::as_str).unwrap_or("unknown"));
        let form = hello.get("form").and_then(Value::as_u64);
        let own = env!("CARGO_PKG_VERSION");
        if version != own || form != Some(FORM.into()) {
            let forms = if version == own { " (another state of it)" } else { "" };
            return Err(format!(
                "the agent there is Valiant {version}{forms}, and this is Valiant {own}: both must be of the same version; \
                 `valiant` in [device] says which one is run there"
            ));
        }
        Self::deserialize(hello).map_err(|e| format!("the agent's first line is wrong: {e}"))
    }
}

/// Bytes as a text (base64, RFC 4648).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A reason that somebody else gives, for people: its beginning, without control characters.
pub(crate) fn readable(reason: &str) -> String {
    let letter = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    reason.trim_end().chars().take(REASON).map(letter).collect()
}

/// The beginning of a line, for people.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let short: String = text.trim_end().chars().take(SHOWN).collect();
    short.escape_debug().to_string()
}

/// A message as a line.
pub(crate) fn line(message: &impl Serialize) -> Result<String, String> {
    let mut text = serde_json::to_string(message).map_err(|e| e.to_string())?;
    if text.len() as u64 >= LONGEST {
        return Err(format!("a message of {} bytes is too long", text.len()));
    }
    text.push('\n');
    Ok(text)
}

/// The next line, with its end; none: there is no more.
///
/// # Errors
/// It is too long or cut, or cannot be read.
pub(crate) fn next(from: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    next_within(from, LONGEST)
}

fn next_within(from: &mut impl BufRead, longest: u64) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    from.take(longest).read_until(b'\n', &mut line).map_err(|e| launch::reason(&e))?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 == longest => {
            Err(format!("a line is longer than {longest} bytes: '{}'", shown(&line)))
        }
        Some(_) => Err(format!("the last line is cut: '{}'", shown(&line))),
    }
}

/// The meaning of a line.
pub(crate) fn meaning<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|e| format!("this is no message ({e}): '{}'", shown(line)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::What;

    #[test]
    fn messages_are_lines() {
        let start = Start {
            what: What::Program("a b/c.click".into()),
            variables: vec![("N".into(), "1\n2".into())],
            options: vec!["--threads=2".into()],
            cpus: None,
            processors: Some(2),
            ready: Duration::from_millis(1500),
        };
        let bytes = Bytes((0..=255).collect());
        let part = Ask::Part { name: "c".into(), first: true, executable: false, bytes };
        for ask in [Ask::Beat, part, Ask::Start(start), Ask::Waited, Ask::Stats, Ask::Begin, Ask::End] {
            let text = line(&ask).unwrap();
            assert_eq!(text.find('\n'), Some(text.len() - 1), "{text}");
            assert_eq!(meaning::<Ask>(text.as_bytes()).unwrap(), ask);
        }
    }

    #[test]
    fn a_line_has_a_bound_and_an_end() {
        let mut all: &[u8] = b"one\ntwo\nthree";
        assert_eq!(next_within(&mut all, 8).unwrap().unwrap(), b"one\n");
        assert_eq!(next_within(&mut all, 8).unwrap().unwrap(), b"two\n");
        assert_eq!(next_within(&mut all, 8).unwrap_err(), "the last line is cut: 'three'");
        assert_eq!(next_within(&mut all, 8).unwrap(), None);
        let mut endless = std::io::BufReader::new(std::io::repeat(b'x'));
        assert!(next_within(&mut endless, 8).unwrap_err().starts_with("a line is longer than 8 bytes"));
    }

    #[test]
    fn what_is_no_message_is_an_error_that_shows_it() {
        for wrong in
            [&b"\n"[..], b"{}\n", b"\"fly\"\n", b"{\"start\":{}}\n", b"\xff\xfe\x1b[2J\n", b"[[[[[[[["]
        {
            let error = meaning::<Ask>(wrong).unwrap_err();
            assert!(error.starts_with("this is no message") && !error.contains('\x1b'), "{error}");
        }
        let part = br#"{"part":{"name":"a","first":true,"executable":false,"bytes":"*"}}"#;
        assert!(meaning::<Ask>(part).is_err(), "this is not base64");
        // More nested than the parser allows.
        assert!(meaning::<Say>("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn agents_of_other_versions_are_refused() {
        let hello = |form: u32, version: &str| {
            let (machine, boot, version) = (Value::Null, "b".to_owned(), version.to_owned());
            line(&Say::Hello(Box::new(Hello { form, version, machine, boot }))).unwrap()
        };
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(Hello::read(hello(FORM, own).as_bytes()).unwrap().boot, "b");
        let error = Hello::read(hello(FORM, "9.8.7").as_bytes()).unwrap_err();
        assert!(error.contains("is Valiant 9.8.7") && error.contains(own), "{error}");
        let error = Hello::read(hello(FORM + 1, own).as_bytes()).unwrap_err();
        assert!(error.contains("another state of it"), "{error}");
        let error = Hello::read(b"{\"hello\":{\"shape\":7}}\n").unwrap_err();
        assert!(error.contains("is Valiant unknown"), "{error}");
        let error = Hello::read(hello(FORM, &format!("\u{1b}{}", "9".repeat(9999))).as_bytes()).unwrap_err();
        assert!(error.contains("is Valiant \\u{1b}99") && error.len() < 1000, "{error}");
        let error = Hello::read(b"Welcome to dut\n").unwrap_err();
        assert!(error.contains("no agent") && error.contains("'Welcome to dut'"), "{error}");
    }
}
