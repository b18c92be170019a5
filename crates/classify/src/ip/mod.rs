//! The languages of `IPFilter` and `IPClassifier`.

mod lexer;
mod parser;
mod primitive;
mod six;
mod values;

use crate::diag::{Diagnostic, Errors};
use crate::graph::{Expr, Graph, Layout, Target};
use crate::names::{self, Names};
use crate::optimize::{Budget, optimize, sort_chains, sweep};
use crate::program::{MAX_OUTPUT, Program};
use crate::{Compiled, MAX_TESTS, finish};
use lexer::Token;
use parser::Parser;

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// Compiles the rules of an `IPFilter`: each is an action (`allow`, `deny`, `drop` or an output number) and
/// a pattern. The first rule whose pattern matches decides; a packet that matches none is dropped.
///
/// `outputs` is the number of the element's outputs, where that is known.
///
/// # Errors
/// All errors in the rules.
pub fn ip_filter<S: AsRef<str>>(
    rules: &[S],
    outputs: Option<usize>,
    names: &dyn Names,
) -> Result<Compiled, Errors> {
    let mut compiler = Compiler::new(names);
    let mut highest = None;
    for (number, rule) in rules.iter().enumerate() {
        let Some(words) = compiler.words(number, rule.as_ref()) else { continue };
        let target = compiler.action(number, &words[0], outputs);
        if let Target::Output(output) = target {
            highest = highest.max(Some(usize::from(output)));
        }
        compiler.pattern(number, &words, 1, target);
    }
    let outputs = outputs.unwrap_or(highest.map_or(0, |highest| highest + 1));
    compiler.finish(outputs)
}

/// Compiles the patterns of an `IPClassifier`: pattern *n* selects output *n*.
///
/// # Errors
/// All errors in the patterns, and a number of patterns other than `outputs` (where that is known).
pub fn ip_classifier<S: AsRef<str>>(
    patterns: &[S],
    outputs: Option<usize>,
    names: &dyn Names,
) -> Result<Compiled, Errors> {
    let mut compiler = Compiler::new(names);
    if let Some(outputs) = outputs.filter(|&outputs| outputs != patterns.len()) {
        let message = format!("need {outputs} arguments, one per output port");
        compiler.diagnostics.push(Diagnostic::error(None, message));
    }
    if patterns.len() > MAX_OUTPUT {
        let message = format!("too many patterns, at most {MAX_OUTPUT}");
        compiler.diagnostics.push(Diagnostic::error(None, message));
        return Err(Errors(compiler.diagnostics));
    }
    for (number, pattern) in patterns.iter().enumerate() {
        let Some(words) = compiler.words(number, pattern.as_ref()) else { continue };
        compiler.pattern(number, &words, 0, Target::Output(number as u16));
    }
    compiler.finish(patterns.len())
}

/// Collects the graphs of the patterns.
struct Compiler<'a> {
    names: &'a dyn Names,
    diagnostics: Vec<Diagnostic>,
    graphs: Vec<Graph>,
    tests: usize,
}

impl<'a> Compiler<'a> {
    fn new(names: &'a dyn Names) -> Self {
        Compiler { names, diagnostics: Vec::new(), graphs: Vec::new(), tests: 0 }
    }

    /// The words of a pattern; `None` where there are none.
    fn words<'t>(&mut self, number: usize, text: &'t str) -> Option<Vec<Token<'t>>> {
        if text.len() > MAX_PATTERN {
            let message = format!("pattern {number}: too long, at most {MAX_PATTERN} bytes");
            self.diagnostics.push(Diagnostic::error(Some(number), message));
            return None;
        }
        let words = lexer::words(text);
        if words.is_empty() {
            self.diagnostics.push(Diagnostic::error(Some(number), format!("empty pattern {number}")));
            return None;
        }
        Some(words)
    }

    /// The action at the head of a rule.
    fn action(&mut self, number: usize, word: &Token<'_>, outputs: Option<usize>) -> Target {
        let mut say = |mut diagnostic: Diagnostic, hint: Option<String>| {
            diagnostic.message.insert_str(0, &format!("pattern {number}: "));
            self.diagnostics.push(diagnostic.at(word.span.clone()).hint(hint));
        };
        match word.text {
            "allow" => {
                if outputs == Some(0) {
                    let message = "'allow' is meaningless, element has zero outputs".into();
                    say(Diagnostic::error(Some(number), message), None);
                }
                Target::Output(0)
            }
            "deny" => {
                if outputs.is_some_and(|outputs| outputs > 1) {
                    let message = "meaning of 'deny' has changed (now it means 'drop')".into();
                    say(Diagnostic::warning(Some(number), message), None);
                }
                Target::Drop
            }
            "drop" => Target::Drop,
            text => match values::integer(text) {
                Some(slot)
                    if slot >= 0 && (slot as usize) < outputs.unwrap_or(MAX_OUTPUT).min(MAX_OUTPUT) =>
                {
                    Target::Output(slot as u16)
                }
                Some(slot) => {
                    say(Diagnostic::error(Some(number), format!("slot '{slot}' out of range")), None);
                    Target::Drop
                }
                None => {
                    let near = names::nearest(text, ["allow", "deny", "drop"]);
                    let hint = match near {
                        Some(near) => format!("did you mean '{near}'?"),
                        None => "a rule begins with 'allow', 'deny', 'drop' or an output number".into(),
                    };
                    say(Diagnostic::error(Some(number), format!("unknown slot ID '{text}'")), Some(hint));
                    Target::Drop
                }
            },
        }
    }

    /// Parses the pattern that begins with word `first`.
    fn pattern(&mut self, number: usize, words: &[Token<'_>], first: usize, target: Target) {
        let expr = match &words[first..] {
            [] => Expr::True,
            [only] if matches!(only.text, "-" | "any" | "all") => Expr::True,
            _ => Parser::new(words, first, number, self.names, &mut self.diagnostics).pattern(),
        };
        self.tests += expr.size();
        if self.tests > MAX_TESTS {
            if self.tests - expr.size() <= MAX_TESTS {
                let message = format!("pattern {number}: patterns too large, at most {MAX_TESTS} tests");
                self.diagnostics.push(Diagnostic::error(Some(number), message));
            }
            return;
        }
        self.graphs.push(expr.graph(target, Target::Fail));
    }

    fn finish(self, outputs: usize) -> Result<Compiled, Errors> {
        let graphs = self.graphs;
        finish(self.diagnostics, |_| Program::new(&join(graphs), Layout::Ip, outputs))
    }
}

/// Joins the graphs of patterns in pairs, and the pairs in pairs, and optimizes each result.
fn join(mut graphs: Vec<Graph>) -> Graph {
    let budget = &mut Budget::default();
    if let [only] = &mut graphs[..] {
        optimize(only, Layout::Ip, budget);
    }
    while graphs.len() > 1 {
        let mut joined = Vec::with_capacity(graphs.len().div_ceil(2));
        let mut rest = graphs.into_iter();
        while let Some(mut first) = rest.next() {
            if let Some(second) = rest.next() {
                first.append(second);
                optimize(&mut first, Layout::Ip, budget);
            }
            joined.push(first);
        }
        graphs = joined;
    }
    let mut graph = graphs.pop().unwrap_or(Graph { nodes: Vec::new(), entry: Target::Drop });
    graph.set_fail(Target::Drop);
    sweep(&mut graph);
    sort_chains(&mut graph, Layout::Ip);
    graph
}
