//! The execution of a script: a step, and a function for each kind of instruction.

use super::instructions::{Ending, Insn, Op, Target};
use super::program::{Log, MAX_JUMPS, Program, RETURNED, ResumedBy};
use crate::plumbing::engine::text;
use lang::quote::shift_word;
use lang::unquote;
use runtime::{Caller, FromArg, Level, NameDb};
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

/// A run of instructions.
struct Run<'a> {
    caller: &'a mut dyn Caller,
    log: &'a mut Log,
    by: ResumedBy,
    /// The number of steps that will have been taken at its end.
    last: i64,
}

impl Program {
    /// The end of the wait that an instruction specifies.
    pub(super) fn wait(&self, caller: &mut dyn Caller, log: &mut Log, at: usize) -> Option<u64> {
        let text = self.expand(caller, log, &self.insns[at].text, false);
        match Duration::from_arg(text.trim(), &NameDb::default()) {
            Ok(time) => Some(caller.now_ns().saturating_add(text::nanos(time))),
            Err(_) => {
                log.error(None, "syntax error at 'wait'");
                None
            }
        }
    }

    /// Runs instructions until one blocks and there are no steps left to pass it. Returns the number of jumps
    /// so far.
    pub(super) fn step(
        &self,
        caller: &mut dyn Caller,
        steps: i64,
        by: ResumedBy,
        mut jumps: u32,
        log: &mut Log,
    ) -> u32 {
        let last = self.here().steps.saturating_add(steps);
        let mut run = Run { caller, log, by, last };
        let account = accounts::inherit();
        while let Some(at) = self.advance(last, jumps) {
            if let Some(exceeded) = account.overdrawn() {
                let message = format!("{} :: {}: {exceeded}, giving up", self.name, self.class);
                run.log.hub.log(Level::ERROR, &self.name, &message);
                break;
            }
            if self.instruction(&mut run, at).is_break() {
                return jumps + 1;
            }
            if self.here().pos != at + 1 {
                jumps += 1;
            }
        }
        if jumps >= MAX_JUMPS {
            let message = format!("{} :: {}: too many jumps, giving up", self.name, self.class);
            run.log.hub.log(Level::ERROR, &self.name, &message);
            let mut here = self.here();
            here.pos = self.insns.len();
            here.timer = None;
        }
        jumps + 1
    }

    /// The next instruction, if one is to be run.
    fn advance(&self, last: i64, jumps: u32) -> Option<usize> {
        let mut here = self.here();
        if last - here.steps < 0 || here.pos >= self.insns.len() || jumps >= MAX_JUMPS {
            return None;
        }
        // The counter is increased before the instruction runs, because a handler that the instruction calls
        // may jump.
        here.pos += 1;
        Some(here.pos - 1)
    }

    /// Runs an instruction; `Break` if the script cannot continue after it now.
    fn instruction(&self, run: &mut Run<'_>, at: usize) -> ControlFlow<()> {
        let Insn { op, text } = &self.insns[at];
        match op {
            Op::Initial => self.initial(),
            Op::WaitStep(count) => return self.wait_step(run, at, *count),
            Op::WaitTime => return self.wait_time(run, at),
            Op::Print { newline, unquote } => self.print(run.caller, run.log, text, *newline, *unquote),
            Op::Save { append } => self.save(run, text, *append),
            Op::Read { unquote } => self.show(run, text, *unquote),
            Op::Write { unquote } => {
                let text = self.expand(run.caller, run.log, text, false);
                self.write(run.caller, run.log, &text, *unquote);
            }
            Op::Set { var, unquote } => {
                let value = self.value(run, text, *unquote);
                self.state().set(var, value);
            }
            Op::Return { unquote } => return self.give_back(run, at, text, *unquote),
            Op::Init { .. } | Op::Label => {}
            Op::Goto(target) => return self.goto(run, at, *target, text),
            Op::Finish(end) => return self.finish(run, *end),
            Op::Error { unquote } => return self.fail(run, text, *unquote),
        }
        Continue(())
    }

    /// A text's value.
    fn value(&self, run: &mut Run<'_>, text: &str, unquoted: bool) -> String {
        let value = self.expand(run.caller, run.log, text, false);
        if unquoted { unquote(&value) } else { value }
    }

