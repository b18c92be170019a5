//! Scripts: instructions, and the machine that runs them. It acts through a [`Caller`], so that the same
//! script runs on the control side and on a worker.

use super::functions::reason;
use lang::quote::shift_word;
use lang::vars::{Expander, Reference, VarKind, expand};
use lang::{uncomment, unquote};
use locks::IgnorePoison;
use runtime::{Caller, FromArg, HandlerError, Hub, Known, NameDb};
use std::cell::RefCell;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Jumps without blocking after which a script is taken for an endless loop.
const MAX_JUMPS: u32 = 1000;
/// The variable that holds what a script returns.
const RETURNED: &str = "_";
/// Click's status of a write handler that failed.
const FAILED: i32 = -22;

/// What a script is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptType {
    /// Runs from the start.
    Active,
    /// Runs when its `run` handler is called.
    Passive,
    /// Runs for each packet.
    Packet,
    /// Runs when any handler is called.
    Proxy,
    /// Decides when the driver stops.
    Driver,
    /// Runs when the process gets one of these signals.
    Signal(Vec<i32>),
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    End,
    Exit,
    Stop,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    At(usize),
    Finish(Ending),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Op {
    /// In front of scripts that do not begin by waiting: takes the step that starts the script.
    Initial,
    WaitStep(u32),
    WaitTime,
    Print {
        newline: bool,
        unquote: bool,
    },
    Save {
        append: bool,
    },
    Read {
        unquote: bool,
    },
    Write {
        unquote: bool,
    },
    Set {
        var: String,
        unquote: bool,
    },
    Return {
        unquote: bool,
    },
    Init {
        var: String,
        unquote: bool,
        export: bool,
    },
    Label,
    Goto(Target),
    Finish(Ending),
    /// `error` with a message.
    Error {
        unquote: bool,
    },
}

#[derive(Clone, Debug)]
struct Insn {
    op: Op,
    text: String,
}

/// Who makes the script go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResumedBy {
    /// A handler.
    Handler,
    /// The driver, which wants to stop.
    Driver,
    /// The end of a wait.
    Timer,
}

/// How a run ended, for whoever started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// What the script returns: for a packet script the output port.
    pub(crate) value: String,
    /// It has reached `error`.
    pub(crate) failed: bool,
    /// It has reached `stop`.
    pub(crate) stopped: bool,
    /// It has reached `end`.
    pub(crate) ended: bool,
    /// It is not waiting for anything.
    pub(crate) finished: bool,
}

#[derive(Default)]
struct State {
    prepared: bool,
    pos: usize,
    steps: i64,
    /// Whether the step that starts the script is still to be taken.
    initial: bool,
    waited: Vec<u32>,
    vars: Vec<(String, String)>,
    args: String,
    handler: String,
    writing: bool,
    status: i32,
    timer: Option<u64>,
    /// Steps asked for while a handler runs the script.
    more: Option<i64>,
}

impl State {
    fn get(&self, name: &str) -> Option<&str> {
        self.vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
    fn set(&mut self, name: &str, value: String) {
        match self.vars.iter_mut().find(|(n, _)| n == name) {
            Some((_, v)) => *v = value,
            None => self.vars.push((name.to_owned(), value)),
        }
    }
}

/// A script.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) class: &'static str,
    pub(crate) kind: ScriptType,
    insns: Vec<Insn>,
    state: Mutex<State>,
}

/// Where a script's errors go.
pub(crate) struct Log {
    hub: Arc<Hub>,
    /// Printed before the first error.
    context: Option<String>,
    /// Errors that a handler's caller will get instead.
    kept: Option<Vec<String>>,
    errors: usize,
}

impl Log {
    /// Errors are printed, under a heading.
    pub(crate) fn printed(caller: &dyn Caller, program: &Program) -> Self {
        let context = Some(program.executing());
        Self { hub: Arc::clone(caller.hub()), context, kept: None, errors: 0 }
    }
    fn kept(caller: &dyn Caller) -> Self {
        Self { hub: Arc::clone(caller.hub()), context: None, kept: Some(Vec::new()), errors: 0 }
    }
    fn line(&mut self, line: String) {
        match &mut self.kept {
            Some(kept) => kept.push(line),
            None => self.hub.chatter(&format!("  {line}")),
        }
    }
    /// An error, below a line that says what was being called.
    fn error(&mut self, calling: Option<&str>, message: &str) {
        self.errors += 1;
        if let Some(context) = self.context.take() {
            self.hub.chatter(&context);
        }
        if let Some(calling) = calling {
            self.line(format!("While calling '{calling}':"));
        }
        let indent = if calling.is_some() { "  " } else { "" };
        message.lines().for_each(|l| self.line(format!("{indent}{l}")));
    }
}

