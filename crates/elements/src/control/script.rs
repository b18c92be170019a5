//! # Script
//! Runs a script: calls handlers, waits, computes, stops the router.
//!
//! ## Synopsis
//! `Script([TYPE type,] INSTRUCTION, ...)`
//!
//! ## Arguments
//! - `TYPE` (*word*): what makes the script run.
//!   - `ACTIVE`: the start of the router. The default of scripts without ports. Its first step is a timer:
//!     under the name `click` and in simulated time, what elements do at the start comes before it.
//!   - `PASSIVE`: its handler `run`. `$args` is the handler's parameter, `$1`, `$2` its words, `$#` their
//!     number; `return`
//!     gives the handler's value.
//!   - `PACKET`: each packet. `$input` is the input port, and the packet leaves by the output that `return`
//!     names: 0 after
//!     `end`, none (it is dropped) after `exit`. The default of scripts with ports.
//!   - `PROXY`: any handler but those below, read or written: `$0` is its name, `$write` whether it is
//!     written, and the rest
//!     as for `PASSIVE`.
//!   - `DRIVER`: the start of the router, before elements do anything. Stop requests make a step of the
//!     script instead of stopping the router, which stops when the script ends. See DriverManager.
//!   - `SIGNAL SIGNO ...`: the process gets one of these signals (`HUP`, `INT`, `USR1`, ..., or numbers). The
//!     script handles
//!     the signal again after `end`; after another ending the next signal has its usual effect.
//! - `INSTRUCTION` (*see below*): what to do, one after the other.
//!
//! In the texts of all instructions `$name`, `${name}`, `${name-default}` and `${name[n]}` stand for
//! variables, `$?` for the status of the last `write` (0 or an error number below 0; of a script's `run`, -1
//! after `error` and 1 after `stop`), `$$` for the process
//! id, and `$(handler parameter)` for the value of a read handler. The handlers of the script itself need no
//! element name: `$(add $x 1)`. The forms ending in `q` remove a layer of quotes after that.
//!
//! - `set VAR TEXT`, `setq`: sets a variable. `init VAR TEXT`, `initq`: sets it once, before the start.
//!   `export VAR TEXT`, `exportq`: as `init`, and makes the variable a read handler.
//! - `print [>FILE | >>FILE] TEXT`: prints a line on the standard output (or writes it to a file, or appends
//!   it). A text that begins with a letter, `_` or `@` is a read handler, whose value is printed; `printq`
//!   unquotes its parameter. `printn` and `printnq` add no newline.
//! - `save HANDLER FILE`, `append HANDLER FILE`: write a read handler's value to a file.
//! - `read HANDLER [PARAMETER]`, `readq`: prints name and value of a read handler on standard error.
//! - `write HANDLER [VALUE]`, `writeq`: writes a handler.
//! - `pause [COUNT]` (or `wait_step`, `wait_stop`): waits for so many steps (default 1), by the handler
//!   `step`.
//! - `wait TIME` (or `wait_for`, `wait_time`): waits so long, in seconds unless there is a unit, or for a
//!   step. `wait` alone is `pause`.
//! - `label NAME`, `goto NAME [CONDITION]`: jumps to a label, if the condition is true. `begin`, `end`,
//!   `exit`, `stop` and `error` are labels too. `loop` jumps to the beginning. After 1000 jumps without a
//!   wait the script is aborted.
//! - `end`, `exit`: end the script. `stop`: ends it and asks the driver to stop. `return [VALUE]`, `returnq`:
//!   ends it with a value. `error [MESSAGE]`, `errorq`: ends it with an error.
//!
//! ## Ports
//! Any number of inputs and outputs, push or pull, for packet scripts; none for others.
//!
//! ## Handlers
//! - `run` (read/write): runs the script from its beginning; the parameter becomes `$args`.
//! - `step` (write): ends the `pause` or `wait` that the script is at, or so many of them.
//! - `goto` (write): continues at a label.
//! - `add`, `sub`, `mul`, `min`, `max` (read): of a list of numbers. Integers as long as all are integers.
//! - `div`, `idiv` (read): quotient of the first number and all others; `idiv` truncates it to an integer.
//! - `mod`, `rem` (read): remainder of two integers; `rem` takes fractions too.
//! - `neg`, `abs` (read): of one number.
//! - `eq`, `ne`, `lt`, `gt`, `le`, `ge` (read): compare two numbers, or, if either is none, two texts.
//! - `not`, `and`, `or`, `nand`, `nor` (read): of truth values.
//! - `if` (read): the second word if the first is true, else the third.
//! - `in` (read): whether the first word is among the others.
//! - `first` (read): the first word.
//! - `sprintf` (read): a format as C's, and what goes into it.
//! - `random` (read): a random integer below N, from N1 to N2, or below 2^31.
//! - `length` (read): the length of the parameter in bytes.
//! - `unquote` (read): the parameter without a layer of quotes.
//! - `htons`, `htonl`, `ntohs`, `ntohl` (read): an integer with its bytes in the other order.
//! - `now` (read): the time in seconds since the epoch.
//! - `readable`, `writable` (read): whether all the handlers named can be read (written).
//! - `cat`, `catq` (read): the contents of a file, as they are or quoted. Not for control sockets.
//! - `kill` (read): sends a signal to processes: `kill USR1 $$`. Not for control sockets.
//! - `get` (read): the value of a variable.
//! - `set` (write): a variable and its value.
//! - `shift` (read): removes the first word of a variable (`args` if none is named) and returns it.
//! - `*` (read/write): any other handler, of a proxy; the variables of `export` can be read.
//!
//! A parameter, and the text that `sprintf` makes, is at most 1 MB long.
//!
//! ## Threads
//! Runs outside the workers, but packet scripts on one worker. A packet script with several workers writes
//! other elements' handlers after the packet has passed. A script whose handlers are called on several
//! threads at a time runs on each of them from its beginning; variables are common to all.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1000) -> c :: Counter -> Discard;
//! Script(set x 0,
//!        label again,
//!        print "$x of $(c.count) packets",
//!        set x $(add $x 1),
//!        goto again $(lt $x 3),
//!        stop);
//! ```
//!
//! ## See also
//! DriverManager, ControlSocket

