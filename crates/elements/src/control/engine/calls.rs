//! The actions of a script on the router: it calls handlers, prints, and substitutes values in its texts.

use super::program::{Log, Program, calling, status_of};
use lang::quote::shift_word;
use lang::unquote;
use lang::vars::{Expander, Reference, VarKind, expand};
use nix::fcntl::OFlag;
use runtime::{Caller, HandlerError, KnownHandler};
use std::cell::RefCell;
use std::io::Write as _;

/// Click's status of a write handler that failed.
const FAILED: i32 = -22;

impl Program {
    /// Finds the handler whose name a text begins with; the rest is the parameter or the value.
    fn find(
        &self,
        caller: &dyn Caller,
        log: &mut Log,
        text: &str,
        write: bool,
    ) -> Option<(KnownHandler, String)> {
        let (spec, value) = shift_word(text);
        // A name without an element is a handler of this script, if the script has a handler of that name.
        let own = format!("{}.{spec}", self.name);
        let is_own = !spec.contains('.')
            && matches!(
                caller.look_up("", &own, write),
                Ok(_) | Err(HandlerError::NotReadable(_) | HandlerError::NotWritable(_))
            );
        let found = match is_own {
            true => caller.look_up("", &own, write),
            false => caller.look_up(&self.name, &spec, write),
        };
        match found {
            Ok(known) if !write && !value.is_empty() && !known.takes_parameter => {
                log.error(None, &format!("read handler '{}' does not take parameters", known.name));
                None
            }
            Ok(known) => Some((known, value)),
            Err(HandlerError::NoElement(name)) => {
                log.error(None, &format!("no element named '{name}'"));
                None
            }
            Err(_) => {
                let spec = if is_own { &own } else { &spec };
                log.error(None, &format!("no '{spec}' {} handler", if write { "write" } else { "read" }));
                None
            }
        }
    }

    /// Calls a read handler. Returns its name and value; a failure is reported and gives an empty value.
    pub(super) fn read(
        &self,
        caller: &mut dyn Caller,
        log: &mut Log,
        text: &str,
        unquoted: bool,
        heading: bool,
    ) -> Option<(String, String)> {
        let (known, param) = self.find(caller, log, text, false)?;
        let param = if unquoted { unquote(&param) } else { param };
        let (done, within) = calling(|| caller.read("", &global(&known.name), &param));
        let call = unparse(&known.name, &param);
        let call = heading.then_some(call.as_str());
        if !within.is_empty() {
            log.error(call, &within.join("\n"));
        }
        match done {
            Ok(value) => Some((known.name, value)),
            Err(e) => {
                if let Some(message) = said(Some(e)) {
                    log.error(call, &message);
                }
                Some((known.name, String::new()))
            }
        }
    }

    pub(super) fn write(&self, caller: &mut dyn Caller, log: &mut Log, text: &str, unquoted: bool) {
        let Some((known, value)) = self.find(caller, log, text, true) else { return };
        let value = if unquoted { unquote(&value) } else { value };
        let (done, within) = calling(|| caller.write("", &global(&known.name), &value));
        let usual = if done.is_ok() { 0 } else { FAILED };
        self.here().status = status_of(&known.name).unwrap_or(usual);
        let shown = unparse(&known.name, if known.secret { "(secret)" } else { &value });
        if !within.is_empty() {
            log.error(Some(&shown), &within.join("\n"));
        }
        let warnings = caller.hub().take_warnings().join("\n");
        if !warnings.is_empty() {
            log.error(Some(&shown), &warnings);
        }
        if let Some(message) = said(done.err()) {
            log.error(Some(&shown), &message);
        }
    }

    pub(super) fn print(
        &self,
        caller: &mut dyn Caller,
        log: &mut Log,
        text: &str,
        newline: bool,
        unquoted: bool,
    ) {
        let mut text = text.to_owned();
        let mut file = None;
        if let Some(rest) = text.strip_prefix('>') {
            let append = rest.starts_with('>');
            let (name, rest) = shift_word(rest.strip_prefix('>').unwrap_or(rest));
            text = rest;
            if !name.is_empty() && name != "-" {
                let how = if append { OFlag::O_APPEND } else { OFlag::O_TRUNC };
                match caller.hub().open(&name, OFlag::O_WRONLY | OFlag::O_CREAT | how) {
                    Ok(opened) => file = Some((name, opened)),
                    Err(e) => return log.error(None, &format!("{name}: {}", runtime::reason(&e))),
                }
            }
        }
        let before = log.errors;
        let mut result = if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_') {
            let call = self.expand(caller, log, &text, false);
            self.read(caller, log, &call, unquoted, true).map_or_else(String::new, |(_, value)| value)
        } else {
            unquote(&self.expand(caller, log, &text, true))
        };
        if newline && log.errors == before && !result.ends_with('\n') {
            result.push('\n');
        }
        let written = match &mut file {
            Some((_, file)) => file.write_all(result.as_bytes()),
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(result.as_bytes()).and_then(|()| out.flush())
            }
        };
        let name = file.as_ref().map_or("standard output", |(name, _)| name);
        match written {
            // A reader of standard output that has gone needs no more.
            Err(e) if file.is_none() && e.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(e) => log.error(None, &format!("{name}: {}", runtime::reason(&e))),
            Ok(()) => {}
        }
    }

    pub(super) fn expand(&self, caller: &mut dyn Caller, log: &mut Log, text: &str, quoted: bool) -> String {
        expand(text, &Values { program: self, through: RefCell::new((caller, log)) }, quoted)
    }
}

/// What an error says: `error` without a message says nothing.
fn said(error: Option<HandlerError>) -> Option<String> {
    error.map(|e| e.to_string()).filter(|message| !message.is_empty())
}

/// The form in which a handler's name is looked up: a global handler must not be taken for an element's.
fn global(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!(".{name}") }
}

fn unparse(name: &str, value: &str) -> String {
    if value.is_empty() { name.to_owned() } else { format!("{name} {value}") }
}

/// Replaces variables and handler calls in a script's texts by their values.
struct Values<'a> {
    program: &'a Program,
    through: RefCell<(&'a mut dyn Caller, &'a mut Log)>,
}

impl Expander for Values<'_> {
    fn value(&self, text: &str, kind: VarKind, _depth: u32) -> Option<String> {
        if kind == VarKind::Parens {
            let (caller, log) = &mut *self.through.borrow_mut();
            return self.program.read(*caller, log, text, false, false).map(|(_, value)| value);
        }
        let var = Reference::parse(text, kind);
        if let Some(value) = self.program.state().get(var.name) {
            return Some(var.pick(value.to_owned()));
        }
        let here = self.program.here();
        let words = || lang::split_words(&here.args);
        let value = match var.name {
            "args" => Some(here.args.clone()),
            "0" => Some(here.handler.clone()),
            "write" => Some(here.writing.to_string()),
            name if name.starts_with(|c: char| ('1'..='9').contains(&c)) => name
                .parse::<usize>()
                .ok()
                .map(|n| words().into_iter().nth(n - 1).map(|w| w.text).unwrap_or_default()),
            _ => match text {
                "?" => Some(here.status.to_string()),
                "#" => Some(words().len().to_string()),
                "$" => Some(std::process::id().to_string()),
                _ => None,
            },
        };
        drop(here);
        value.map(|v| var.pick(v)).or_else(|| var.default.map(str::to_owned))
    }
}
