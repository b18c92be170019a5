//! An element's arguments: reading a configuration string in Click's types.
//!
//! [`Args`] works as Click's class of the same name. An argument is given by position or by keyword
//! (`LIMIT 10`); arguments by position come first. Each `read` call finds its argument and parses it:
//!
//! | here | Click | the argument is |
//! |---|---|---|
//! | [`Args::mp`] | `read_mp` | mandatory, by position or keyword |
//! | [`Args::p`] | `read_p` | optional, by position or keyword |
//! | [`Args::mk`] | `read_m` | mandatory, by keyword |
//! | [`Args::k`] | `read` | optional, by keyword |
//! | [`Args::all`] | `read_all` | every one with that keyword |
//! | [`Args::consume`] | `consume` | keywords read so far may stand in front of the others |
//! | [`Args::finish`] | `complete` | nothing may be left |
//!
//! ```
//! use lang::args::{Args, NameDb};
//! let names = NameDb::new();
//! let mut args = Args::new("eth0, 10, PROMISC true", None, &names);
//! assert_eq!(args.mp::<String>("DEVNAME").unwrap(), "eth0");
//! assert_eq!(args.p::<u32>("LIMIT").unwrap(), Some(10));
//! assert_eq!(args.k::<bool>("PROMISC").unwrap(), Some(true));
//! args.finish().unwrap();
//! ```
//!
//! A failed read is returned and remembered, so that the caller of a `configure` that stopped at the first
//! error can still report all of them ([`Args::take_errors`]).

mod addr;
mod fromarg;
mod info;
mod known;
mod named;
mod names;
mod number;
mod text;
mod units;
mod values;

pub use crate::quote::{Arg, split_args, split_words};
pub use addr::StrictIpPrefix;
pub use fromarg::{FromArg, parse};
pub use named::{Anno, AnnoOffset, IpPort, IpProto, TcpPort, UdpPort};
pub use names::{DeviceAddrs, NameDb};
pub use number::{Real2, Real10, parse_real2, parse_real10, parse_saturating, parse_signed, parse_unsigned};
pub use text::{Bytes, ElementName, Filename, HandlerName, Keyword, Raw, Word, one_of};
pub use units::{Bandwidth, Rate, Timestamp};
pub use values::{EtherAddr, Ip6Prefix, IpPrefix};

use crate::diag::{Diagnostic, nearest};
use crate::quote::is_space;
use crate::source::Span;
use fromarg::PARSE_ERROR;
use number::INVALID_NUMBER;

/// What is wrong with an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError {
    /// The message, beginning with the argument's name where there is one.
    pub message: String,
    /// The argument, if its place is known; else the configuration string.
    pub span: Option<Span>,
    /// Hints.
    pub help: Vec<String>,
    /// Whether the arguments are right, and what they name cannot be used.
    pub initializing: bool,
}

impl ArgError {
    /// An error without a place; the place of the configuration string is assumed.
    pub fn new(message: impl Into<String>) -> ArgError {
        ArgError { message: message.into(), span: None, help: Vec::new(), initializing: false }
    }

    /// An error about what right arguments name: a file that cannot be opened, an element that is not there.
    pub fn initializing(message: impl Into<String>) -> ArgError {
        ArgError { initializing: true, ..ArgError::new(message) }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, span: impl Into<Option<Span>>) -> ArgError {
        self.span = span.into();
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> ArgError {
        self.help.push(help.into());
        self
    }
}

impl std::fmt::Display for ArgError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ArgError {}

impl From<ArgError> for Diagnostic {
    fn from(e: ArgError) -> Diagnostic {
        let mut d = Diagnostic::error(e.span, e.message);
        d.help = e.help;
        d
    }
}

impl From<String> for ArgError {
    fn from(message: String) -> ArgError {
        ArgError::new(message)
    }
}

impl From<&str> for ArgError {
    fn from(message: &str) -> ArgError {
        ArgError::new(message)
    }
}

/// Whether, and how, an argument was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not read. The number is the length of what may be a keyword in front; 0 if there is none.
    Free(usize),
    /// Read by position.
    Position,
    /// Read by keyword.
    Keyword,
}

