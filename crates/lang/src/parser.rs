//! Tokens to syntax tree, by recursive descent. The parser continues after an error to find the next one.
//!
//! The grammar is that of click(5); where the manual is silent (which missing elements stand for `input` and
//! `output`, what is skipped after an error) this parser does the same as Click's own.

use crate::ast::*;
use crate::diag::{Diagnostic, Diagnostics, printable};
use crate::lexer::{ConfigText, Lexer, Tok, Token};
use crate::source::{SourceMap, Span};

/// Compound elements and groups may be nested this deep.
const MAX_DEPTH: usize = 50;

/// The highest port number.
pub const MAX_PORT: u32 = 65_535;

/// What encloses a list of statements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enclosing {
    File,
    Compound,
    Group,
}

struct Parser {
    lex: Lexer,
    diags: Diagnostics,
    depth: usize,
    /// Whether the last connection of the enclosing statements ended in `output` (or there was none yet).
    ended_in_output: bool,
}

/// Parses source number `source`. Errors are added to `diags`.
pub fn parse(sources: &mut SourceMap, source: u32, diags: &mut Diagnostics) -> Vec<Stmt> {
    let lex = Lexer::new(sources, source);
    let mut p = Parser { lex, diags: Diagnostics::new(), depth: 0, ended_in_output: true };
    let stmts = p.statements(Enclosing::File).0;
    p.lex.store_marks(sources);
    diags.append(p.diags);
    diags.append(p.lex.diags);
    stmts
}

impl Parser {
    fn next(&mut self) -> Token {
        self.lex.next_token()
    }

    fn text(&self, t: Token) -> String {
        self.lex.text(t).to_string()
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diags.error(span, message);
    }

    fn syntax_error(&mut self, t: Token) {
        let text = printable(self.lex.text(t));
        let mut d = Diagnostic::error(t.span, format!("syntax error near '{text}'"));
        match t.tok {
            Tok::Eof => d = Diagnostic::error(t.span, "syntax error near end of file"),
            Tok::Char('-' | '>' | '=') => d = d.with_help("connections are written '->' or '=>'"),
            Tok::Char(':') => d = d.with_help("declarations are written 'name :: Class(config)'"),
            Tok::Variable => d = d.with_help("variables are replaced only inside configuration strings"),
            _ => {}
        }
        self.diags.push(d);
    }

    fn config_after_paren(&mut self, open: Token) -> ConfigText {
        let config = self.lex.config();
        let t = self.next();
        if t.tok != Tok::Char(')') {
            self.lex.back(t);
            self.diags
                .push(Diagnostic::error(t.span, "expected ')'").with_note(open.span, "to match this '('"));
        }
        config
    }

    /// Statements up to the end of what encloses them; returns the token that ended them.
    fn statements(&mut self, enclosing: Enclosing) -> (Vec<Stmt>, Token) {
        let mut stmts = Vec::new();
        loop {
            let t = self.next();
            match t.tok {
                Tok::Ident | Tok::Char('[' | '{' | '(') | Tok::Arrow | Tok::DoubleArrow => {
                    self.lex.back(t);
                    let chain = self.chain();
                    if !chain.links.is_empty() {
                        stmts.push(Stmt::Chain(chain));
                    }
                }
                Tok::ElementClass => {
                    if let Some(s) = self.elementclass() {
                        stmts.push(s);
                    }
                }
                Tok::Require | Tok::Define | Tok::Provide => {
                    let open = self.next();
                    if open.tok != Tok::Char('(') {
                        self.lex.back(open);
                        self.error(open.span, "expected '('");
                        continue;
                    }
                    let config = self.config_after_paren(open);
                    match t.tok {
                        Tok::Require => stmts.push(Stmt::Require { config, span: t.span }),
                        Tok::Define => stmts.push(Stmt::Define { config, span: t.span }),
                        _ => {}
                    }
                }
                Tok::Char(';') => {}
                Tok::Char('}') | Tok::DoubleBar if enclosing == Enclosing::Compound => return (stmts, t),
                Tok::Char(')') if enclosing == Enclosing::Group => return (stmts, t),
                Tok::Char('}') | Tok::DoubleBar if enclosing == Enclosing::Group => {
                    self.error(t.span, "expected ')'");
                    self.lex.back(t);
                    return (stmts, t);
                }
                Tok::Eof => {
                    match enclosing {
                        Enclosing::File => {}
                        Enclosing::Compound => self.error(t.span, "expected '}'"),
                        Enclosing::Group => self.error(t.span, "expected ')'"),
                    }
                    return (stmts, t);
                }
                _ => self.syntax_error(t),
            }
        }
    }

