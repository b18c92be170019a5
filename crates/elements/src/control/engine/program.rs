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
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::ThreadId;

/// The variable that holds what a script returns.
pub(super) const RETURNED: &str = "_";
/// The number of jumps without blocking after which a script is considered an endless loop.
pub(super) const MAX_JUMPS: u32 = 1000;
/// The status of a call that ended by `error`, and by `stop`.
const FAILED: i32 = -1;
const STOPPED: i32 = 1;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// How far a run has come, and what belongs to it alone.
#[derive(Clone, Default)]
pub(super) struct Progress {
    /// The thread that runs it.
    thread: Option<ThreadId>,
    pub(super) pos: usize,
    pub(super) steps: i64,
    /// Whether the step that starts the script is still to be taken.
    pub(super) initial: bool,
    pub(super) waited: Vec<u32>,
    pub(super) args: String,
    pub(super) handler: String,
    pub(super) writing: bool,
    pub(super) status: i32,
    pub(super) timer: Option<u64>,
    /// What `return` has set, if the script has such a variable.
    returned: Option<String>,
    /// Steps that were requested while a handler runs the script.
    more: Option<i64>,
}

impl Progress {
    /// The run stays at the instruction that it is at.
    pub(super) fn step_back(&mut self) {
        self.pos = self.pos.saturating_sub(1);
    }
}

/// The state of a script. Its handlers may be called on several threads at a time, which cannot wait for each
/// other: scripts call each other. Each thread's run has its own progress; only variables are common.
#[derive(Default)]
pub(super) struct State {
    prepared: bool,
    vars: Vec<(String, String)>,
    /// The progress that a later run continues; and, while one thread runs it, that of each other thread.
    runs: Vec<Progress>,
    /// Steps that other threads have requested while one runs the script.
    later: i64,
    /// What another thread has left waiting while one runs the script: it takes the place of that run.
    next: Option<Progress>,
}

impl State {
    /// The run of this thread, or the last one.
    fn own(&self) -> usize {
        let thread = Some(this_thread());
        self.runs.iter().position(|run| run.thread == thread).unwrap_or(0)
    }
    pub(super) fn run(&mut self) -> &mut Progress {
        let own = self.own();
        &mut self.runs[own]
    }
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        if name == RETURNED {
            return self.runs[self.own()].returned.as_deref();
        }
        self.vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
    pub(super) fn set(&mut self, name: &str, value: String) {
        if name == RETURNED {
            self.run().returned = Some(value);
            return;
        }
        match self.vars.iter_mut().find(|(n, _)| n == name) {
            Some((_, v)) => *v = value,
            None => self.vars.push((name.to_owned(), value)),
        }
    }
}

/// The progress of this thread's run.
pub(super) struct Here<'a>(MutexGuard<'a, State>, usize);

impl Deref for Here<'_> {
    type Target = Progress;
    fn deref(&self) -> &Progress {
        &self.0.runs[self.1]
    }
}

impl DerefMut for Here<'_> {
    fn deref_mut(&mut self) -> &mut Progress {
        &mut self.0.runs[self.1]
    }
}

thread_local! {
    static THREAD: ThreadId = std::thread::current().id();
    /// The handler of a script that this thread has called last, and the status of the call.
    static STATUS: RefCell<Option<(String, i32)>> = const { RefCell::new(None) };
    /// For each handler that scripts call on this thread, the errors of the scripts that it has run.
    static CALLS: RefCell<Vec<Vec<String>>> = const { RefCell::new(Vec::new()) };
}

fn this_thread() -> ThreadId {
    THREAD.with(|thread| *thread)
}

/// Calls a handler for a script. Also returns the errors of the scripts that it runs.
pub(super) fn calling<R>(f: impl FnOnce() -> R) -> (R, Vec<String>) {
    CALLS.with_borrow_mut(|calls| calls.push(Vec::new()));
    STATUS.set(None);
    let result = f();
    (result, CALLS.with_borrow_mut(Vec::pop).unwrap_or_default())
}

/// The status of the last call on this thread, if it called this handler of a script.
pub(super) fn status_of(handler: &str) -> Option<i32> {
    STATUS.take().filter(|(called, _)| called == handler).map(|(_, status)| status)
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
    /// The heading of errors at the start.
    initializing: Option<String>,
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
    /// What errors that are printed begin with.
    indent: &'static str,
    /// Errors that the caller of a handler will get instead.
    kept: Option<Vec<String>>,
    pub(super) errors: usize,
}