#[derive(Clone, Copy)]
struct Flags {
    mandatory: bool,
    positional: bool,
    first: bool,
}

/// Reads the arguments of a configuration string.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    args: Vec<Arg>,
    states: Vec<State>,
    span: Option<Span>,
    names: &'a NameDb,
    asked: Vec<String>,
    /// The place of the argument that was read last.
    last: Option<Span>,
    errors: Vec<ArgError>,
    /// Whether an argument was missing or could not be read.
    misread: bool,
    /// See [`Args::forgive`].
    forgiving: bool,
}

/// Stands for the value of an argument that cannot be read, while the others are looked at: texts of which
/// one suits any type.
const STAND_INS: [&str; 7] = ["1", "a", "1.0.0.1", "1.0.0.0/8", "0:0:0:0:0:1", "true", "::1"];

/// The text to parse, and its place.
struct Found {
    text: String,
    span: Option<Span>,
}

impl<'a> Args<'a> {
    /// The arguments of a configuration string. `span` is its place in the source; if that has another length
    /// than the string, as after a substitution, errors point to all of it.
    pub fn new(config: &str, span: Option<Span>, names: &'a NameDb) -> Args<'a> {
        Args::from_list(split_args(config), config.len(), span, names)
    }

    /// The words of an argument, read as if they were arguments.
    pub fn words(text: &str, span: Option<Span>, names: &'a NameDb) -> Args<'a> {
        Args::from_list(split_words(text), text.len(), span, names)
    }

    fn from_list(mut args: Vec<Arg>, len: usize, span: Option<Span>, names: &'a NameDb) -> Args<'a> {
        let exact = span.filter(|s| s.len() == len);
        for a in &mut args {
            a.span = exact.map(|s| s.part(a.range.start, a.range.end)).or(span);
        }
        let states = args.iter().map(|a| State::Free(keyword_len(&a.text))).collect();
        Args {
            args,
            states,
            span,
            names,
            asked: Vec::new(),
            last: None,
            errors: Vec::new(),
            misread: false,
            forgiving: false,
        }
    }

    /// The database that names are looked up in.
    pub fn names(&self) -> &NameDb {
        self.names
    }

    /// The place of the whole configuration string.
    pub fn span(&self) -> Option<Span> {
        self.span
    }

    /// All arguments, read or not.
    pub fn list(&self) -> &[Arg] {
        &self.args
    }

    /// Number of arguments, read or not.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Reads a mandatory argument given by position or keyword.
    ///
    /// # Errors
    /// `NAME: required argument missing`, or what is wrong with its value.
    pub fn mp<T: FromArg>(&mut self, name: &str) -> Result<T, ArgError> {
        self.mandatory(name, true)
    }

    /// Reads an optional argument given by position or keyword.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn p<T: FromArg>(&mut self, name: &str) -> Result<Option<T>, ArgError> {
        self.optional(name, true)
    }

    /// [`Args::p`] with a default.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn p_or<T: FromArg>(&mut self, name: &str, default: T) -> Result<T, ArgError> {
        Ok(self.p(name)?.unwrap_or(default))
    }

    /// Reads a mandatory argument given by keyword.
    ///
    /// # Errors
    /// `NAME: required argument missing`, or what is wrong with its value.
    pub fn mk<T: FromArg>(&mut self, name: &str) -> Result<T, ArgError> {
        self.mandatory(name, false)
    }

    /// Reads an optional argument given by keyword.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn k<T: FromArg>(&mut self, name: &str) -> Result<Option<T>, ArgError> {
        self.optional(name, false)
    }