    /// The step that starts the script.
    fn initial(&self) {
        let mut here = self.here();
        if std::mem::take(&mut here.initial) {
            here.steps += 1;
        }
    }

    /// `wait_step`.
    fn wait_step(&self, run: &Run<'_>, at: usize, count: u32) -> ControlFlow<()> {
        let mut here = self.here();
        let left = i64::from(count.saturating_sub(here.waited[at])).min(run.last - here.steps);
        here.waited[at] += u32::try_from(left).unwrap_or(0);
        here.steps += left;
        if here.steps == run.last && here.waited[at] < count {
            here.step_back();
            return Break(());
        }
        Continue(())
    }

    /// `wait_time`: the script stays here until a step is taken, at the end of the time or before.
    fn wait_time(&self, run: &mut Run<'_>, at: usize) -> ControlFlow<()> {
        if self.here().steps == run.last {
            if let Some(end) = self.wait(run.caller, run.log, at) {
                let mut here = self.here();
                here.timer = Some(end);
                here.step_back();
            }
            return Break(());
        }
        let mut here = self.here();
        here.steps += 1;
        here.timer = None;
        Continue(())
    }

    /// `save` and `append`: writes a handler's value to a file.
    fn save(&self, run: &mut Run<'_>, text: &str, append: bool) {
        let (handler, file) = shift_word(text);
        let file = if file.is_empty() { "-" } else { &file };
        let to = if append { ">>" } else { ">" };
        self.print(run.caller, run.log, &format!("{to}{file} {handler}"), true, false);
    }

    /// `read`.
    fn show(&self, run: &mut Run<'_>, text: &str, unquoted: bool) {
        let text = self.expand(run.caller, run.log, text, false);
        if let Some((name, result)) = self.read(run.caller, run.log, &text, unquoted, true) {
            run.log.hub.chatter(&format!("{name}:\n{result}"));
        }
    }

    /// `return`.
    fn give_back(&self, run: &mut Run<'_>, at: usize, text: &str, unquoted: bool) -> ControlFlow<()> {
        let value = self.value(run, text, unquoted);
        self.state().set(RETURNED, value);
        let mut here = self.here();
        if here.pos == at + 1 {
            here.step_back();
            return Break(());
        }
        Continue(())
    }

    /// `goto`, if its condition holds.
    fn goto(&self, run: &mut Run<'_>, at: usize, target: Target, condition: &str) -> ControlFlow<()> {
        let condition = self.expand(run.caller, run.log, condition, false);
        let go = condition.is_empty()
            || bool::from_arg(condition.trim(), &NameDb::default()).unwrap_or_else(|_| {
                run.log.error(None, &format!("bad condition '{condition}'"));
                false
            });
        match target {
            Target::Finish(end) if go => {
                self.request_stop(run, end);
                self.here().step_back();
                return Break(());
            }
            Target::At(to) if go => {
                let mut here = self.here();
                if to < at {
                    here.waited[to..at].fill(0);
                }
                here.pos = to;
            }
            _ => {}
        }
        Continue(())
    }

    /// `end`, `exit`, `stop`.
    fn finish(&self, run: &Run<'_>, end: Ending) -> ControlFlow<()> {
        {
            let mut here = self.here();
            if end == Ending::Stop {
                here.steps += 1;
            }
            here.step_back();
        }
        self.request_stop(run, end);
        Break(())
    }

    /// `error`.
    fn fail(&self, run: &mut Run<'_>, text: &str, unquoted: bool) -> ControlFlow<()> {
        let message = self.value(run, text, unquoted);
        if !message.is_empty() {
            run.log.error(None, &message);
        }
        self.here().step_back();
        Break(())
    }
}