    fn elementclass(&mut self) -> Option<Stmt> {
        let t = self.next();
        let name = if t.tok == Tok::Ident {
            Some(Name { text: self.text(t), span: t.span })
        } else {
            self.lex.back(t);
            self.error(t.span, "expected element type name");
            None
        };
        let t = self.next();
        let class = match t.tok {
            Tok::Char('{') => Class::Compound(self.compound(t)),
            Tok::Ident => Class::Name(Name { text: self.text(t), span: t.span }),
            _ => {
                self.syntax_error(t);
                if t.tok == Tok::Eof {
                    self.lex.back(t);
                }
                Class::Missing
            }
        };
        Some(Stmt::ElementClass { name: name?, class })
    }

    /// A compound element whose `{` has been read.
    fn compound(&mut self, open: Token) -> Compound {
        let mut parts = Vec::new();
        let mut extends = None;
        self.depth += 1;
        let outer = std::mem::replace(&mut self.ended_in_output, true);
        if self.depth > MAX_DEPTH {
            self.error(open.span, "maximum compound element nesting depth exceeded");
            self.lex.skip_all();
        }
        loop {
            let t = self.next();
            if t.tok == Tok::Dots {
                extends = Some(t.span);
                let close = self.next();
                if parts.is_empty() || close.tok != Tok::Char('}') {
                    self.error(t.span, "'...' should occur last, after one or more compounds");
                }
                if close.tok == Tok::Char('}') {
                    break;
                }
                self.lex.back(close);
                if close.tok == Tok::Eof {
                    break;
                }
                continue;
            }
            self.lex.back(t);
            let formals = self.formals();
            self.ended_in_output = true;
            let (body, end) = self.statements(Enclosing::Compound);
            parts.push(Part { formals, body, span: if parts.is_empty() { open.span } else { t.span } });
            if end.tok != Tok::DoubleBar {
                break;
            }
        }
        self.ended_in_output = outer;
        self.depth -= 1;
        Compound { parts, extends, span: open.span }
    }

    fn formals(&mut self) -> Vec<Formal> {
        let mut list: Vec<Formal> = Vec::new();
        loop {
            let t1 = self.next();
            let formal = match t1.tok {
                Tok::Variable => {
                    Formal { name: self.text(t1)[1..].to_string(), keyword: String::new(), span: t1.span }
                }
                Tok::Ident => {
                    let t2 = self.next();
                    if t2.tok != Tok::Variable {
                        if !list.is_empty() {
                            self.error(t2.span, "expected variable");
                        }
                        self.lex.back(t1);
                        return list;
                    }
                    let name = self.text(t2)[1..].to_string();
                    Formal { name, keyword: self.text(t1), span: t1.span.to(t2.span) }
                }
                Tok::Char('|') => return list,
                _ => {
                    if !list.is_empty() {
                        self.error(t1.span, "expected variable");
                    }
                    self.lex.back(t1);
                    return list;
                }
            };
            list.push(formal);
            let sep = self.next();
            match sep.tok {
                Tok::Char('|') => return list,
                Tok::Char(',') => {}
                _ => {
                    self.error(sep.span, "expected ',' or '|'");
                    self.lex.back(sep);
                    return list;
                }
            }
        }
    }

    /// `[...]`, if it is next.
    fn ports(&mut self) -> Option<Ports> {
        let open = self.next();
        if open.tok != Tok::Char('[') {
            self.lex.back(open);
            return None;
        }
        let mut ports = Ports { span: Some(open.span), ..Ports::default() };
        let mut end = open;
        loop {
            let t = self.next();
            match t.tok {
                Tok::Ident => {
                    let n = self.port_number(t);
                    ports.list.push(n);
                }
                Tok::Char(']') => {
                    if ports.list.is_empty() {
                        ports.list.push(0);
                    }
                    ports.open = true;
                    end = t;
                    break;
                }
                _ => {
                    self.error(t.span, "syntax error: expected port number");
                    self.lex.back(t);
                    break;
                }
            }
            let t = self.next();
            match t.tok {
                Tok::Char(']') => {
                    end = t;
                    break;
                }
                Tok::Char(',') => {}
                _ => {
                    self.error(t.span, "syntax error: expected ','");
                    self.lex.back(t);
                    if t.tok != Tok::Ident {
                        break;
                    }
                }
            }
        }
        ports.span = Some(open.span.to(end.span));
        Some(ports)
    }