use super::engine::functions::{FUNCTIONS, PRIVATE, bounded, signal};
use super::engine::program::{Program, ResumedBy, ScriptType};
use super::engine::signals::Watch;
use crate::plumbing::engine::text::timestamp;
use crate::prelude::*;
use lang::args::Raw;
use lang::quote::shift_word;
use locks::IgnorePoison;
use runtime::{CallArgs, Caller, Control, ControlTask, Dynamic, HandlerError};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

const SCRIPT: DropReason = DropReason::new("script");

/// The `Script` element, and `DriverManager`, which is a script with another default type.
pub struct Script<const DRIVER: bool> {
    program: Arc<Program>,
}

fn kind_of(text: &str) -> Result<ScriptType, String> {
    let (word, rest) = shift_word(text);
    Ok(match (word.as_str(), rest.is_empty()) {
        ("ACTIVE", true) => ScriptType::Active,
        ("PASSIVE", true) => ScriptType::Passive,
        ("PACKET" | "PUSH", true) => ScriptType::Packet,
        ("PROXY", true) => ScriptType::Proxy,
        ("DRIVER", true) => ScriptType::Driver,
        ("SIGNAL", _) => {
            let signals: Option<Vec<i32>> =
                lang::split_words(&rest).iter().map(|w| signal(&w.text)).collect();
            ScriptType::Signal(signals.filter(|s| !s.is_empty()).ok_or("bad signal number")?)
        }
        _ => return Err("bad TYPE".into()),
    })
}

/// Whether an element of the configuration is a driver script.
fn is_driver(class: &str, config: &str) -> bool {
    let default = class == "DriverManager";
    let args = lang::split_args(config);
    let kind =
        args.iter().rev().find_map(|a| a.text.strip_prefix("TYPE").filter(|t| t.starts_with([' ', '\t'])));
    (default || class == "Script") && kind.map_or(default, |k| k.trim() == "DRIVER")
}