/// A step over the instructions on the way to a [`Program`].
struct Builder {
    insns: Vec<Insn>,
}

impl Builder {
    fn add(&mut self, op: Op, text: &str) {
        // A script begins with something that can wait.
        if self.insns.is_empty() && !matches!(op, Op::Initial | Op::WaitStep(_) | Op::WaitTime) {
            self.add(Op::Initial, "");
        }
        self.insns.push(Insn { op, text: text.to_owned() });
    }

    /// Reads an instruction; `Err` is its name.
    fn instruction(&mut self, arg: &str) -> Result<(), String> {
        let (word, rest) = shift_word(arg);
        if word.is_empty() {
            return Ok(());
        }
        let rest = rest.trim_end();
        let bad = || Err(word.clone());
        let quoted = word.ends_with('q');
        match word.as_str() {
            "wait" if !rest.is_empty() => self.add(Op::WaitTime, rest),
            "wait_for" | "wait_time" => self.add(Op::WaitTime, rest),
            "wait" | "pause" | "wait_step" | "wait_stop" if rest.is_empty() => self.add(Op::WaitStep(1), ""),
            "pause" | "wait_step" | "wait_stop" => match u32::from_arg(rest, &NameDb::default()) {
                Ok(n) => self.add(Op::WaitStep(n), ""),
                Err(_) => return bad(),
            },
            "print" | "printq" => self.add(Op::Print { newline: true, unquote: quoted }, rest),
            "printn" | "printnq" => self.add(Op::Print { newline: false, unquote: quoted }, rest),
            "save" | "append" => self.add(Op::Save { append: word == "append" }, rest),
            "read" | "readq" => self.add(Op::Read { unquote: quoted }, rest),
            "write" | "writeq" => self.add(Op::Write { unquote: quoted }, rest),
            "goto" => self.add(Op::Goto(Target::At(0)), rest),
            "loop" if rest.is_empty() => self.add(Op::Goto(Target::At(0)), ""),
            "return" | "returnq" => self.add(Op::Return { unquote: quoted }, rest),
            "set" | "setq" | "init" | "initq" | "export" | "exportq" => {
                let (var, value) = shift_word(rest);
                let set = word.starts_with("set");
                if var.is_empty() || (set && value.is_empty()) {
                    return bad();
                }
                let op = match set {
                    true => Op::Set { var, unquote: quoted },
                    false => Op::Init { var, unquote: quoted, export: word.starts_with("export") },
                };
                self.add(op, &value);
            }
            "label" => match shift_word(rest) {
                (label, more) if !label.is_empty() && more.is_empty() => self.add(Op::Label, &label),
                _ => return bad(),
            },
            "end" if rest.is_empty() => self.add(Op::Finish(Ending::End), ""),
            "exit" if rest.is_empty() => self.add(Op::Finish(Ending::Exit), ""),
            "stop" if rest.is_empty() => self.add(Op::Finish(Ending::Stop), ""),
            "error" | "errorq" => self.add(Op::Error { unquote: quoted }, rest),
            _ => return bad(),
        }
        Ok(())
    }
}

fn label(insns: &[Insn], name: &str) -> Option<Target> {
    if let Some(at) = insns.iter().position(|i| i.op == Op::Label && i.text == name) {
        return Some(Target::At(at));
    }
    Some(match name {
        "begin" | "loop" => Target::At(0),
        "end" => Target::Finish(Ending::End),
        "exit" => Target::Finish(Ending::Exit),
        "stop" => Target::Finish(Ending::Stop),
        "error" | "errorq" => Target::Finish(Ending::Error),
        _ => return None,
    })
}

