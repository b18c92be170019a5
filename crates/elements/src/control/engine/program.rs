//! Scripts: their instructions, their variables, and what makes them run. A script acts through a [`Caller`],
//! so that the same script runs on the control thread and on a worker.
//!
//! `instructions.rs` reads it, `step.rs` runs its instructions, `calls.rs` calls handlers for it.

use super::instructions::{Ending, Insn, Op, Target, compile, label};
use lang::quote::shift_word;
use lang::{uncomment, unquote};
use locks::IgnorePoison;
use runtime::{Caller, FromArg, HandlerError, Hub, Level, NameDb};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// The variable that holds what a script returns.
pub(super) const RETURNED: &str = "_";

/// The type of a script.
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

/// What makes the script continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResumedBy {
    /// A handler.
    Handler,
    /// The driver, which has received a request to stop.
    Driver,
    /// The end of a wait.
    Timer,
}

/// How a run ended, for the caller that started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// The value that the script returns: for a packet script the output port.
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

/// The state of a script.
#[derive(Default)]
pub(super) struct State {
    prepared: bool,
    pub(super) pos: usize,
    pub(super) steps: i64,
    /// Whether the step that starts the script is still to be taken.
    pub(super) initial: bool,
    pub(super) waited: Vec<u32>,
    vars: Vec<(String, String)>,
    pub(super) args: String,
    pub(super) handler: String,
    pub(super) writing: bool,
    pub(super) status: i32,
    pub(super) timer: Option<u64>,
    /// Steps that were requested while a handler runs the script.
    more: Option<i64>,
}

impl State {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
    pub(super) fn set(&mut self, name: &str, value: String) {
        match self.vars.iter_mut().find(|(n, _)| n == name) {
            Some((_, v)) => *v = value,
            None => self.vars.push((name.to_owned(), value)),
        }
    }
}

thread_local! {
    /// For each handler that scripts call on this thread, the errors of the scripts that it has run.
    static CALLS: RefCell<Vec<Vec<String>>> = const { RefCell::new(Vec::new()) };
}

/// Calls a handler for a script. Also returns the errors of the scripts that it runs.
pub(super) fn calling<R>(f: impl FnOnce() -> R) -> (R, Vec<String>) {
    CALLS.with_borrow_mut(|calls| calls.push(Vec::new()));
    let result = f();
    (result, CALLS.with_borrow_mut(Vec::pop).unwrap_or_default())
}

/// Gives errors to the script that has called this one, if there is one.
fn nested_in_a_call(lines: &[String]) -> bool {
    CALLS.with_borrow_mut(|calls| calls.last_mut().map(|call| call.extend_from_slice(lines)).is_some())
}

/// A script.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) class: &'static str,
    pub(crate) kind: ScriptType,
    pub(super) insns: Vec<Insn>,
    state: Mutex<State>,
    /// The configuration that the script belongs to.
    generation: OnceLock<u64>,
}

/// The destination of a script's errors.
pub(crate) struct Log {
    pub(super) hub: Arc<Hub>,
    /// The script's name.
    name: String,
    /// Printed before the first error.
    context: Option<String>,
    /// Errors that the caller of a handler will get instead.
    kept: Option<Vec<String>>,
    pub(super) errors: usize,
}

impl Log {
    /// Errors are printed, under a heading.
    pub(crate) fn printed(caller: &dyn Caller, program: &Program) -> Self {
        let context = Some(program.executing());
        Self { context, kept: None, ..Self::kept(caller, program) }
    }
    fn kept(caller: &dyn Caller, program: &Program) -> Self {
        let (hub, name) = (Arc::clone(caller.hub()), program.name.clone());
        Self { hub, name, context: None, kept: Some(Vec::new()), errors: 0 }
    }
    fn line(&mut self, line: String) {
        match &mut self.kept {
            Some(kept) => kept.push(line),
            None => self.hub.log(Level::ERROR, &self.name, &format!("  {line}")),
        }
    }
    /// Adds an error, below a line with the call that failed.
    pub(super) fn error(&mut self, calling: Option<&str>, message: &str) {
        self.errors += 1;
        if let Some(context) = self.context.take() {
            self.hub.log(Level::ERROR, &self.name, &context);
        }
        if let Some(calling) = calling {
            self.line(format!("While calling '{calling}':"));
        }
        let indent = if calling.is_some() { "  " } else { "" };
        message.lines().for_each(|l| self.line(format!("{indent}{l}")));
    }
}

impl Program {
    /// Reads the instructions. Errors come with the number of the argument; a wrong label has none.
    pub(crate) fn new(
        name: &str,
        class: &'static str,
        kind: ScriptType,
        args: &[String],
    ) -> Result<Self, Vec<(Option<usize>, String)>> {
        let insns = compile(args, kind == ScriptType::Driver)?;
        let mut state = State { waited: vec![0; insns.len()], ..State::default() };
        // A variable that is set anywhere is the script's own from the beginning.
        for insn in &insns {
            match &insn.op {
                Op::Set { var, .. } | Op::Init { var, .. } => state.set(var, String::new()),
                Op::Return { .. } => state.set(RETURNED, String::new()),
                _ => {}
            }
        }
        Ok(Self {
            name: name.to_owned(),
            class,
            kind,
            insns,
            state: Mutex::new(state),
            generation: OnceLock::new(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
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

    /// Runs before anything else: sets the variables of `init`, and makes active scripts due. Has an effect
    /// only once.
    pub(crate) fn prepare(&self, caller: &mut dyn Caller) {
        if std::mem::replace(&mut self.state().prepared, true) {
            return;
        }
        let _ = self.generation.set(caller.hub().generation());
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

    /// Whether a hot swap has replaced the configuration that the script belongs to: it may not stop the new
    /// one.
    pub(super) fn is_replaced(&self, hub: &Hub) -> bool {
        self.generation.get().is_some_and(|own| *own != hub.generation())
    }

    /// The time at which the script continues.
    pub(crate) fn due(&self) -> Option<u64> {
        self.state().timer
    }

    /// Whether this wait is the start of a driver script, whose end counts as a first request to stop.
    pub(crate) fn starts_driver(&self) -> bool {
        self.kind == ScriptType::Driver && self.state().initial
    }

    /// Continues at the end of a wait.
    pub(crate) fn expire(&self, caller: &mut dyn Caller) -> Done {
        self.state().timer = None;
        let by = if self.starts_driver() { ResumedBy::Driver } else { ResumedBy::Timer };
        self.resume(caller, by)
    }

    /// Runs the script because of a signal.
    pub(crate) fn signaled(&self, caller: &mut dyn Caller) -> Done {
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

    /// Runs the handlers `step`, `goto` and `run`, and the calls of a proxy's handlers.
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
        let mut log = Log::kept(caller, self);
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
        // A wait may have been set or ended: the control thread has to look again.
        caller.hub().ring();
        let lines = log.kept.unwrap_or_default();
        if done.failed {
            return Err(HandlerError::Failed(lines.join("\n")));
        }
        if !lines.is_empty() && !nested_in_a_call(&lines) {
            let log = |line: &str| caller.hub().log(Level::ERROR, &self.name, line);
            log(&self.executing());
            lines.iter().for_each(|line| log(&format!("  {line}")));
        }
        Ok(done.value)
    }

    /// Removes the first word of a variable (`shift`).
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
}