    fn port_number(&mut self, t: Token) -> u32 {
        match crate::args::parse_unsigned(self.lex.text(t), u64::from(u32::MAX)) {
            Ok(n) if n <= u64::from(MAX_PORT) => n as u32,
            Ok(_) => {
                self.error(t.span, format!("port number too large, bound {MAX_PORT}"));
                0
            }
            Err(_) => {
                self.error(t.span, "syntax error: port number should be integer");
                0
            }
        }
    }

    /// A chain of connections, or a declaration.
    fn chain(&mut self) -> Chain {
        let mut chain = Chain { links: Vec::new() };
        let mut arrow = None;
        loop {
            let first = arrow.is_none();
            let Some(mut link) = self.link(arrow, first) else { break };
            let next = self.connector();
            link.arrow_follows = next.is_some();
            if link.arrow_follows && !first && link.items.iter().any(|i| i.element == Element::Output) {
                let span = link.items[0].span;
                self.error(span, "implicit ports used in the middle of a chain");
            }
            chain.links.push(link);
            if next.is_none() {
                break;
            }
            arrow = next;
        }
        if let Some(last) = chain.links.last() {
            self.ended_in_output = match last.items.as_slice() {
                [Item { element: Element::Output, .. }] => true,
                [Item { element: Element::Name(n), .. }] => n.text == "output",
                _ => false,
            };
        }
        chain
    }

    /// The arrow after a set of elements; `None` at the end of the chain.
    fn connector(&mut self) -> Option<Arrow> {
        loop {
            let t = self.next();
            match t.tok {
                Tok::Arrow | Tok::DoubleArrow => {
                    return Some(Arrow { many: t.tok == Tok::DoubleArrow, span: t.span });
                }
                Tok::Char(',') | Tok::DoubleColon => self.syntax_error(t),
                Tok::Char(';') => return None,
                Tok::Ident
                | Tok::Char('{' | '}' | '[' | ')')
                | Tok::DoubleBar
                | Tok::ElementClass
                | Tok::Require
                | Tok::Provide
                | Tok::Define
                | Tok::Eof => {
                    self.lex.back(t);
                    return None;
                }
                _ => {
                    self.syntax_error(t);
                    return None;
                }
            }
        }
    }

    /// One set of elements; `None` if there is none.
    fn link(&mut self, arrow: Option<Arrow>, first: bool) -> Option<Link> {
        let mut items = Vec::new();
        loop {
            let inputs = self.ports();
            let t = self.next();
            match t.tok {
                Tok::Ident => {
                    let name = Name { text: self.text(t), span: t.span };
                    items.push(self.item_rest(inputs, Element::Name(name), t.span));
                }
                Tok::Char('{') => {
                    let c = self.compound(t);
                    items.push(self.item_rest(inputs, Element::Compound(c), t.span));
                }
                Tok::Char('(') => {
                    let g = self.group(t);
                    items.push(self.item_rest(inputs, g, t.span));
                }
                _ => {
                    self.lex.back(t);
                    let at = inputs.as_ref().and_then(|p| p.span).unwrap_or(t.span);
                    if self.is_implicit(t, first, inputs.is_some(), items.is_empty()) {
                        if first && inputs.is_none() && !self.ended_in_output {
                            let a = self.text(t);
                            self.diags.warning(
                                t.span,
                                format!("suggest 'input {a}' or '[0] {a}' to start connection"),
                            );
                        }
                        let (element, inputs, outputs) = if first {
                            (Element::Input, None, inputs)
                        } else {
                            (Element::Output, inputs, None)
                        };
                        items.push(Item { inputs, element, class: None, config: None, outputs, span: at });
                    } else {
                        if inputs.is_some() {
                            self.error(at, "stranded port ignored");
                        }
                        if items.is_empty() {
                            if !(first && self.depth > 0) {
                                self.next();
                                self.syntax_error(t);
                                if matches!(t.tok, Tok::Char('}' | ')') | Tok::Eof) {
                                    self.lex.back(t);
                                }
                            }
                            return None;
                        }
                        break;
                    }
                }
            }
            let t = self.next();
            if t.tok != Tok::Char(',') {
                self.lex.back(t);
                break;
            }
        }
        Some(Link { arrow, items, arrow_follows: false })
    }

    /// Whether a missing element at `t` stands for `input` or `output`.
    fn is_implicit(&self, t: Token, first: bool, ports: bool, no_items: bool) -> bool {
        if self.depth == 0 {
            return false;
        }
        match t.tok {
            Tok::Arrow | Tok::DoubleArrow => first && (ports || no_items),
            Tok::Char(',') => ports,
            Tok::DoubleColon => false,
            _ => !first && (ports || no_items),
        }
    }

