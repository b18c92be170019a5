//! Flow rules that the replicas of an element share, how they are changed, and what they say of a batch.

mod decide;
mod settle;

use crate::prelude::*;
use lang::{SourceMap, Span};
use locks::IgnorePoison;
use nix::fcntl::OFlag;
use rules::{Action, MOST_PREFIXES, Reader, Refused, Rule, Table, syntax};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock};

pub(crate) use decide::{Decider, Decision};
use settle::Settling;

/// The most errors that are told of one text.
const MOST_ERRORS: usize = 20;
/// What stands before a rule that is given without it.
const COMMAND: &str = "flow create 0 ";

/// The rules, once the first replica has filled them in.
#[derive(Default)]
pub(crate) struct Shared(OnceLock<Rules>);

impl Shared {
    pub(crate) fn get(&self) -> Option<&Rules> {
        self.0.get()
    }
    pub(crate) fn fill(&self, rules: Rules) -> &Rules {
        self.0.get_or_init(|| rules)
    }
    /// For a handler.
    pub(crate) fn rules(&self) -> Result<&Rules, String> {
        self.get().ok_or_else(|| "no rules".to_owned())
    }
}

/// Where a rule is, why, and what is counted there, if that is not software's count.
pub(crate) type Placed = (&'static str, String, Option<Option<u64>>);

/// A table of rules with their texts.
pub(crate) struct Rules {
    table: Settling,
    held: Mutex<BTreeMap<u64, Rule>>,
    outputs: AtomicUsize,
    /// Says how many queues there are for rules, and of what.
    queues: fn(usize) -> String,
}

/// What is wrong with a text.
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// A rule of a text, with its line.
pub(crate) type Lined = (usize, Rule);

impl Rules {
    /// None yet, for so many outputs, which `queues` says in words.
    pub(crate) fn new(outputs: usize, queues: fn(usize) -> String) -> Result<Self, String> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|e| format!("no random number: {e}"))?;
        let table = Settling::new(Table::new(u64::from_ne_bytes(seed)));
        Ok(Self { table, held: Mutex::default(), outputs: AtomicUsize::new(outputs), queues })
    }

    /// Whether all rules can be carried out with so many outputs.
    pub(crate) fn fit(&self, outputs: usize) -> bool {
        let held = self.held.lock().ignore_poison();
        held.values().all(|rule| unsupported(rule, outputs, self.queues).is_none())
    }

    /// Why the rules cannot be carried out with so many outputs.
    pub(crate) fn misfit(&self, outputs: usize) -> Option<String> {
        let held = self.held.lock().ignore_poison();
        held.iter().find_map(|(number, rule)| {
            unsupported(rule, outputs, self.queues).map(|why| format!("rule {number}: {why}"))
        })
    }

    /// There are so many outputs now.
    pub(crate) fn set_outputs(&self, outputs: usize) {
        self.outputs.store(outputs, Relaxed);
    }

    pub(crate) fn reader(&self) -> Reader {
        self.table.table().reader()
    }

    /// The rules of a text with commands, one on each line.
    ///
    /// # Errors
    /// All that is wrong, in the order of the text.
    pub(crate) fn read(&self, text: &str) -> Result<Vec<Lined>, Vec<Wrong>> {
        let source = lang::Source::new("rules", text);
        let (placed, diags) = syntax::parse(&source);
        let mut map = SourceMap::new();
        map.add(&source);
        let mut wrong: Vec<Wrong> = Vec::new();
        // A warning is about a value that would not be compared: the rule would match more than it says.
        for diag in diags.iter() {
            let (line, column) = diag.span.map_or((0, 0), |span| place(&map, span));
            let help = diag.help.first().map_or_else(String::new, |help| format!(" ({help})"));
            wrong.push(Wrong { line, column, message: format!("{}{help}", diag.message) });
        }
        let outputs = self.outputs.load(Relaxed);
        for one in &placed {
            let (line, column) = place(&map, one.actions);
            let message = unsupported(&one.rule, outputs, self.queues);
            wrong.extend(message.map(|message| Wrong { line, column, message }));
        }
        if wrong.is_empty() {
            return Ok(placed.into_iter().map(|one| (one.line, one.rule)).collect());
        }
        wrong.sort_by_key(|one| (one.line, one.column));
        let more = wrong.len().saturating_sub(MOST_ERRORS);
        wrong.truncate(MOST_ERRORS);
        if let Some(last) = wrong.last_mut().filter(|_| more > 0) {
            last.message += &format!("; and {more} more errors");
        }
        Err(wrong)
    }

    /// Removes and adds rules, all at once or none.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub(crate) fn change(&self, removed: &[u64], added: Vec<Lined>) -> Result<(), String> {
        self.change_held(&mut self.held.lock().ignore_poison(), removed, added)
    }

    /// The same for who has the lock.
    fn change_held(
        &self,
        held: &mut BTreeMap<u64, Rule>,
        removed: &[u64],
        added: Vec<Lined>,
    ) -> Result<(), String> {
        let (lines, rules): (Vec<usize>, Vec<Rule>) = added.into_iter().unzip();
        let numbers = self.table.table().change(removed, &rules).map_err(|refused| said(&refused, &lines))?;
        self.table.changed();
        removed.iter().for_each(|number| drop(held.remove(number)));
        held.extend(numbers.into_iter().zip(rules));
        Ok(())
    }

    /// The handler `add`.
    pub(crate) fn add(&self, text: &str) -> Result<(), String> {
        self.change(&[], self.commands(text)?)
    }

    /// The handler `remove`.
    pub(crate) fn remove(&self, text: &str) -> Result<(), String> {
        let numbers = text.split_whitespace().map(number).collect::<Result<Vec<_>, _>>()?;
        if numbers.is_empty() {
            return Err("which rule? its number is the first word of its line in 'rules'".to_owned());
        }
        self.change(&numbers, Vec::new())
    }

    /// The handler `update`: a number, and the rule that takes its place.
    pub(crate) fn update(&self, text: &str) -> Result<(), String> {
        let (first, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let (lines, mut rules): (Vec<usize>, Vec<Rule>) = self.commands(rest)?.into_iter().unzip();
        let number = number(first)?;
        let mut held = self.held.lock().ignore_poison();
        match rules.pop().filter(|_| rules.is_empty()) {
            None => Err("should be 'NUMBER RULE'".to_owned()),
            Some(rule) => {
                let replaced = self.table.table().replace(&[number], std::slice::from_ref(&rule));
                replaced.map_err(|refused| said(&refused, &lines))?;
                self.table.changed();
                held.insert(number, rule);
                Ok(())
            }
        }
    }

    /// The handler `load`: these rules in place of all.
    pub(crate) fn load(&self, text: &str) -> Result<(), String> {
        let added = self.commands(text)?;
        let mut held = self.held.lock().ignore_poison();
        let numbers: Vec<u64> = held.keys().copied().collect();
        self.change_held(&mut held, &numbers, added)
    }

    /// The rules of a handler's text.
    fn commands(&self, text: &str) -> Result<Vec<Lined>, String> {
        let lines: Vec<(String, isize)> = text.lines().map(whole).collect();
        let all: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
        self.read(&all).map_err(|wrong| {
            let message = |Wrong { line, column, message }: &Wrong| {
                let longer = lines.get(line.saturating_sub(1)).map_or(0, |(_, longer)| *longer);
                format!("line {line}, column {}: {message}", column_before(*column, longer))
            };
            wrong.iter().map(message).collect::<Vec<_>>().join("\n")
        })
    }

    /// The handler `rules`.
    pub(crate) fn text(&self) -> String {
        let held = self.held.lock().ignore_poison();
        held.iter().fold(String::new(), |mut text, (number, rule)| {
            let _ = writeln!(text, "{number} {}", syntax::print(rule, 0));
            text
        })
    }

    /// The handler `counts`.
    pub(crate) fn counts(&self) -> String {
        let held = self.held.lock().ignore_poison();
        let counted = |number: &u64| Some((*number, self.table.table().counted(*number)?));
        held.keys().filter_map(counted).fold(String::new(), |mut text, (number, packets)| {
            let _ = writeln!(text, "{number} {packets}");
            text
        })
    }

    /// All rules as JSON; `place` says of those that are not simply in software where they are, why, and what
    /// is counted there.
    pub(crate) fn json(&self, place: impl Fn(u64) -> Option<Placed>) -> String {
        let rules = self.all().into_iter().map(|(number, rule, counted)| {
            let (engine, reason, there) = place(number).unwrap_or(("software", String::new(), None));
            json!({"number": number, "rule": syntax::print(&rule, 0), "engine": engine,
                "reason": (!reason.is_empty()).then_some(reason), "packets": there.unwrap_or(counted)})
        });
        Value::from_iter(rules).to_string()
    }

    /// All rules, with their numbers and what they have counted.
    pub(crate) fn all(&self) -> Vec<(u64, Rule, Option<u64>)> {
        let held = self.held.lock().ignore_poison();
        held.iter()
            .map(|(number, rule)| (*number, rule.clone(), self.table.table().counted(*number)))
            .collect()
    }

    /// How many rules there are.
    pub(crate) fn len(&self) -> usize {
        self.table.table().len()
    }
}