impl<const DRIVER: bool> Element for Script<DRIVER> {
    const CLASS: &'static str = if DRIVER { "DriverManager" } else { "Script" };
    const PORTS: &'static str = "-/-";
    const PROCESSING: &'static str = "ah/ah";
    const DROPS: &'static [DropCase] = &[SCRIPT.when("a packet script did not send the packet anywhere")];
    const OPENS: Option<Opens> = Some(Opens::AnyFile);
    const MANUAL: &'static str =
        if DRIVER { super::drivermanager::MANUAL } else { manual!("control/script") };

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ports = cx.n_inputs() + cx.n_outputs() > 0;
        let kind = match args.k::<Raw>("TYPE")? {
            Some(text) => kind_of(&text.0).map_err(|e| args.error(e))?,
            None if DRIVER => ScriptType::Driver,
            None if ports => ScriptType::Packet,
            None => ScriptType::Active,
        };
        if kind == ScriptType::Driver {
            let drivers = cx.config().elements.iter().filter(|e| is_driver(&e.class, &e.config));
            if drivers.map(|e| &e.name).next().is_some_and(|first| first != cx.name()) {
                return Err("router has more than one driver script".into());
            }
        }
        if kind == ScriptType::Packet && cx.n_inputs() == 0 {
            return Err("PACKET script must have inputs".into());
        }
        if kind != ScriptType::Packet && ports {
            return Err("ports allowed only on PACKET scripts".into());
        }
        let list = args.rest_args();
        let texts: Vec<String> = list.iter().map(|a| a.text.clone()).collect();
        let program = Program::new(cx.name(), Self::CLASS, kind, &texts).map_err(|errors| {
            let mut first = None;
            for (at, message) in errors {
                let e = match at {
                    Some(at) => args.error_at(&list[at], message),
                    None => args.error(message),
                };
                first.get_or_insert(e);
            }
            first.unwrap_or_else(|| ArgError::new("bad script"))
        })?;
        let program = program.initializing(cx.while_initializing());
        let program = cx.going_on().unwrap_or_else(|| Arc::new(program));
        cx.publish(Arc::clone(&program));
        let watch = Arc::new(OnceLock::new());
        if let ScriptType::Signal(signals) = &program.kind {
            cx.permits(Outside::TakeSignals, args)?;
            Watch::allows(signals).map_err(|e| args.error(e))?;
            let (place, signals, hub) = (Arc::clone(&watch), signals.clone(), Arc::clone(cx.hub()));
            cx.at_change_over(move || {
                // Set once, here.
                let _ = place.set(Mutex::new(Watch::new(&signals, &hub)?));
                Ok(())
            });
        }
        cx.control(Box::new(Task { program: Arc::clone(&program), watch }));
        Ok(Self { program })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.called_write("step", act);
        h.called_write("goto", act);
        h.called_read("run", act);
        h.called_write("run", act);
        for function in FUNCTIONS {
            h.called_read(function.name, compute);
        }
        PRIVATE.iter().for_each(|name| h.private(name));
        h.called_read("now", |_: &Program, caller, _| Ok(timestamp(caller.now_ns().cast_signed())));
        h.no_parameter("now");
        h.called_read("readable", accessible);
        h.called_read("writable", accessible);
        h.called_read("get", variable);
        h.called_write("set", variable);
        h.called_read("shift", variable);
        h.called_any(
            |p: &Program| Dynamic {
                readable: p.exported(),
                writable: false,
                any: p.kind == ScriptType::Proxy,
            },
            |p, caller, args| {
                p.prepare(caller);
                if !args.write && p.exported().iter().any(|v| v == args.name) {
                    return Ok(p.variable(args.name).unwrap_or_default());
                }
                act(p, caller, args)
            },
        );
        h.listed(&[
            "step", "goto", "run", "add", "sub", "min", "max", "mul", "div", "idiv", "mod", "rem", "neg",
            "abs", "eq", "ne", "gt", "ge", "lt", "le", "not", "sprintf", "first", "random", "and", "or",
            "nand", "nor", "if", "in", "now", "readable", "writable", "length", "unquote", "htons", "htonl",
            "ntohs", "ntohl", "cat", "catq", "kill", "get", "set", "shift", "*",
        ]);
    }
}

