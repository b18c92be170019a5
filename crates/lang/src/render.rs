//! Diagnostics as text and as JSON.

use crate::diag::{Diagnostic, Diagnostics, Landmark, Severity};
use crate::source::{SourceMap, Span};
use serde_json::{Value, json};
use std::fmt::Write;

impl Diagnostics {
    /// All messages as text for people and for tools: Click's `FILE:LINE: message` first, then the source
    /// line with a caret, then the hints. `color` adds ANSI colors.
    pub fn render(&self, sources: &SourceMap, color: bool) -> String {
        render(self.iter().as_slice(), sources, color)
    }

    /// All messages as Click prints them: `FILE:LINE: message`, or a line that says what was being done and
    /// the messages indented below it.
    pub fn render_plain(&self, sources: &SourceMap) -> String {
        render_plain(self.iter().as_slice(), sources)
    }

    /// All messages as a JSON array of objects
    /// `{severity, message, file, line, column, end_line, end_column, notes, help}`.
    pub fn to_json(&self, sources: &SourceMap) -> serde_json::Value {
        to_json(self.iter().as_slice(), sources)
    }
}

struct Paint {
    on: bool,
}

impl Paint {
    fn wrap(&self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const BLUE: &str = "1;34";
const GREEN: &str = "1;32";

fn severity_code(s: Severity) -> &'static str {
    match s {
        Severity::Info => GREEN,
        Severity::Error => RED,
        Severity::Warning => YELLOW,
    }
}

/// `FILE:LINE: [warning: ]` of a place.
fn prefix(span: Option<Span>, severity: Severity, sources: &SourceMap) -> String {
    let mark = span.map_or(String::new(), |s| format!("{}: ", sources.landmark(s)));
    match severity {
        Severity::Error | Severity::Info => mark,
        Severity::Warning => format!("{mark}warning: "),
    }
}

/// Click's lines of one message: continuation lines get the landmark too.
fn click_lines(out: &mut String, d: &Diagnostic, sources: &SourceMap, paint: &Paint) {
    let pre = prefix(d.span, d.severity, sources);
    for line in d.message.split('\n') {
        let _ = writeln!(out, "{pre}{}", paint.wrap(severity_code(d.severity), line));
    }
}

/// The source line under a place, with carets.
fn excerpt(out: &mut String, span: Span, label: &str, code: &str, sources: &SourceMap, paint: &Paint) {
    let loc = sources.locate(span);
    let (line, line_start) = sources.line_text(span);
    let number = loc.line.to_string();
    let pad = " ".repeat(number.len());
    let bar = paint.wrap(BLUE, "|");
    let _ = writeln!(out, "{pad}{} {}:{}:{}", paint.wrap(BLUE, "-->"), loc.file, loc.line, loc.column);
    let _ = writeln!(out, "{pad} {bar}");
    let before_len = (span.start as usize).saturating_sub(line_start).min(line.len());
    let end = (span.end as usize).saturating_sub(line_start).min(line.len());
    // Tabs keep their width in the caret line; other control characters are shown as spaces in both.
    let show = |c: char| if c == '\t' || !c.is_control() { c } else { ' ' };
    let shown: String = line.chars().map(show).collect();
    let _ = writeln!(out, "{} {bar} {}", paint.wrap(BLUE, &number), shown.trim_end());
    let before = line.get(..before_len).unwrap_or("");
    let space: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let width = line.get(before_len..end).map_or(1, |s| s.chars().count()).max(1);
    let carets = paint.wrap(code, &"^".repeat(width));
    let gap = if label.is_empty() { "" } else { " " };
    let _ = writeln!(out, "{pad} {bar} {space}{carets}{gap}{}", paint.wrap(code, label));
}

pub(crate) fn render(list: &[Diagnostic], sources: &SourceMap, color: bool) -> String {
    let paint = Paint { on: color };
    let mut out = String::new();
    for d in list {
        click_lines(&mut out, d, sources, &paint);
        if d.severity == Severity::Info {
            continue;
        }
        if let Some(span) = d.span {
            excerpt(&mut out, span, "", severity_code(d.severity), sources, &paint);
        }
        if let Landmark::While(_, _, what) = &d.landmark {
            let _ = writeln!(out, "  {} in {what}", paint.wrap(BLUE, "note:"));
        }
        for n in &d.notes {
            match n.span {
                Some(span) => {
                    for line in n.message.split('\n') {
                        let _ = writeln!(out, "{}: {line}", sources.landmark(span));
                    }
                    excerpt(&mut out, span, "", BLUE, sources, &paint);
                }
                None => {
                    let _ = writeln!(out, "  {} {}", paint.wrap(BLUE, "note:"), n.message);
                }
            }
        }
        for h in &d.help {
            let _ = writeln!(out, "  {} {h}", paint.wrap(GREEN, "help:"));
        }
    }
    out
}

impl Landmark {
    /// Its line of its own, which says what was being done, if it has one.
    pub fn heading(&self, sources: &SourceMap) -> Option<String> {
        match self {
            Self::While(span, doing, what) => Some(heading(sources, *span, doing, what)),
            _ => None,
        }
    }
}

fn heading(sources: &SourceMap, span: Span, doing: &str, what: &str) -> String {
    format!("{}: {doing} {what}:", sources.landmark(span))
}

pub(crate) fn render_plain(list: &[Diagnostic], sources: &SourceMap) -> String {
    let mark = |span: Option<Span>| span.map_or(String::new(), |s| format!("{}: ", sources.landmark(s)));
    let mut out = String::new();
    let mut context = None;
    for d in list {
        let pre = match &d.landmark {
            Landmark::Place => mark(d.span),
            Landmark::At(span) => mark(Some(*span)),
            Landmark::None => String::new(),
            Landmark::After(lines) => {
                let _ = writeln!(out, "{lines}");
                String::new()
            }
            Landmark::While(span, doing, what) => {
                if context != Some(&d.landmark) {
                    let _ = writeln!(out, "{}", heading(sources, *span, doing, what));
                }
                "  ".to_owned()
            }
        };
        context = Some(&d.landmark);
        let kind = if d.severity == Severity::Warning { "warning: " } else { "" };
        for line in d.message.split('\n') {
            let _ = writeln!(out, "{pre}{kind}{line}");
        }
        for n in &d.notes {
            for line in n.message.split('\n') {
                let _ = writeln!(out, "{}{line}", mark(n.span));
            }
        }
    }
    out
}

fn place(span: Option<Span>, sources: &SourceMap) -> Value {
    let Some(span) = span else { return json!({}) };
    let start = sources.locate(span);
    let end = sources.locate(Span { start: span.end, ..span });
    json!({
        "file": start.file, "line": start.line, "column": start.column,
        "end_line": end.line, "end_column": end.column,
    })
}

pub(crate) fn to_json(list: &[Diagnostic], sources: &SourceMap) -> Value {
    let with_place = |span: Option<Span>, rest: Value| {
        let mut v = place(span, sources);
        if let (Some(map), Value::Object(more)) = (v.as_object_mut(), rest) {
            map.extend(more);
        }
        v
    };
    Value::Array(
        list.iter()
            .map(|d| {
                let context = match &d.landmark {
                    Landmark::While(_, _, what) => Some(json!({ "message": format!("in {what}") })),
                    _ => None,
                };
                let notes = d.notes.iter().map(|n| with_place(n.span, json!({ "message": n.message })));
                let notes: Vec<Value> = context.into_iter().chain(notes).collect();
                let severity = match d.severity {
                    Severity::Info => "info",
                    Severity::Error => "error",
                    Severity::Warning => "warning",
                };
                with_place(
                    d.span,
                    json!({ "severity": severity, "message": d.message, "notes": notes, "help": d.help }),
                )
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Diagnostics;
    use crate::source::Source;

    fn example() -> (Diagnostics, SourceMap) {
        let mut map = SourceMap::new();
        let s = map.add(&Source::new("a.click", "x :: Idle;\n\tx -> quue;\n"));
        let mut d = Diagnostics::new();
        d.push(
            Diagnostic::error(Span::new(s, 17, 21), "undeclared element 'quue'")
                .with_help("class 'Queue' has a similar name")
                .with_note(Span::new(s, 0, 1), "'x' is here"),
        );
        (d, map)
    }

    #[test]
    fn text() {
        let (d, map) = example();
        assert_eq!(
            d.render(&map, false),
            "a.click:2: undeclared element 'quue'\n --> a.click:2:7\n  |\n2 | \tx -> quue;\n  | \t     ^^^^\n\
             a.click:1: 'x' is here\n --> a.click:1:1\n  |\n1 | x :: Idle;\n  | ^\n  help: class 'Queue' has a similar name\n"
        );
        assert!(d.render(&map, true).contains("\x1b[1;31m^^^^"));
        assert_eq!(d.render_plain(&map), "a.click:2: undeclared element 'quue'\na.click:1: 'x' is here\n");
    }

    #[test]
    fn what_the_configuration_says_has_no_excerpt() {
        let (d, map) = example();
        let span = d.iter().next().unwrap().span;
        let mut said = Diagnostics::new();
        said.push(Diagnostic::info(span, "hello").with_landmark(Landmark::While(
            span.unwrap(),
            "While configuring",
            "'x :: Message'".into(),
        )));
        assert_eq!(said.render(&map, false), "a.click:2: hello\n");
        assert_eq!(said.render_plain(&map), "a.click:2: While configuring 'x :: Message':\n  hello\n");
        assert_eq!(said.to_json(&map)[0]["severity"], "info");
        assert!(!said.has_errors());
    }

    #[test]
    fn a_context_is_named_once() {
        let (mut d, map) = example();
        let span = d.iter().next().unwrap().span.unwrap();
        let at = |start| Some(Span { start, end: start + 1, ..span });
        let configuring = Landmark::While(at(0).unwrap(), "While configuring", "'x :: Idle'".into());
        for message in ["A: invalid number", "B: out of range,\nbound 255"] {
            d.push(Diagnostic::error(at(14), message).with_landmark(configuring.clone()));
        }
        d.push(Diagnostic::warning(at(14), "no units").with_landmark(configuring));
        d.push(
            Diagnostic::error(at(14), "'x :: Idle' output 0 unused")
                .with_landmark(Landmark::At(at(0).unwrap())),
        );
        d.push(Diagnostic::error(at(14), "no place").with_landmark(Landmark::None));
        assert_eq!(
            d.render_plain(&map).lines().skip(2).collect::<Vec<_>>(),
            [
                "a.click:1: While configuring 'x :: Idle':",
                "  A: invalid number",
                "  B: out of range,",
                "  bound 255",
                "  warning: no units",
                "a.click:1: 'x :: Idle' output 0 unused",
                "no place",
            ]
        );
    }

    #[test]
    fn json_form() {
        let (d, map) = example();
        let v = d.to_json(&map);
        assert_eq!(v[0]["line"], 2);
        assert_eq!(v[0]["end_column"], 11);
        assert_eq!(v[0]["severity"], "error");
        assert_eq!(v[0]["notes"][0]["line"], 1);
    }
}