/// The rules of a file that a configuration names.
///
/// # Errors
/// The first thing that is wrong; all of it has been told.
pub(crate) fn from_file(
    rules: &Rules,
    path: &str,
    args: &mut Args<'_>,
    cx: &ConfigCx<'_>,
) -> Result<Vec<Lined>, ArgError> {
    let text = cx.hub().open(path, OFlag::O_RDONLY).and_then(std::io::read_to_string);
    let text = text.map_err(|e| args.error(format!("{path}: {e}")))?;
    rules.read(&text).map_err(|wrong| {
        let errors = wrong
            .into_iter()
            .map(|Wrong { line, column, message }| args.error(format!("{path}:{line}:{column}: {message}")));
        // Each of them is told when it is made.
        errors.reduce(|first, _| first).unwrap_or_else(|| args.error(path.to_owned()))
    })
}

/// Line and column.
fn place(map: &SourceMap, span: Span) -> (usize, usize) {
    let at = map.locate(span);
    (at.line as usize, at.column as usize)
}

/// Why rules that are on these lines were refused.
fn said(refused: &Refused, lines: &[usize]) -> String {
    match refused {
        Refused::NoSuchRule(number) => format!("there is no rule {number}, or it is named twice"),
        Refused::TooManyPrefixes(at) => {
            let line = lines.get(*at).copied().unwrap_or_default();
            format!("line {line}: the ranges of this rule make up more than {MOST_PREFIXES} prefixes")
        }
        Refused::TooManyCounters => "there are too many rules that count".to_owned(),
    }
}