impl<const DRIVER: bool> Vector for Script<DRIVER> {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let many = batch.len() > 1;
        for packet in batch.drain(..) {
            match self.output(port, cx) {
                Some(to) => cx.output(to, packet),
                None => cx.drop(packet, SCRIPT),
            }
            if many {
                cx.flush_lending(self);
            }
        }
        cx.recycle(batch);
    }

    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        for _ in 0..max {
            let Some(packet) = cx.lend(self, |cx| cx.pull_one(port)) else { return };
            match self.output(0, cx) {
                Some(0) => out.push(packet),
                Some(to) => cx.output(to, packet),
                None => cx.drop(packet, SCRIPT),
            }
        }
    }
}

impl<const DRIVER: bool> Script<DRIVER> {
    /// Runs the script for a packet; returns the output.
    fn output(&self, input: usize, cx: &mut Cx<'_>) -> Option<usize> {
        self.program.prepare(cx);
        let to = self.program.packet(cx, input).value.trim().parse().ok();
        to.filter(|to| *to < cx.n_outputs())
    }
}

fn failed(message: impl Into<String>) -> HandlerError {
    HandlerError::Failed(message.into())
}

/// `run`, `step`, `goto`, and the handlers of proxies.
fn act(program: &Program, caller: &mut dyn Caller, args: &CallArgs<'_>) -> Result<String, HandlerError> {
    bounded(args.value).map_err(failed)?;
    program.prepare(caller);
    program.handle(caller, args.name, args.value, args.write)
}

fn compute(_: &Program, caller: &mut dyn Caller, args: &CallArgs<'_>) -> Result<String, HandlerError> {
    let function = FUNCTIONS.iter().find(|f| f.name == args.name);
    let function = function.ok_or_else(|| HandlerError::NoHandler(args.name.into()))?;
    bounded(args.value).and_then(|()| function.of(args.value, caller.hub())).map_err(failed)
}

/// `readable` and `writable`.
fn accessible(
    program: &Program,
    caller: &mut dyn Caller,
    args: &CallArgs<'_>,
) -> Result<String, HandlerError> {
    bounded(args.value).map_err(failed)?;
    let write = args.name == "writable";
    let all = lang::split_words(args.value).iter().all(|word| {
        let own = format!("{}.{}", program.name, word.text);
        (!word.text.contains('.') && caller.look_up("", &own, write).is_ok())
            || caller.look_up(&program.name, &word.text, write).is_ok()
    });
    Ok(all.to_string())
}

/// `get`, `set` and `shift`.
fn variable(program: &Program, caller: &mut dyn Caller, args: &CallArgs<'_>) -> Result<String, HandlerError> {
    bounded(args.value).map_err(failed)?;
    program.prepare(caller);
    let (mut name, rest) = shift_word(args.value);
    if args.write && !name.is_empty() {
        program.set_variable(&name, &rest);
        return Ok(String::new());
    }
    if name.is_empty() && args.name == "shift" {
        "args".clone_into(&mut name);
    }
    if name.is_empty() {
        return Err(failed("no variable"));
    }
    if !rest.is_empty() {
        return Err(failed("too many arguments"));
    }
    let value = if args.name == "shift" { program.shift(&name) } else { program.variable(&name) };
    value.ok_or_else(|| failed(format!("undefined variable '{name}'")))
}

/// The part on the control thread: waits, signals, and the driver's requests to stop.
struct Task {
    program: Arc<Program>,
    /// Set when the configuration takes over, for scripts that handle signals.
    watch: Arc<OnceLock<Mutex<Watch>>>,
}