impl Program {
    /// Reads the instructions. Errors come with the number of the argument; a wrong label has none.
    pub(crate) fn new(
        name: &str,
        class: &'static str,
        kind: ScriptType,
        args: &[String],
    ) -> Result<Self, Vec<(Option<usize>, String)>> {
        let mut b = Builder { insns: Vec::new() };
        let mut errors = Vec::new();
        for (n, arg) in args.iter().enumerate() {
            if let Err(word) = b.instruction(arg) {
                errors.push((Some(n), format!("syntax error at '{word}'")));
            }
        }
        for at in 0..b.insns.len() {
            if !matches!(b.insns[at].op, Op::Goto(_)) || b.insns[at].text.is_empty() {
                continue;
            }
            let (word, condition) = shift_word(&b.insns[at].text);
            match label(&b.insns, &word) {
                Some(target) => b.insns[at] = Insn { op: Op::Goto(target), text: condition },
                None => errors.push((None, format!("no such label '{word}'"))),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if b.insns.is_empty() && kind == ScriptType::Driver {
            b.add(Op::WaitStep(1), "");
        }
        b.add(Op::Finish(if kind == ScriptType::Driver { Ending::Stop } else { Ending::End }), "");
        let state = State { waited: vec![0; b.insns.len()], ..State::default() };
        Ok(Self { name: name.to_owned(), class, kind, insns: b.insns, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }

    /// The heading of errors.
    pub(crate) fn executing(&self) -> String {
        format!("While executing '{} :: {}':", self.name, self.class)
    }

    /// The variables that have read handlers.
    pub(crate) fn exported(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for insn in &self.insns {
            if let Op::Init { var, export: true, .. } = &insn.op
                && !all.contains(var)
            {
                all.push(var.clone());
            }
        }
        all
    }

    /// A variable's value.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        match name {
            "args" => Some(self.state().args.clone()),
            _ => self.state().get(name).map(str::to_owned),
        }
    }

    /// Sets a variable.
    pub(crate) fn set_variable(&self, name: &str, value: &str) {
        match name {
            "args" => value.clone_into(&mut self.state().args),
            _ => self.state().set(name, value.to_owned()),
        }
    }

    /// Before anything else: sets the variables of `init`, and makes active scripts due. Acts once.
    pub(crate) fn prepare(&self, caller: &mut dyn Caller) {
        if std::mem::replace(&mut self.state().prepared, true) {
            return;
        }
        let mut log = Log::printed(caller, self);
        for insn in &self.insns {
            if let Op::Init { var, unquote: unquoted, .. } = &insn.op {
                let value = self.expand(caller, &mut log, &insn.text, false);
                self.state().set(var, if *unquoted { unquote(&value) } else { value });
            }
        }
        if matches!(self.kind, ScriptType::Active | ScriptType::Driver) {
            match self.insns[0].op {
                Op::WaitTime => {
                    let end = self.wait(caller, &mut log, 0);
                    self.state().timer = end;
                }
                Op::Initial => {
                    let now = caller.now_ns();
                    let mut state = self.state();
                    (state.timer, state.initial) = (Some(now), true);
                }
                _ => {}
            }
        }
    }

    /// When the script wants to go on.
    pub(crate) fn due(&self) -> Option<u64> {
        self.state().timer
    }

    /// Whether the end of this wait is the start of a driver script, which is as a first request to stop.
    pub(crate) fn starts_driver(&self) -> bool {
        self.kind == ScriptType::Driver && self.state().initial
    }

    /// Goes on at the end of a wait.
    pub(crate) fn expire(&self, caller: &mut dyn Caller) -> Done {
        self.state().timer = None;
        let by = if self.starts_driver() { ResumedBy::Driver } else { ResumedBy::Timer };
        self.resume(caller, by)
    }

    /// Runs the script because of a signal.
    pub(crate) fn signalled(&self, caller: &mut dyn Caller) -> Done {
        self.state().pos = 0;
        let mut log = Log::printed(caller, self);
        self.step(caller, 0, ResumedBy::Handler, 0, &mut log);
        self.done()
    }

    /// Takes a step.
    pub(crate) fn resume(&self, caller: &mut dyn Caller, by: ResumedBy) -> Done {
        let mut log = Log::printed(caller, self);
        self.step(caller, 1, by, 0, &mut log);
        self.done()
    }

    /// Runs the script for a packet.
    pub(crate) fn packet(&self, caller: &mut dyn Caller, input: usize) -> Done {
        {
            let mut state = self.state();
            state.set("input", input.to_string());
            state.pos = 0;
        }
        let mut log = Log::printed(caller, self);
        self.step(caller, 0, ResumedBy::Handler, 0, &mut log);
        self.done()
    }

    /// The `step` and `goto` handlers, `run`, and whatever calls a proxy.
    pub(crate) fn handle(
        &self,
        caller: &mut dyn Caller,
        what: &str,
        value: &str,
        write: bool,
    ) -> Result<String, HandlerError> {
        let data = uncomment(value);
        let (mut steps, mut by) = (0, ResumedBy::Handler);
        {
            let mut state = self.state();
            what.clone_into(&mut state.handler);
            state.writing = write;
        }
        match what {
            "goto" => {
                let Some(Target::At(at)) = label(&self.insns, &data) else {
                    return Err(HandlerError::Failed("jump to nonexistent label".into()));
                };
                let mut state = self.state();
                state.waited[at..].fill(0);
                state.pos = at;
            }
            "step" if data == "router" => (steps, by) = (1, ResumedBy::Driver),
            "step" if data.is_empty() => steps = 1,
            "step" => match i64::from_arg(&data, &NameDb::default()) {
                Ok(n) => steps = n,
                Err(_) => return Err(HandlerError::Failed("syntax error".into())),
            },
            _ => {
                let mut state = self.state();
                state.pos = 0;
                value.clone_into(&mut state.args);
            }
        }
        let mut log = Log::kept(caller);
        let nested = self.state().more.is_some();
        if !nested {
            self.state().more = Some(-1);
            let mut jumps = 0;
            while steps >= 0 {
                jumps = self.step(caller, steps, by, jumps, &mut log);
                by = ResumedBy::Handler;
                steps = self.state().more.replace(-1).unwrap_or(-1);
            }
            self.state().more = None;
        } else if what == "step"
            && let Some(more) = &mut self.state().more
        {
            *more += steps;
        }
        let done = self.done();
        {
            let mut state = self.state();
            state.handler.clear();
            state.writing = false;
            if done.failed || done.stopped {
                state.args.clear();
            }
        }
        // A wait may have been set or ended: the control side looks again.
        caller.hub().ring();
        let lines = log.kept.unwrap_or_default();
        if done.failed {
            return Err(HandlerError::Failed(lines.join("\n")));
        }
        if !lines.is_empty() {
            caller.hub().chatter(&self.executing());
            lines.iter().for_each(|l| caller.hub().chatter(&format!("  {l}")));
        }
        Ok(done.value)
    }

    /// Takes the first word off a variable (`shift`).
    pub(crate) fn shift(&self, name: &str) -> Option<String> {
        let value = self.variable(name)?;
        let (word, rest) = shift_word(&value);
        self.set_variable(name, &rest);
        Some(word)
    }

    fn done(&self) -> Done {
        let state = self.state();
        let insn = self.insns.get(state.pos).map(|i| &i.op);
        let end = match insn {
            Some(Op::Finish(end) | Op::Goto(Target::Finish(end))) => Some(*end),
            Some(Op::Error { .. }) => Some(Ending::Error),
            _ => None,
        };
        let returned = matches!(insn, Some(Op::Return { .. }));
        let value = match end {
            _ if returned => state.get(RETURNED).unwrap_or_default().to_owned(),
            Some(Ending::End) if self.kind == ScriptType::Packet => "0".to_owned(),
            _ => String::new(),
        };
        Done {
            value,
            failed: end == Some(Ending::Error),
            stopped: end == Some(Ending::Stop),
            ended: end == Some(Ending::End),
            finished: end.is_some() || returned || insn.is_none(),
        }
    }

    /// The end of the wait that an instruction asks for.
    fn wait(&self, caller: &mut dyn Caller, log: &mut Log, at: usize) -> Option<u64> {
        let text = self.expand(caller, log, &self.insns[at].text, false);
        match Duration::from_arg(text.trim(), &NameDb::default()) {
            Ok(time) => {
                Some(caller.now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
            }
            Err(_) => {
                log.error(None, "syntax error at 'wait'");
                None
            }
        }
    }

    /// Runs instructions until one blocks that `steps` steps do not get past. Returns the number of jumps so
    /// far.
    fn step(&self, caller: &mut dyn Caller, steps: i64, by: ResumedBy, mut jumps: u32, log: &mut Log) -> u32 {
        let last = steps + self.state().steps;
        loop {
            let at = {
                let mut state = self.state();
                if last - state.steps < 0 || state.pos >= self.insns.len() || jumps >= MAX_JUMPS {
                    break;
                }
                // Counted up before the instruction runs, because a handler that it calls may jump.
                state.pos += 1;
                state.pos - 1
            };
            let Insn { op, text } = &self.insns[at];
            match op {
                Op::Initial => {
                    let mut state = self.state();
                    if std::mem::take(&mut state.initial) {
                        state.steps += 1;
                    }
                }
                Op::WaitStep(count) => {
                    let mut state = self.state();
                    let left = i64::from(count.saturating_sub(state.waited[at])).min(last - state.steps);
                    state.waited[at] += u32::try_from(left).unwrap_or(0);
                    state.steps += left;
                    if state.steps == last && state.waited[at] < *count {
                        state.pos -= 1;
                        break;
                    }
                }
                Op::WaitTime => {
                    if self.state().steps == last {
                        if let Some(end) = self.wait(caller, log, at) {
                            let mut state = self.state();
                            state.timer = Some(end);
                            state.pos -= 1;
                        }
                        break;
                    }
                    let mut state = self.state();
                    state.steps += 1;
                    state.timer = None;
                }
                Op::Print { newline, unquote } => self.print(caller, log, text, *newline, *unquote),
                Op::Save { append } => {
                    let (handler, file) = shift_word(text);
                    let file = if file.is_empty() { "-" } else { &file };
                    let to = if *append { ">>" } else { ">" };
                    self.print(caller, log, &format!("{to}{file} {handler}"), true, false);
                }
                Op::Read { unquote } => {
                    let text = self.expand(caller, log, text, false);
                    if let Some((name, result)) = self.read(caller, log, &text, *unquote, true) {
                        log.hub.chatter(&format!("{name}:\n{result}"));
                    }
                }
                Op::Write { unquote } => {
                    let text = self.expand(caller, log, text, false);
                    self.write(caller, log, &text, *unquote);
                }
                Op::Set { var, unquote: unquoted } => {
                    let value = self.expand(caller, log, text, false);
                    self.state().set(var, if *unquoted { unquote(&value) } else { value });
                }
                Op::Return { unquote: unquoted } => {
                    let value = self.expand(caller, log, text, false);
                    let mut state = self.state();
                    state.set(RETURNED, if *unquoted { unquote(&value) } else { value });
                    if state.pos == at + 1 {
                        state.pos -= 1;
                        break;
                    }
                }
                Op::Init { .. } | Op::Label => {}
                Op::Goto(target) => {
                    let condition = self.expand(caller, log, text, false);
                    let go = if condition.is_empty() {
                        true
                    } else {
                        bool::from_arg(condition.trim(), &NameDb::default()).unwrap_or_else(|_| {
                            log.error(None, &format!("bad condition '{condition}'"));
                            false
                        })
                    };
                    match target {
                        Target::Finish(end) if go => {
                            if *end == Ending::Stop && by != ResumedBy::Driver {
                                caller.hub().request_stop();
                            }
                            self.state().pos -= 1;
                            return jumps + 1;
                        }
                        Target::At(to) if go => {
                            let mut state = self.state();
                            if *to < at {
                                state.waited[*to..at].fill(0);
                            }
                            state.pos = *to;
                        }
                        _ => {}
                    }
                }
                Op::Finish(Ending::Stop) => {
                    let mut state = self.state();
                    state.steps += 1;
                    state.pos -= 1;
                    drop(state);
                    if by != ResumedBy::Driver {
                        caller.hub().request_stop();
                    }
                    return jumps + 1;
                }
                Op::Finish(_) => {
                    self.state().pos -= 1;
                    return jumps + 1;
                }
                Op::Error { unquote: unquoted } => {
                    let message = self.expand(caller, log, text, false);
                    let message = if *unquoted { unquote(&message) } else { message };
                    if !message.is_empty() {
                        log.error(None, &message);
                    }
                    self.state().pos -= 1;
                    return jumps + 1;
                }
            }
            if self.state().pos != at + 1 {
                jumps += 1;
            }
        }
        if jumps >= MAX_JUMPS {
            log.hub.chatter(&format!("{} :: {}: too many jumps, giving up", self.name, self.class));
            let mut state = self.state();
            state.pos = self.insns.len();
            state.timer = None;
        }
        jumps + 1
    }

    /// Finds the handler that a text begins with; the rest is the parameter or the value.
    fn find(&self, caller: &dyn Caller, log: &mut Log, text: &str, write: bool) -> Option<(Known, String)> {
        let (spec, value) = shift_word(text);
        // A handler without an element is this script's own, if there is such a one.
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
    fn read(
        &self,
        caller: &mut dyn Caller,
        log: &mut Log,
        text: &str,
        unquoted: bool,
        heading: bool,
    ) -> Option<(String, String)> {
        let (known, param) = self.find(caller, log, text, false)?;
        let param = if unquoted { unquote(&param) } else { param };
        match caller.read("", &global(&known.name), &param) {
            Ok(value) => Some((known.name, value)),
            Err(e) => {
                let calling = unparse(&known.name, &param);
                log.error(heading.then_some(calling.as_str()), &e.to_string());
                Some((known.name, String::new()))
            }
        }
    }

    fn write(&self, caller: &mut dyn Caller, log: &mut Log, text: &str, unquoted: bool) {
        let Some((known, value)) = self.find(caller, log, text, true) else { return };
        let value = if unquoted { unquote(&value) } else { value };
        let done = caller.write("", &global(&known.name), &value);
        self.state().status = if done.is_ok() { 0 } else { FAILED };
        if let Err(e) = done {
            let shown = if known.secret { "(secret)" } else { &value };
            log.error(Some(&unparse(&known.name, shown)), &e.to_string());
        }
    }

    fn print(&self, caller: &mut dyn Caller, log: &mut Log, text: &str, newline: bool, unquoted: bool) {
        let mut text = text.to_owned();
        let mut file = None;
        if let Some(rest) = text.strip_prefix('>') {
            let append = rest.starts_with('>');
            let (name, rest) = shift_word(rest.strip_prefix('>').unwrap_or(rest));
            text = rest;
            if !name.is_empty() && name != "-" {
                let mut options = std::fs::OpenOptions::new();
                match options.create(true).append(append).write(true).truncate(!append).open(&name) {
                    Ok(opened) => file = Some((name, opened)),
                    Err(e) => return log.error(None, &format!("{name}: {}", reason(&e))),
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
        if let (Err(e), Some((name, _))) = (written, &file) {
            log.error(None, &format!("{name}: {}", reason(&e)));
        }
    }

    fn expand(&self, caller: &mut dyn Caller, log: &mut Log, text: &str, quoted: bool) -> String {
        expand(text, &Values { program: self, through: RefCell::new((caller, log)) }, quoted)
    }
}

/// A handler's name as it is looked up: a global one must not be taken for an element's.
fn global(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!(".{name}") }
}

fn unparse(name: &str, value: &str) -> String {
    if value.is_empty() { name.to_owned() } else { format!("{name} {value}") }
}

/// The values of variables and of handler calls in a script's texts.
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
        let state = self.program.state();
        let words = || lang::split_words(&state.args);
        let value = match var.name {
            name if state.get(name).is_some() => state.get(name).map(str::to_owned),
            "args" => Some(state.args.clone()),
            "0" => Some(state.handler.clone()),
            "write" => Some(state.writing.to_string()),
            name if name.starts_with(|c: char| ('1'..='9').contains(&c)) => name
                .parse::<usize>()
                .ok()
                .map(|n| words().into_iter().nth(n - 1).map(|w| w.text).unwrap_or_default()),
            _ => match text {
                "?" => Some(state.status.to_string()),
                "#" => Some(words().len().to_string()),
                "$" => Some(std::process::id().to_string()),
                _ => None,
            },
        };
        drop(state);
        value.map(|v| var.pick(v)).or_else(|| var.default.map(str::to_owned))
    }
}