/// A line as a command, and how much longer that is: `flow create 0` may be left out, and the number that the
/// handler `rules` prints may be there.
pub(crate) fn whole(line: &str) -> (String, isize) {
    let trimmed = line.trim_start();
    let rest = trimmed.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.len() < trimmed.len() && rest.starts_with(char::is_whitespace);
    let rule = if numbered { rest.trim_start() } else { trimmed };
    let bare =
        ["pattern", "ingress", "egress", "transfer", "group", "priority"].iter().any(|w| rule.starts_with(w));
    let command = if bare { COMMAND } else { "" };
    (format!("{command}{rule}"), command.len() as isize - (line.len() - rule.len()) as isize)
}

/// The column of a line, by that of the command that was made of it.
pub(crate) fn column_before(column: usize, longer: isize) -> usize {
    (column as isize - longer).max(1) as usize
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("'{word}' is no number of a rule"))
}

/// Why an element with so many outputs cannot do what a rule says.
fn unsupported(rule: &Rule, outputs: usize, queues: fn(usize) -> String) -> Option<String> {
    let no_queue = |queue: &u16| {
        let no = usize::from(*queue) >= outputs;
        no.then(|| format!("there is no queue {queue}: {}", queues(outputs)))
    };
    rule.actions.iter().find_map(|action| match action {
        Action::Queue(queue) => no_queue(queue),
        Action::Rss(queues) => queues.iter().find_map(no_queue),
        Action::SetTag { index, .. } if *index != 0 => Some(format!("there is no tag {index}, only tag 0")),
        Action::VlanPop | Action::VlanPush(_) | Action::VlanSetId(_) | Action::VlanSetPriority(_) => {
            Some("tags are not changed here: elements behind it do that".to_owned())
        }
        Action::Meter(_) => Some("there are no meters here: elements behind it do that".to_owned()),
        Action::PassThrough => Some("passthru is not supported".to_owned()),
        _ => None,
    })
}
