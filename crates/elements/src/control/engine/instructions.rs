//! The instructions of scripts, and how they are read.

use lang::quote::shift_word;
use runtime::{FromArg, NameDb};

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    End,
    Exit,
    Stop,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    At(usize),
    Finish(Ending),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Precedes scripts that do not begin with a wait: it takes the step that starts the script.
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
pub(super) struct Insn {
    pub(super) op: Op,
    pub(super) text: String,
}

/// The instructions that have been read.
struct Builder {
    insns: Vec<Insn>,
}

impl Builder {
    fn add(&mut self, op: Op, text: &str) {
        // Every script begins with an instruction that can wait.
        if self.insns.is_empty() && !matches!(op, Op::Initial | Op::WaitStep(_) | Op::WaitTime) {
            self.add(Op::Initial, "");
        }
        self.insns.push(Insn { op, text: text.to_owned() });
    }

    /// Reads an instruction; `Err` has its name.
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

/// The target of a jump to a label.
pub(super) fn label(insns: &[Insn], name: &str) -> Option<Target> {
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

/// The errors in a script: each message with the number of the argument; a wrong label has no number.
type Wrong = Vec<(Option<usize>, String)>;

/// Reads the instructions of a script, and adds the instruction that ends it.
pub(super) fn compile(args: &[String], driver: bool) -> Result<Vec<Insn>, Wrong> {
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
    if b.insns.is_empty() && driver {
        b.add(Op::WaitStep(1), "");
    }
    b.add(Op::Finish(if driver { Ending::Stop } else { Ending::End }), "");
    Ok(b.insns)
}