    /// An element group whose `(` has been read.
    fn group(&mut self, open: Token) -> Element {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.error(open.span, "maximum element group nesting depth exceeded");
            self.lex.skip_all();
        }
        let outer = std::mem::replace(&mut self.ended_in_output, true);
        let (stmts, end) = self.statements(Enclosing::Group);
        self.ended_in_output = outer;
        self.depth -= 1;
        Element::Group(stmts, open.span.to(end.span))
    }

    /// The rest of an item: `:: Class (config) [ports]`.
    fn item_rest(&mut self, inputs: Option<Ports>, element: Element, start: Span) -> Item {
        let mut span = start;
        let mut class = None;
        let t = self.next();
        if t.tok == Tok::DoubleColon {
            let t = self.next();
            span = span.to(t.span);
            class = Some(match t.tok {
                Tok::Ident => Class::Name(Name { text: self.text(t), span: t.span }),
                Tok::Char('{') => Class::Compound(self.compound(t)),
                _ => {
                    self.error(t.span, "missing element type in declaration");
                    self.lex.back(t);
                    Class::Missing
                }
            });
        } else {
            self.lex.back(t);
        }
        let t = self.next();
        let mut config = None;
        if t.tok == Tok::Char('(') {
            let c = self.config_after_paren(t);
            span = span.to(c.span.unwrap_or(t.span));
            config = Some(c);
        } else {
            self.lex.back(t);
        }
        let outputs = self.ports();
        Item { inputs, element, class, config, outputs, span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn parse_text(text: &str) -> (Vec<Stmt>, Vec<String>) {
        let mut map = SourceMap::new();
        let s = map.add(&Source::new("f", text));
        let mut diags = Diagnostics::new();
        let stmts = parse(&mut map, s, &mut diags);
        (stmts, diags.iter().map(|d| d.message.clone()).collect())
    }

    #[test]
    fn shapes() {
        let (s, e) =
            parse_text("a, b :: C(x) [1] -> [2,3] d; elementclass X { $a, K $b | -> || ... } define($x 1)");
        assert!(e.is_empty(), "{e:?}");
        assert_eq!(s.len(), 3);
        let Stmt::Chain(c) = &s[0] else { panic!() };
        assert_eq!(c.links.len(), 2);
        assert_eq!(c.links[0].items.len(), 2);
        assert_eq!(c.links[1].items[0].inputs.as_ref().unwrap().list, [2, 3]);
        let Stmt::ElementClass { class: Class::Compound(c), .. } = &s[1] else { panic!() };
        assert_eq!(c.parts[0].formals.len(), 2);
        assert!(c.extends.is_some());
        let Stmt::Chain(inner) = &c.parts[0].body[0] else { panic!() };
        assert_eq!(inner.links[0].items[0].element, Element::Input);
        assert_eq!(inner.links[1].items[0].element, Element::Output);
    }

    #[test]
    fn errors() {
        for (text, want) in [
            ("->Null;", "syntax error near '->'"),
            ("a ->", "syntax error near end of file"),
            ("a -> ;", "syntax error near ';'"),
            ("a [x] -> b", "syntax error: port number should be integer"),
            ("a [70000] -> b", "port number too large, bound 65535"),
            ("a [0 1] -> b", "syntax error: expected ','"),
            ("a [-> b", "syntax error: expected port number"),
            ("a :: ;", "missing element type in declaration"),
            ("a :: B(", "expected ')'"),
            ("x -> { -> ", "expected '}'"),
            ("x -> ( -> ", "expected ')'"),
            ("elementclass { }", "expected element type name"),
            ("elementclass X ;", "syntax error near ';'"),
            ("elementclass X { ... }", "'...' should occur last, after one or more compounds"),
            ("elementclass X { $a $b | }", "expected ',' or '|'"),
            ("elementclass X { $a, -> }", "expected variable"),
            ("require x", "expected '('"),
            ("a ) b", "syntax error near ')'"),
            ("a | b", "syntax error near '|'"),
            ("{ x -> [0], z -> y }", "implicit ports used in the middle of a chain"),
        ] {
            let (_, e) = parse_text(text);
            assert!(e.iter().any(|m| m == want), "{text}: {e:?}");
        }
        let deep = "{".repeat(100);
        assert!(parse_text(&deep).1.contains(&"maximum compound element nesting depth exceeded".to_string()));
        let deep = "x -> (".repeat(100);
        assert!(parse_text(&deep).1.contains(&"maximum element group nesting depth exceeded".to_string()));
    }
}