impl Task {
    fn watch(&self) -> Option<MutexGuard<'_, Watch>> {
        self.watch.get().map(|watch| watch.lock().ignore_poison())
    }
}

impl ControlTask for Task {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let program = &self.program;
        let generation = router.generation();
        program.prepare(router);
        if self.watch().is_some_and(|watch| watch.take()) {
            let done = program.signaled(router);
            if let Some(mut watch) = self.watch() {
                watch.arm(done.ended);
            }
        }
        let mut finished = false;
        let starts = program.starts_driver();
        let turn = starts || router.runs_timers();
        if turn && router.generation() == generation && program.due().is_some_and(|at| at <= router.now_ns())
        {
            finished = program.expire(router).finished && starts;
        }
        while program.kind == ScriptType::Driver && !finished && router.generation() == generation {
            if !router.hub().take_stop() {
                break;
            }
            finished = program.resume(router, ResumedBy::Driver).finished;
        }
        if router.generation() != generation {
            return Some(0);
        }
        if finished {
            router.exit();
            return None;
        }
        program.due()
    }
    fn signaled(&self) -> bool {
        self.watch().is_some_and(|watch| watch.has_come())
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn manages_driver(&self) -> bool {
        self.program.kind == ScriptType::Driver
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// A bench that runs a passive script next to a counter.
    fn passive(instructions: &str) -> Bench {
        Bench::with_config(
            &format!("e :: Script(TYPE PASSIVE, {instructions}); c :: Counter; Idle -> c -> Discard;"),
            0,
            0,
        )
    }

    fn run(bench: &mut Bench, args: &str) -> Result<String, HandlerError> {
        bench.router().read("e.run", args)
    }

    #[test]
    fn a_passive_script_is_a_handler() {
        let mut bench = passive("return $(add $1 $2 $# $(c.count))");
        assert_eq!(run(&mut bench, "20 3"), Ok("25".into()));
        let mut bench = passive(
            "set n 0, set sum 0, label l, set n $(add $n 1), set sum $(add $sum $n), goto l $(lt $n $args), return $sum",
        );
        assert_eq!(run(&mut bench, "10"), Ok("55".into()));
        assert_eq!(run(&mut bench, "4"), Ok("10".into()));
    }

    #[test]
    fn q_forms_remove_quotes() {
        let mut bench = passive("set x \"a b\", setq y \"a b\", return $x|$y");
        assert_eq!(run(&mut bench, ""), Ok("\"a b\"|a b".into()));
        let mut bench = passive("returnq $1");
        assert_eq!(run(&mut bench, "\"\\<41 42>\""), Ok("AB".into()));
    }

    #[test]
    fn errors_come_back_to_the_caller() {
        let mut bench = passive("errorq \"no way\"");
        assert_eq!(run(&mut bench, ""), Err(failed("no way")));
        let mut bench = passive("write c.nothing, return $?, error");
        assert_eq!(run(&mut bench, ""), Ok("0".into()));
        let mut bench = passive("write e.goto nowhere, return $?");
        assert_eq!(run(&mut bench, ""), Ok("-22".into()));
        for (ending, status) in [("error", "-1"), ("errorq \"no\"", "-1"), ("stop", "1"), ("exit", "0")] {
            let config = format!(
                "e :: Script(TYPE PASSIVE, write b.run, return $?); b :: Script(TYPE PASSIVE, {ending})"
            );
            let mut bench = Bench::with_config(&config, 0, 0);
            assert_eq!(run(&mut bench, ""), Ok(status.into()), "{ending}");
        }
        assert_eq!(bench.try_write("goto", "nowhere"), Err(failed("jump to nonexistent label")));
        assert_eq!(bench.try_write("step", "x"), Err(failed("syntax error")));
    }

    #[test]
    fn variables_have_handlers() {
        let mut bench = passive("export x 5, init y 6, set x $args");
        assert_eq!(bench.read("x"), "5");
        assert!(bench.try_read("y").is_err());
        assert_eq!(bench.router().read("e.get", "y"), Ok("6".into()));
        run(&mut bench, "7").unwrap();
        assert_eq!(bench.read("x"), "7");
        bench.write("set", "y one two");
        assert_eq!(bench.router().read("e.shift", "y"), Ok("one".into()));
        assert_eq!(bench.router().read("e.get", "y"), Ok("two".into()));
        assert_eq!(bench.router().read("e.get", "z"), Err(failed("undefined variable 'z'")));
        assert!(bench.read("handlers").contains("x\tr\n"));
    }

    #[test]
    fn a_proxy_answers_to_any_name() {
        let mut bench = Bench::with_config("e :: Script(TYPE PROXY, return $0 $write $args);", 0, 0);
        assert_eq!(bench.router().read("e.anything", "x y"), Ok("anything false x y".into()));
        assert_eq!(bench.router().read("e.add", "1 2"), Ok("3".into()));
        assert!(bench.router().check_handler("e.more", true).is_ok());
    }

    #[test]
    fn steps_and_waits() {
        let mut bench = Bench::simulated(
            "e :: Script(export at start, pause 2, set at paused, wait 5, set at waited);",
            0,
            0,
        );
        bench.turns(3);
        assert_eq!(bench.read("at"), "start");
        bench.write("step", "");
        assert_eq!(bench.read("at"), "start");
        bench.write("step", "");
        assert_eq!(bench.read("at"), "paused");
        bench.write("step", "");
        assert_eq!(bench.read("at"), "waited");
        bench.write("goto", "begin");
        bench.write("step", "2");
        let before = bench.router().now_ns();
        bench.turns(3);
        assert_eq!(bench.read("at"), "waited");
        assert_eq!(bench.router().now_ns() - before, 5_000_000_000);
    }

    #[test]
    fn packets_go_where_the_script_says() {
        let mut bench =
            Bench::with_ports("Script(TYPE PACKET, init n 0, set n $(add $n 1), return $(sub $n 1))", 1, 2);
        assert_eq!(bench.push(0, b"a")[0].0, 0);
        assert_eq!(bench.push(0, b"b")[0].0, 1);
        assert!(bench.push(0, b"c").is_empty());
        assert_eq!(bench.drops(), [("script".to_owned(), 1)]);
        let mut bench = Bench::with_ports("Script(end)", 1, 1);
        assert_eq!(bench.push(0, b"a").len(), 1);
        let mut bench = Bench::with_ports("Script(exit)", 1, 1);
        assert!(bench.push(0, b"a").is_empty());
    }

    #[test]
    fn a_packet_script_acts_before_its_packet_goes_on() {
        let mut bench = Bench::with_config(
            "e :: Script(write s.switch $input) -> s :: Switch; s [0] -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard;",
            2,
            0,
        );
        for port in [0, 1, 1] {
            bench.push(port, b"x");
        }
        assert_eq!((bench.read("a.count"), bench.read("b.count")), ("1".into(), "2".into()));
    }

    #[test]
    fn wrong_scripts_are_refused() {
        for (script, message) in [
            ("Script(TYPE FOO)", "bad TYPE"),
            ("Script(TYPE SIGNAL NOTHING)", "bad signal number"),
            ("Script(foo)", "syntax error at 'foo'"),
            ("Script(set x)", "syntax error at 'set'"),
            ("Script(pause x)", "syntax error at 'pause'"),
            ("Script(label a b)", "syntax error at 'label'"),
            ("Script(end now)", "syntax error at 'end'"),
            ("Script(goto nowhere)", "no such label 'nowhere'"),
            ("Null; Script(TYPE PACKET)", "PACKET script must have inputs"),
            ("Null; Idle -> Script(TYPE PASSIVE) -> Discard", "ports allowed only on PACKET scripts"),
            ("Null; DriverManager; Script(TYPE DRIVER)", "router has more than one driver script"),
        ] {
            let error = match script.strip_prefix("Null; ") {
                Some(rest) => Bench::error(&format!("Null; {rest}")),
                None => Bench::error(&format!("Null; {script}")),
            };
            assert!(error.contains(message), "{script}: {error}");
        }
    }
}