    /// [`Args::k`] with a default.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn k_or<T: FromArg>(&mut self, name: &str, default: T) -> Result<T, ArgError> {
        Ok(self.k(name)?.unwrap_or(default))
    }

    /// Reads an argument with a function of the caller, for values that depend on more than their text. The
    /// flags are those of `mp` (`mandatory`, `positional`), `p`, `mk` and `k`.
    ///
    /// # Errors
    /// `NAME: required argument missing`, or what the function says.
    pub fn with<T>(
        &mut self,
        name: &str,
        mandatory: bool,
        positional: bool,
        mut parse: impl FnMut(&str, &NameDb) -> Result<T, String>,
    ) -> Result<Option<T>, ArgError> {
        let names = self.names;
        let read = match self.find(name, Flags { mandatory, positional, first: false }) {
            Ok(None) => return Ok(None),
            Ok(Some(found)) => {
                let result = parse(&found.text, names);
                self.check(name, &found, "", result).map(Some)
            }
            Err(e) => Err(e),
        };
        read.or_else(|e| self.excuse(e, mandatory, |text| parse(text, names).ok()))
    }

    /// Reads every argument with this keyword, in order.
    ///
    /// # Errors
    /// What is wrong with the first bad value.
    pub fn all<T: FromArg>(&mut self, name: &str) -> Result<Vec<T>, ArgError> {
        let mut out = Vec::new();
        while let Some(found) = self.find(name, Flags { mandatory: false, positional: false, first: true })? {
            let value = T::from_arg(&found.text, self.names);
            out.push(self.check(name, &found, T::EXPECTS, value)?);
        }
        Ok(out)
    }

    /// Takes all arguments that have not been read, whatever they are.
    pub fn rest(&mut self) -> Vec<String> {
        self.rest_args().into_iter().map(|a| a.text).collect()
    }

    /// [`Args::rest`] with the places.
    pub fn rest_args(&mut self) -> Vec<Arg> {
        let mut out = Vec::new();
        for (arg, state) in self.args.iter().zip(&mut self.states) {
            if matches!(state, State::Free(_)) {
                *state = State::Position;
                out.push(arg.clone());
            }
        }
        out
    }

    /// Removes what has been read (Click's `consume`): the others have the positions that they would have
    /// without it. So keywords that are read first may stand in front of arguments by position.
    pub fn consume(&mut self) {
        for state in self.states.iter_mut().filter(|state| **state == State::Keyword) {
            *state = State::Position;
        }
    }

    /// The arguments that have not been read.
    pub fn left(&self) -> Vec<Arg> {
        let all = self.args.iter().zip(&self.states);
        all.filter(|(_, state)| matches!(state, State::Free(_))).map(|(arg, _)| arg.clone()).collect()
    }

    /// Accepts all arguments that have not been read, whatever they are.
    pub fn ignore_rest(&mut self) {
        self.states.fill(State::Position);
    }

    /// Resets to the state in which nothing has been read and there are no errors. This is cheaper than new
    /// `Args` for another replica, because a routing table may have a quarter of a million arguments.
    pub fn rewind(&mut self) {
        for (arg, state) in self.args.iter().zip(&mut self.states) {
            *state = State::Free(keyword_len(&arg.text));
        }
        self.asked.clear();
        self.errors.clear();
        self.misread = false;
    }

    /// [`Args::rewind`], after a failure; returns whether it was because of arguments that are missing or
    /// cannot be read. The next pass goes on after such arguments, with an arbitrary value where one is
    /// needed, so that the errors in all of them are found. Nothing else that it says counts.
    pub fn forgive(&mut self) -> bool {
        let misread = self.misread;
        self.rewind();
        self.forgiving = true;
        misread
    }

    /// An error at an argument of [`Args::list`], remembered like those of failed reads.
    pub fn error_at(&mut self, arg: &Arg, message: impl Into<String>) -> ArgError {
        self.remember(ArgError::new(message).at(arg.span.or(self.span)))
    }

    /// An error about the arguments as a whole, remembered like those of failed reads.
    pub fn error(&mut self, message: impl Into<String>) -> ArgError {
        let span = self.span;
        self.remember(ArgError::new(message).at(span))
    }

    /// An error at the argument that was read last, remembered like those of failed reads.
    pub fn error_here(&mut self, message: impl Into<String>, help: impl Into<String>) -> ArgError {
        let mut error = ArgError::new(message).at(self.last.or(self.span));
        error.help.push(help.into());
        self.remember(error)
    }

    /// Checks that every argument has been read and every read has succeeded.
    ///
    /// # Errors
    /// The first error of all. The others are in [`Args::errors`].
    pub fn finish(&mut self) -> Result<(), ArgError> {
        let mut extra = None;
        for i in 0..self.args.len() {
            match self.states[i] {
                State::Free(0) => extra = extra.or(Some(i)),
                State::Free(n) => {
                    let arg = &self.args[i];
                    self.last = arg.span;
                    let key = arg.text[..n].to_string();
                    let span = arg.span.map(|s| if s.len() == arg.text.len() { s.part(0, n) } else { s });
                    let mut e = ArgError::new(format!("{key}: unknown argument")).at(span);
                    match nearest(&key, &self.asked) {
                        Some(near) => e.help.push(format!("argument '{near}' has a similar name")),
                        None if !self.asked.is_empty() => {
                            e.help.push(format!("known arguments are {}", self.asked.join(", ")));
                        }
                        None => {}
                    }
                    self.misread(e);
                }
                _ => {}
            }
            self.states[i] = match self.states[i] {
                State::Free(_) => State::Position,
                s => s,
            };
        }
        if let Some(i) = extra {
            let span = self.args[i].span;
            self.misread(ArgError::new("too many arguments").at(span));
        }
        match self.errors.first() {
            Some(e) => Err(e.clone()),
            None => Ok(()),
        }
    }

    /// Errors so far.
    pub fn errors(&self) -> &[ArgError] {
        &self.errors
    }

    /// Takes the errors so far.
    pub fn take_errors(&mut self) -> Vec<ArgError> {
        std::mem::take(&mut self.errors)
    }

    /// Adds an error that the element found itself, so that it is reported with the others.
    pub fn remember(&mut self, e: ArgError) -> ArgError {
        // It may be about a value that stands for another.
        if !self.forgiving && !self.errors.contains(&e) {
            self.errors.push(e.clone());
        }
        e
    }

    fn misread(&mut self, e: ArgError) -> ArgError {
        self.misread = true;
        if !self.errors.contains(&e) {
            self.errors.push(e.clone());
        }
        e
    }

    fn check<T>(
        &mut self,
        name: &str,
        found: &Found,
        expects: &str,
        result: Result<T, String>,
    ) -> Result<T, ArgError> {
        result.map_err(|message| {
            let message = if message.is_empty() { PARSE_ERROR.to_string() } else { message };
            // What follows Click's words is a hint.
            let hint = message.find(", did you mean").or_else(|| message.find(", expected one of"));
            let (message, hint) = message.split_at(hint.unwrap_or(message.len()));
            let mut e = ArgError::new(format!("{name}: {message}")).at(found.span);
            e.help.extend((!hint.is_empty()).then(|| hint[2..].to_owned()));
            if [PARSE_ERROR, INVALID_NUMBER].contains(&message) && hint.is_empty() && !expects.is_empty() {
                e.help.push(format!("expected {expects}"));
            }
            self.misread(e)
        })
    }

    fn mandatory<T: FromArg>(&mut self, name: &str, positional: bool) -> Result<T, ArgError> {
        let flags = Flags { mandatory: true, positional, first: false };
        let read = match self.find(name, flags) {
            Ok(Some(found)) => {
                let value = T::from_arg(&found.text, self.names);
                self.check(name, &found, T::EXPECTS, value)
            }
            Ok(None) => Err(self.missing(name)),
            Err(e) => Err(e),
        };
        let names = self.names;
        let excused = |e| self.excuse(e, true, |text| T::from_arg(text, names).ok());
        read.or_else(|e| excused(e.clone())?.ok_or(e))
    }

    /// What the next pass goes on with after an error: nothing, or a value that stands for the right one.
    fn excuse<T>(
        &self,
        e: ArgError,
        mandatory: bool,
        parse: impl FnMut(&str) -> Option<T>,
    ) -> Result<Option<T>, ArgError> {
        match (self.forgiving, mandatory) {
            (true, false) => Ok(None),
            (true, true) => STAND_INS.into_iter().find_map(parse).map(Some).ok_or(e),
            (false, _) => Err(e),
        }
    }

    fn optional<T: FromArg>(&mut self, name: &str, positional: bool) -> Result<Option<T>, ArgError> {
        let flags = Flags { mandatory: false, positional, first: false };
        match self.find(name, flags)? {
            Some(found) => {
                let value = T::from_arg(&found.text, self.names);
                match self.check(name, &found, T::EXPECTS, value) {
                    Err(_) if self.forgiving => Ok(None),
                    result => result.map(Some),
                }
            }
            None => Ok(None),
        }
    }

    fn missing(&mut self, name: &str) -> ArgError {
        let span = self.span;
        self.misread(ArgError::new(format!("{name}: required argument missing")).at(span))
    }

    /// Finds the argument `name`: the last one with that keyword, or the next one by
    /// position. A mandatory argument by position is taken even if it looks like a keyword with a value. An
    /// empty argument holds a position but counts as not given.
    fn find(&mut self, name: &str, flags: Flags) -> Result<Option<Found>, ArgError> {
        if !self.asked.iter().any(|a| a == name) {
            self.asked.push(name.to_string());
        }
        let mut got: Option<usize> = None;
        let mut by_keyword = false;
        let mut position: Option<usize> = None;
        let mut position_known = false;
        for i in 0..self.args.len() {
            if !position_known && self.states[i] != State::Position {
                position_known = true;
                position = matches!(self.states[i], State::Free(_)).then_some(i);
            }
            if let State::Free(n) = self.states[i]
                && n > 0
                && self.args[i].text.get(..n) == Some(name)
            {
                got = Some(i);
                by_keyword = true;
                self.states[i] = State::Keyword;
                if flags.first {
                    break;
                }
            }
        }
        if flags.positional
            && let Some(p) = position
            && let State::Free(n) = self.states[p]
            && (n == 0 || (flags.mandatory && got.is_none()))
        {
            self.states[p] = State::Position;
            if got.is_none_or(|g| g < p) {
                got = Some(p);
                by_keyword = false;
            }
        }
        let Some(i) = got else {
            return if flags.mandatory { Err(self.missing(name)) } else { Ok(None) };
        };
        let arg = &self.args[i];
        let skip = if by_keyword {
            arg.text[name.len()..].bytes().take_while(|&b| is_space(b)).count() + name.len()
        } else {
            0
        };
        let exact = arg.span.filter(|s| s.len() == arg.text.len());
        let span = exact.map(|s| s.part(skip, arg.text.len())).or(arg.span);
        let text = arg.text[skip..].to_string();
        if text.is_empty() {
            return if flags.mandatory { Err(self.missing(name)) } else { Ok(None) };
        }
        Ok(Some(Found { text, span }))
    }
}

/// Length of what may be a keyword in front of a value; 0 if there is none.
pub fn keyword_len(text: &str) -> usize {
    let s = text.as_bytes();
    if !s.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
        return 0;
    }
    let n = s.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_:.?!".contains(b)).count();
    let spaces = s[n..].iter().take_while(|&&b| is_space(b)).count();
    if spaces == 0 || n + spaces == s.len() { 0 } else { n }
}

#[cfg(test)]
mod tests;