impl Program {
    /// Asks the router to stop, if that is how the script ended; not if the driver itself made the request.
    fn request_stop(&self, run: &Run<'_>, end: Ending) {
        let hub = run.caller.hub();
        if end == Ending::Stop && run.by != ResumedBy::Driver && !self.is_replaced(hub) {
            hub.request_stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::engine::program::{Done, ScriptType};
    use crate::testing::Bench;
    use runtime::HandlerError;
    use std::sync::Arc;

    /// A passive script and a router that it acts on.
    fn passive(instructions: &[&str]) -> (Program, Bench) {
        let bench =
            Bench::with_config("s :: Script(TYPE PASSIVE); c :: Counter; Idle -> c -> Discard;", 0, 0);
        let args: Vec<String> = instructions.iter().map(|&i| i.to_owned()).collect();
        (Program::new("s", "Script", ScriptType::Passive, &args).expect("a script"), bench)
    }

    /// Takes steps, and returns the script's position afterwards.
    fn step(program: &Program, bench: &mut Bench, steps: i64, by: ResumedBy) -> usize {
        let router = bench.router();
        let mut log = Log::printed(router, program);
        program.step(router, steps, by, 0, &mut log);
        program.here().pos
    }

    fn run(program: &Program, bench: &mut Bench) -> Done {
        program.packet(bench.router(), 0)
    }

    #[test]
    fn a_wait_takes_as_many_steps_as_it_says() {
        let (program, mut bench) = passive(&["wait_step 2", "set x 1", "wait_step", "set x 2"]);
        assert_eq!(step(&program, &mut bench, 0, ResumedBy::Handler), 0);
        assert_eq!(step(&program, &mut bench, 1, ResumedBy::Handler), 0);
        assert_eq!(program.variable("x"), Some(String::new()));
        // The second step ends the first wait; the next one blocks.
        assert_eq!(
            (step(&program, &mut bench, 1, ResumedBy::Handler), program.variable("x")),
            (2, Some("1".into()))
        );
        // There are more steps than waits: none are left at the end.
        assert_eq!(
            (step(&program, &mut bench, 5, ResumedBy::Handler), program.variable("x")),
            (4, Some("2".into()))
        );
    }

    #[test]
    fn a_wait_for_a_time_sets_the_timer_until_a_step_is_taken() {
        let (program, mut bench) = passive(&["wait 2s", "set x 1"]);
        let now = bench.router().now_ns();
        assert_eq!(step(&program, &mut bench, 0, ResumedBy::Handler), 0);
        assert!(program.due().is_some_and(|end| end >= now + 2_000_000_000), "{:?}", program.due());
        assert_eq!(step(&program, &mut bench, 1, ResumedBy::Timer), 2);
        assert_eq!((program.due(), program.variable("x")), (None, Some("1".into())));
    }

    #[test]
    fn a_time_that_is_none_blocks_once() {
        let (program, mut bench) = passive(&["wait soon", "set x 1"]);
        let lines = bench.listen();
        step(&program, &mut bench, 0, ResumedBy::Handler);
        assert_eq!((program.due(), program.variable("x")), (None, Some(String::new())));
        assert!(lines.lock().unwrap().iter().any(|l| l.contains("syntax error at 'wait'")));
        step(&program, &mut bench, 0, ResumedBy::Handler);
        assert_eq!(program.variable("x"), Some("1".into()));
    }

    #[test]
    fn a_jump_back_makes_the_waits_between_wait_again() {
        let (program, mut bench) = passive(&["wait_step", "goto begin"]);
        assert_eq!(step(&program, &mut bench, 0, ResumedBy::Handler), 0);
        for _ in 0..3 {
            assert_eq!(step(&program, &mut bench, 1, ResumedBy::Handler), 0);
            assert_eq!(program.here().waited[0], 0);
        }
    }

    #[test]
    fn conditions_decide_about_jumps() {
        for (condition, x) in [("", "0"), ("true", "0"), ("false", "1"), ("perhaps", "1")] {
            let jump = format!("goto over {condition}");
            let (program, mut bench) = passive(&["set x 0", &jump, "set x 1", "label over", "return $x"]);
            assert_eq!(run(&program, &mut bench).value, x, "{condition}");
        }
    }

    #[test]
    fn endless_loops_are_given_up() {
        let (program, mut bench) = passive(&["set x 1", "goto begin"]);
        let lines = bench.listen();
        assert_eq!(step(&program, &mut bench, 0, ResumedBy::Handler), program.insns.len());
        assert_eq!(*lines.lock().unwrap(), ["s :: Script: too many jumps, giving up"]);
    }

    #[test]
    fn what_is_returned_stays_where_it_was_returned() {
        let (program, mut bench) = passive(&["return $input", "set x 1"]);
        for _ in 0..2 {
            let done = run(&program, &mut bench);
            assert_eq!((done.value.as_str(), done.finished, done.failed), ("0", true, false));
            let pos = program.here().pos;
            assert_eq!(
                (program.insns[pos].text.as_str(), program.variable("x")),
                ("$input", Some(String::new()))
            );
        }
    }

    #[test]
    fn errors_end_a_script() {
        let (program, mut bench) = passive(&["errorq \"no way\"", "set x 1"]);
        let lines = bench.listen();
        let done = run(&program, &mut bench);
        assert!(done.failed && done.finished && program.variable("x") == Some(String::new()));
        assert_eq!(*lines.lock().unwrap(), ["While executing 's :: Script':", "  no way"]);
    }

    #[test]
    fn only_others_than_the_driver_are_told_to_stop() {
        for instructions in [&["stop"][..], &["goto stop"]] {
            for (by, requests) in [(ResumedBy::Driver, 0), (ResumedBy::Handler, 1), (ResumedBy::Timer, 1)] {
                let (program, mut bench) = passive(instructions);
                let before = bench.router().hub().stop_requests();
                step(&program, &mut bench, 0, by);
                assert_eq!(
                    bench.router().hub().stop_requests() - before,
                    requests,
                    "{instructions:?} {by:?}"
                );
            }
        }
        let (program, mut bench) = passive(&["exit"]);
        let done = run(&program, &mut bench);
        assert!(done.finished && !done.stopped && bench.router().hub().stop_requests() == 0);
    }

    #[test]
    fn runs_on_several_threads_do_not_disturb_each_other() {
        for instructions in
            [&["goto x $(eq 1 2)", "set n 1", "label x", "return $args$input"][..], &["goto end true"]]
        {
            let (program, mut bench) = passive(instructions);
            let (program, mut expected) = (Arc::new(program), String::new());
            if instructions.len() > 1 {
                expected.push('5');
            }
            program.set_variable("input", "");
            let other = Arc::clone(&program);
            let running = std::thread::spawn(move || {
                let mut bench = Bench::with_config("s :: Script(TYPE PASSIVE); Idle -> Discard;", 0, 0);
                (0..3000).all(|_| other.handle(bench.router(), "run", "5", true) == Ok(expected.clone()))
            });
            for _ in 0..3000 {
                let done = program.whole(bench.router(), 0, ResumedBy::Handler, |run| run.pos = 0);
                assert!(done.finished && done.value.len() < 2, "{done:?}");
            }
            assert!(running.join().unwrap());
        }
    }

    #[test]
    fn steps_that_another_thread_takes_meanwhile_are_not_lost() {
        let (program, mut bench) =
            passive(&["wait_step", "set n $(add $n 1)", "goto begin $(lt $n 2000)", "set done 1"]);
        program.set_variable("n", "0");
        let program = Arc::new(program);
        let other = Arc::clone(&program);
        let stepping = std::thread::spawn(move || {
            let mut bench = Bench::with_config("s :: Script(TYPE PASSIVE); Idle -> Discard;", 0, 0);
            (0..1000).for_each(|_| drop(other.handle(bench.router(), "step", "", true)));
        });
        (0..1000).for_each(|_| drop(program.handle(bench.router(), "step", "", true)));
        stepping.join().unwrap();
        assert_eq!(program.variable("n"), Some("2000".into()));
    }

    #[test]
    fn a_number_of_steps_is_one_of_clicks_integers() {
        let (program, mut bench) = passive(&["wait_step", "set x 1", "write s.step 2147483647", "pause 3"]);
        let mut step = |n: &str| program.handle(bench.router(), "step", n, true);
        for n in ["2147483648", "9223372036854775807", "-2147483649", "1.5"] {
            assert_eq!(step(n), Err(HandlerError::Failed("syntax error".into())), "{n}");
        }
        assert!(step("2147483647").is_ok() && step("2147483647").is_ok() && step("-2147483648").is_ok());
    }

    #[test]
    fn handlers_are_written_and_their_status_is_kept() {
        let (program, mut bench) = passive(&["write c.reset", "set ok $?", "write c.nothing", "return $ok"]);
        assert_eq!(run(&program, &mut bench).value, "0");
        let lines = bench.listen();
        run(&program, &mut bench);
        assert!(lines.lock().unwrap().iter().any(|l| l.contains("no 'c.nothing' write handler")));
    }
}