impl Log {
    /// Errors are printed, under a heading.
    pub(crate) fn printed(caller: &dyn Caller, program: &Program) -> Self {
        let context = Some(program.executing());
        Self { context, kept: None, indent: "  ", ..Self::kept(caller, program) }
    }
    /// Errors are printed without one.
    fn bare(caller: &dyn Caller, program: &Program) -> Self {
        Self { kept: None, ..Self::kept(caller, program) }
    }
    fn kept(caller: &dyn Caller, program: &Program) -> Self {
        let (hub, name) = (Arc::clone(caller.hub()), program.name.clone());
        Self { hub, name, context: None, indent: "", kept: Some(Vec::new()), errors: 0 }
    }
    fn line(&mut self, line: String) {
        match &mut self.kept {
            Some(kept) => kept.push(line),
            None => self.hub.log(Level::ERROR, &self.name, &format!("{}{line}", self.indent)),
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
        let first = Progress { waited: vec![0; insns.len()], ..Progress::default() };
        let mut state = State { runs: vec![first], ..State::default() };
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
            initializing: None,
            state: Mutex::new(state),
            generation: OnceLock::new(),
        })
    }

    /// With a heading of errors at the start.
    pub(crate) fn initializing(self, heading: String) -> Self {
        Self { initializing: Some(heading), ..self }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }

    /// The progress of this thread's run, or of the last one.
    pub(super) fn here(&self) -> Here<'_> {
        let state = self.state();
        let own = state.own();
        Here(state, own)
    }

    /// Begins a run on this thread, unless it has one already; whether it has begun one. A thread that comes
    /// while another one runs the script runs it from where `change` puts it.
    fn begin(&self, change: impl FnOnce(&mut Progress)) -> bool {
        let mut state = self.state();
        let thread = Some(this_thread());
        let own = state.runs.iter().position(|run| run.thread == thread);
        let at = own.unwrap_or_else(|| {
            if state.runs[0].thread.is_none() {
                return 0;
            }
            let mut new = Progress { waited: vec![0; self.insns.len()], ..Progress::default() };
            new.returned = state.runs[0].returned.as_ref().map(|_| String::new());
            state.runs.push(new);
            state.runs.len() - 1
        });
        state.runs[at].thread = thread;
        change(&mut state.runs[at]);
        own.is_none()
    }

    /// Whether another thread runs the script, which then takes these steps, too.
    fn leave(&self, steps: i64) -> bool {
        let mut state = self.state();
        let thread = Some(this_thread());
        let other = state.runs[0].thread.is_some() && !state.runs.iter().any(|run| run.thread == thread);
        if other {
            state.later = state.later.saturating_add(steps.max(0));
        }
        other
    }

    /// Ends the run of this thread, after the steps that other threads have requested meanwhile.
    fn end(&self, caller: &mut dyn Caller, log: &mut Log) -> Done {
        loop {
            let done = self.done();
            let mut state = self.state();
            let own = state.own();
            if own > 0 {
                let mut run = state.runs.swap_remove(own);
                if !done.finished {
                    run.thread = None;
                    match state.runs[0].thread {
                        None => state.runs[0] = run,
                        Some(_) => state.next = Some(run),
                    }
                }
                return done;
            }
            if let Some(next) = state.next.take() {
                let thread = state.runs[0].thread;
                state.runs[0] = Progress { thread, ..next };
            } else if done.finished {
                state.later = 0;
            }
            // Few at a time, because the number of jumps is limited.
            let steps = state.later.min(i64::from(MAX_JUMPS / 2));
            state.later -= steps;
            if steps == 0 {
                state.runs[0].thread = None;
                return done;
            }
            drop(state);
            self.step(caller, steps, ResumedBy::Handler, 0, log);
        }
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
            "args" => Some(self.here().args.clone()),
            _ => self.state().get(name).map(str::to_owned),
        }
    }

    /// Sets a variable.
    pub(crate) fn set_variable(&self, name: &str, value: &str) {
        match name {
            "args" => value.clone_into(&mut self.here().args),
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
        if self.initializing.is_some() {
            log.context.clone_from(&self.initializing);
        }
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
                    self.here().timer = end;
                }
                Op::Initial => {
                    let now = caller.now_ns();
                    let mut run = self.here();
                    (run.timer, run.initial) = (Some(now), true);
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
        self.state().runs[0].timer
    }

    /// Whether this wait is the start of a driver script, whose end counts as a first request to stop.
    pub(crate) fn starts_driver(&self) -> bool {
        self.kind == ScriptType::Driver && self.state().runs[0].initial
    }

    /// Continues at the end of a wait.
    pub(crate) fn expire(&self, caller: &mut dyn Caller) -> Done {
        self.state().runs[0].timer = None;
        let by = if self.starts_driver() { ResumedBy::Driver } else { ResumedBy::Timer };
        self.resume(caller, by)
    }

    /// Runs the script because of a signal.
    pub(crate) fn signaled(&self, caller: &mut dyn Caller) -> Done {
        self.whole(caller, 0, ResumedBy::Handler, |run| run.pos = 0)
    }

    /// Takes a step.
    pub(crate) fn resume(&self, caller: &mut dyn Caller, by: ResumedBy) -> Done {
        if self.leave(1) {
            return Done::default();
        }
        self.whole(caller, 1, by, |_| ())
    }

    /// Runs the script for a packet.
    pub(crate) fn packet(&self, caller: &mut dyn Caller, input: usize) -> Done {
        self.state().set("input", input.to_string());
        self.whole(caller, 0, ResumedBy::Handler, |run| run.pos = 0)
    }

    /// A run whose errors are printed.
    pub(super) fn whole(
        &self,
        caller: &mut dyn Caller,
        steps: i64,
        by: ResumedBy,
        change: impl FnOnce(&mut Progress),
    ) -> Done {
        let begun = self.begin(change);
        // Click's driver calls its script without a heading; timers and packets have one.
        let mut log = match by {
            ResumedBy::Driver => Log::bare(caller, self),
            _ => Log::printed(caller, self),
        };
        self.step(caller, steps, by, 0, &mut log);
        if begun { self.end(caller, &mut log) } else { self.done() }
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
        let mut to = None;
        match what {
            "goto" => {
                let Some(Target::At(at)) = label(&self.insns, &data) else {
                    return Err(HandlerError::Failed("jump to nonexistent label".into()));
                };
                to = Some(at);
            }
            "step" if data == "router" => (steps, by) = (1, ResumedBy::Driver),
            "step" if data.is_empty() => steps = 1,
            "step" => match i32::from_arg(&data, &NameDb::default()) {
                Ok(n) => steps = i64::from(n),
                Err(_) => return Err(HandlerError::Failed("syntax error".into())),
            },
            _ => {}
        }
        if what == "step" && self.leave(steps) {
            return Ok(String::new());
        }
        let begun = self.begin(|run| {
            what.clone_into(&mut run.handler);
            run.writing = write;
            match to {
                Some(at) => {
                    run.waited[at..].fill(0);
                    run.pos = at;
                }
                None if what == "step" => {}
                None => {
                    run.pos = 0;
                    value.clone_into(&mut run.args);
                }
            }
        });
        let mut log = Log::kept(caller, self);
        let nested = self.here().more.is_some();
        if !nested {
            self.here().more = Some(-1);
            let mut jumps = 0;
            while steps >= 0 {
                jumps = self.step(caller, steps, by, jumps, &mut log);
                by = ResumedBy::Handler;
                steps = self.here().more.replace(-1).unwrap_or(-1);
            }
            self.here().more = None;
        } else if what == "step"
            && let Some(more) = &mut self.here().more
        {
            *more = more.saturating_add(steps);
        }
        let done = self.done();
        {
            let mut run = self.here();
            run.handler.clear();
            run.writing = false;
            if done.failed || done.stopped {
                run.args.clear();
            }
        }
        let done = if begun { self.end(caller, &mut log) } else { done };
        let status = if done.failed { FAILED } else { STOPPED };
        STATUS.set((done.failed || done.stopped).then(|| (format!("{}.{what}", self.name), status)));
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
        let mut state = self.state();
        let insn = self.insns.get(state.run().pos).map(|i| &i.op);
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
