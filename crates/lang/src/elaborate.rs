//! Syntax tree to elements and connections: names, scopes, classes, ports.
//!
//! Works statement by statement, because a name refers to what has been declared before it. The bodies of
//! compound elements are built once, here; the `flatten` module makes a copy for every use.

use crate::ast::{self, Arrow, Chain, Element, Item, Name, Ports, Stmt};
use crate::config::Config;
use crate::diag::{Diagnostic, Diagnostics, Landmark, nearest};
use crate::lexer::ConfigText;
use crate::parser::parse;
use crate::quote::{quote, shift_word, split_args, split_words, unquote};
use crate::scope::{Body, ClassDef, ClassId, ClassKind, Slot, SlotKind};
use crate::source::{Source, SourceMap, Span};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The element classes that exist.
pub trait ClassTable {
    /// Whether there is a class of this name.
    fn knows(&self, class: &str) -> bool;
    /// All names, for hints.
    fn names(&self) -> Vec<String>;
    /// The packages that `require` may name; `None`: any.
    fn packages(&self) -> Option<Vec<String>> {
        None
    }
    /// The present name of a class, if this one is an old name of it: elements are shown with that one.
    fn present_name(&self, _class: &str) -> Option<&str> {
        None
    }
    /// What is known of a class that is not there, for hints.
    fn why_missing(&self, _class: &str) -> Option<String> {
        None
    }
}

impl ClassTable for Vec<String> {
    fn knows(&self, class: &str) -> bool {
        self.iter().any(|c| c == class)
    }
    fn names(&self) -> Vec<String> {
        self.clone()
    }
}

/// A table that knows every class: for tools that read configurations of other routers. Names that begin
/// with a capital letter count as classes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyClass;

impl ClassTable for AnyClass {
    fn knows(&self, class: &str) -> bool {
        class.starts_with(|c: char| c.is_ascii_uppercase())
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Finds the text of a library for `require(library NAME)`: gets `NAME` and the name of the file that
/// requires it. An error is the message to show; an empty one means that it was not found.
pub type Library = Arc<dyn Fn(&str, &str) -> Result<Source, String> + Send + Sync>;

/// How to load a configuration.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// Variables defined from outside (`NAME=value` on the command line); they have priority over `define` in
    /// the file.
    pub defines: Vec<(String, String)>,
    /// Where libraries come from.
    pub library: Option<Library>,
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("defines", &self.defines)
            .field("library", &self.library.is_some())
            .finish()
    }
}

/// Loads a configuration: parses the sources, one after the other as if they were one file, and expands them
/// to a flat graph.
///
/// # Errors
/// All errors in the sources, with a copy of the source map in [`Diagnostics::sources`].
pub fn load(sources: &[Source], opts: &LoadOptions, classes: &dyn ClassTable) -> Result<Config, Diagnostics> {
    let mut map = SourceMap::new();
    let ids: Vec<u32> = sources.iter().map(|s| map.add(s)).collect();
    let top = Body::new("", Span::new(0, 0, 0), 0);
    let mut b = Builder {
        map,
        diags: Diagnostics::new(),
        classes: Vec::new(),
        scopes: vec![HashMap::new()],
        table: classes,
        bodies: Vec::new(),
        body: top,
        requirements: Vec::new(),
        libraries: Vec::new(),
        opts,
    };
    for id in ids {
        let stmts = parse(&mut b.map, id, &mut b.diags);
        b.statements(&stmts);
    }
    let Builder { map, mut diags, classes, body, requirements, table, .. } = b;
    let mut config = crate::flatten::flatten(body, &classes, &opts.defines, &mut diags);
    // Anonymous elements keep the name in the text: `FullNoteQueue@2 :: Queue`.
    for element in &mut config.elements {
        if let Some(present) = table.present_name(&element.class) {
            element.class = present.to_owned();
        }
    }
    diags.sort();
    diags.set_sources(map.clone());
    if diags.has_errors() {
        return Err(diags);
    }
    config.requirements = requirements;
    config.sources = map;
    config.warnings = diags;
    Ok(config)
}

/// An element of a set, looked up.
struct Resolved<'a> {
    name: String,
    /// The class that the name is, at this place.
    class_of_name: Option<ClassId>,
    declared: Option<ClassId>,
    config: Option<&'a ConfigText>,
    span: Span,
    /// Ports of a group, where the text gives none.
    implied: [u32; 2],
    /// Only a name: takes part in `a, b :: Class`.
    bare: bool,
    item: &'a Item,
}

/// Elements of a set with their ports.
struct End {
    slot: usize,
    inputs: Ports,
    outputs: Ports,
}

struct Builder<'a> {
    map: SourceMap,
    diags: Diagnostics,
    classes: Vec<ClassDef>,
    /// Class names, innermost scope last; the first scope is the file's and the library's.
    scopes: Vec<HashMap<String, ClassId>>,
    table: &'a dyn ClassTable,
    /// The bodies around the current one.
    bodies: Vec<Body>,
    body: Body,
    requirements: Vec<String>,
    libraries: Vec<String>,
    opts: &'a LoadOptions,
}

impl Builder<'_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diags.error(span, message);
    }

    fn new_class(&mut self, name: &str, kind: ClassKind) -> ClassId {
        self.classes.push(ClassDef { name: name.to_string(), kind });
        self.classes.len() - 1
    }

    fn bind(&mut self, name: &str, id: ClassId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), id);
        }
    }

    fn class(&mut self, name: &str) -> Option<ClassId> {
        if let Some(&id) = self.scopes.iter().rev().find_map(|s| s.get(name)) {
            return Some(id);
        }
        if !self.table.knows(name) {
            return None;
        }
        let id = self.new_class(name, ClassKind::Primitive);
        self.scopes[0].insert(name.to_string(), id);
        Some(id)
    }

    fn class_names(&self) -> Vec<String> {
        let local = self
            .scopes
            .iter()
            .flat_map(|s| s.iter())
            .filter(|(_, id)| !matches!(self.classes[**id].kind, ClassKind::Unknown));
        let mut names: Vec<String> = local.map(|(n, _)| n.clone()).collect();
        names.extend(self.table.names());
        names.sort();
        names.dedup();
        names
    }

    /// The class of this name; an unknown one is reported as an error once, and counts as known from then on.
    fn force_class(&mut self, name: &Name) -> ClassId {
        if let Some(id) = self.class(&name.text) {
            return id;
        }
        let d = Diagnostic::error(name.span, format!("unknown element class '{}'", name.text));
        self.diags.push(match self.table.why_missing(&name.text) {
            Some(why) => d.with_help(why),
            None => d.with_nearest(&name.text, "class", self.class_names()),
        });
        self.unknown_class(&name.text)
    }

    fn unknown_class(&mut self, name: &str) -> ClassId {
        let id = self.new_class(name, ClassKind::Unknown);
        self.bind(name, id);
        id
    }

    fn statements(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            match s {
                Stmt::Chain(c) => self.chain(c),
                Stmt::ElementClass { name, class } => {
                    let id = match class {
                        ast::Class::Name(n) => self.force_class(n),
                        ast::Class::Compound(c) => self.compound(c, &name.text),
                        ast::Class::Missing => self.new_class(&name.text, ClassKind::Unknown),
                    };
                    self.bind(&name.text, id);
                }
                Stmt::Require { config, span } => self.require(config, *span),
                Stmt::Define { config, span } => self.define(config, *span),
            }
        }
    }

    fn compound(&mut self, c: &ast::Compound, name: &str) -> ClassId {
        let mut overloads = match c.extends {
            Some(span) if self.class(name).is_none() => {
                self.error(span, format!("cannot extend unknown element class '{name}'"));
                None
            }
            Some(_) => self.class(name),
            None => None,
        };
        let mut bodies = Vec::new();
        for part in &c.parts {
            let depth = self.bodies.len() + 1;
            let outer = std::mem::replace(&mut self.body, Body::new(name, part.span, depth));
            self.bodies.push(outer);
            self.scopes.push(HashMap::new());
            self.slot("input".into(), SlotKind::Tunnel, None, part.span);
            self.slot("output".into(), SlotKind::Tunnel, None, part.span);
            self.body.anonymous_offset = 2;
            self.formals(part);
            self.statements(&part.body);
            self.body.finish(&mut self.diags);
            self.scopes.pop();
            if let Some(outer) = self.bodies.pop() {
                bodies.push(std::mem::replace(&mut self.body, outer));
            }
        }
        for body in bodies.into_iter().rev() {
            overloads = Some(self.new_class(name, ClassKind::Compound(Rc::new(body), overloads)));
        }
        overloads.unwrap_or_else(|| self.new_class(name, ClassKind::Unknown))
    }

    fn formals(&mut self, part: &ast::Part) {
        let mut complained = false;
        for f in &part.formals {
            let list = &self.body.formals;
            if list.iter().any(|(_, n)| *n == f.name) {
                self.error(f.span, format!("parameter '${}' multiply defined", f.name));
                continue;
            }
            if !f.keyword.is_empty() && list.iter().any(|(k, _)| *k == f.keyword) {
                self.error(f.span, format!("repeated keyword parameter '{}' in compound element", f.keyword));
                continue;
            }
            if let Some((before, _)) = self.body.formals.last()
                && !complained
                && (before == "__REST__" || (f.keyword.is_empty() && !before.is_empty()))
            {
                complained = true;
                self.error(
                    f.span,
                    "compound element parameters out of order\n(The correct order is '[positional], [keywords], [__REST__]'.)",
                );
            }
            self.body.formals.push((f.keyword.clone(), f.name.clone()));
        }
    }

    fn define(&mut self, config: &ConfigText, span: Span) {
        let base = config.span.unwrap_or(span);
        for arg in split_args(&config.text).into_iter().filter(|a| !a.text.is_empty()) {
            let place = base.part(arg.range.start, arg.range.end);
            let (var, value) = shift_word(&arg.text);
            let name = var.strip_prefix('$').unwrap_or("");
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                self.diags.push(
                    Diagnostic::error(place, "bad 'define' declaration: not a variable")
                        .with_help("definitions are written 'define($NAME value, ...)'"),
                );
                continue;
            }
            let body = &self.body;
            if body.formals.iter().any(|(_, n)| n == name) || body.defines.iter().any(|(n, _)| n == name) {
                self.error(place, format!("parameter '${name}' multiply defined"));
            } else {
                self.body.defines.push((name.to_string(), value));
            }
        }
    }

    fn require(&mut self, config: &ConfigText, span: Span) {
        let base = config.span.unwrap_or(span);
        for arg in split_args(&config.text) {
            let place = base.part(arg.range.start, arg.range.end);
            let words: Vec<String> = split_words(&arg.text).into_iter().map(|w| unquote(&w.text)).collect();
            match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] => {}
                ["compact_config"] => self.requirements.push("compact_config".into()),
                ["package", p] => self.require_package(p, place),
                ["library", l] => self.require_library(l, place),
                ["package" | "library"] => self.error(place, "syntax error at requirement"),
                [p] => self.require_package(p, place),
                _ => self.error(place, "syntax error at requirement"),
            }
        }
    }

    fn require_package(&mut self, name: &str, span: Span) {
        if let Some(known) = self.table.packages()
            && !known.iter().any(|p| p == name)
        {
            let loading = format!(
                "While loading package '{name}':\n  can't find required package '{name}.uo'\n  in CLICKPATH or '/usr/local/lib/click'"
            );
            let wrong = Diagnostic::error(span, format!("requirement '{name}' not available"))
                .with_landmark(Landmark::After(loading));
            return self.diags.push(wrong.with_nearest(name, "package", known));
        }
        self.requirements.push(format!("package {}", quote(name)));
    }

    fn require_library(&mut self, name: &str, span: Span) {
        if !self.bodies.is_empty() {
            return self.error(span, "'require library' must be used at file scope");
        }
        let from = self.map.locate(span).file;
        let answer = self.opts.library.as_ref().map_or_else(|| Err(String::new()), |read| read(name, &from));
        let source = match answer {
            Ok(s) => s,
            Err(m) if m.is_empty() => {
                return self.error(span, format!("library '{name}' not found in CLICKPATH/conf"));
            }
            Err(m) => return self.error(span, m),
        };
        if self.libraries.contains(&source.name) {
            return;
        }
        self.libraries.push(source.name.clone());
        if self.libraries.len() > 1000 {
            return self.error(span, "too many libraries");
        }
        let id = self.map.add(&source);
        let stmts = parse(&mut self.map, id, &mut self.diags);
        self.statements(&stmts);
    }

    /// The slot of this name, made if there is none.
    fn slot(&mut self, name: String, kind: SlotKind, config: Option<&ConfigText>, span: Span) -> usize {
        if let Some(&i) = self.body.by_name.get(&name) {
            return i;
        }
        if name.split('/').any(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())) {
            self.error(span, format!("element name '{name}' has all-digit component"));
        }
        self.body.slots.push(Slot {
            name: name.clone(),
            kind,
            config: config.map_or(String::new(), |c| c.text.clone()),
            span,
            config_span: config.and_then(|c| c.span),
            ports: [0, 0],
        });
        let i = self.body.slots.len() - 1;
        self.body.by_name.insert(name, i);
        i
    }

    fn chain(&mut self, chain: &Chain) {
        let mut last: Option<Vec<End>> = None;
        for link in &chain.links {
            let ends = self.link(link, last.is_none());
            match (last, link.arrow) {
                (Some(from), Some(arrow)) => self.connect(&from, &ends, arrow),
                _ => {
                    if let Some(p) =
                        ends.iter().find(|e| !e.inputs.list.is_empty()).and_then(|e| e.inputs.span)
                    {
                        self.error(p, "input ports ignored at start of chain");
                    }
                }
            }
            last = Some(ends);
        }
        let used = last.unwrap_or_default();
        if let Some(p) = used.iter().find(|e| !e.outputs.list.is_empty()).and_then(|e| e.outputs.span) {
            self.error(p, "output ports ignored at end of chain");
        }
    }

    /// Looks up and makes the elements of one set.
    fn link(&mut self, link: &ast::Link, first: bool) -> Vec<End> {
        let mut list: Vec<Resolved<'_>> = link.items.iter().map(|item| self.resolve(item)).collect();
        let ports = |r: &Resolved<'_>| {
            r.item.inputs.is_some()
                || r.item.outputs.is_some()
                || r.implied != [0, 0]
                || r.item.element == Element::Input
                || r.item.element == Element::Output
        };
        // `a, b :: Class(config)` declares both; with ports or an arrow the class is only the last one's.
        if let Some((decl, others)) = list.split_last_mut()
            && first
            && !link.arrow_follows
            && others.iter().all(|r| r.bare)
            && !others.iter().chain(std::iter::once(&*decl)).any(ports)
        {
            for r in others {
                r.declared = decl.declared;
                r.config = decl.config;
            }
        }
        list.into_iter().map(|r| self.element(r)).collect()
    }

    fn resolve<'i>(&mut self, item: &'i Item) -> Resolved<'i> {
        let mut implied = [0, 0];
        let mut span = item.span;
        let (name, class_of_name) = match &item.element {
            Element::Name(n) => (n.text.clone(), self.class(&n.text)),
            Element::Compound(c) => (String::new(), Some(self.compound(c, ""))),
            Element::Group(stmts, group) => {
                span = *group;
                let (name, ports) = self.group(stmts, *group);
                implied = ports;
                (name, None)
            }
            Element::Input => ("input".into(), None),
            Element::Output => ("output".into(), None),
        };
        let declared = match &item.class {
            None => None,
            Some(ast::Class::Name(n)) => Some(self.force_class(n)),
            Some(ast::Class::Compound(c)) => Some(self.compound(c, "")),
            Some(ast::Class::Missing) => Some(self.new_class(&name, ClassKind::Unknown)),
        };
        if let Some(c) = &item.config
            && self.body.by_name.contains_key(&name)
            && class_of_name.is_none()
            && declared.is_none()
        {
            self.error(c.span.unwrap_or(span), "configuration string ignored on element reference");
        }
        let bare = matches!(item.element, Element::Name(_)) && declared.is_none() && item.config.is_none();
        Resolved { name, class_of_name, declared, config: item.config.as_ref(), span, implied, bare, item }
    }

    fn element(&mut self, r: Resolved<'_>) -> End {
        let known = self.body.by_name.get(&r.name).copied();
        let slot = match (r.class_of_name, known) {
            (None, Some(slot)) => {
                if r.declared.is_some() {
                    let old = &self.body.slots[slot];
                    let mut d = Diagnostic::error(r.span, format!("redeclaration of element '{}'", r.name));
                    if old.kind != SlotKind::Tunnel {
                        d = d.with_note(old.span, format!("element '{}' previously declared here", r.name));
                    }
                    self.diags.push(d);
                }
                slot
            }
            (Some(class), _) => {
                if r.declared.is_some() {
                    self.error(r.span, format!("class '{}' used as element name", r.name));
                }
                let name = self.body.anonymous(&r.name);
                self.slot(name, SlotKind::Class(class), r.config, r.span)
            }
            (None, None) => match r.declared {
                Some(class) => self.slot(r.name, SlotKind::Class(class), r.config, r.span),
                None => {
                    self.undeclared(&r);
                    let class = self.unknown_class(&r.name);
                    let name = self.body.anonymous(&r.name);
                    self.slot(name, SlotKind::Class(class), r.config, r.span)
                }
            },
        };
        let given = |p: &Option<Ports>, implied: u32| match p {
            Some(p) => p.clone(),
            None => Ports { list: (0..implied).collect(), open: false, span: None },
        };
        End {
            slot,
            inputs: given(&r.item.inputs, r.implied[0]),
            outputs: given(&r.item.outputs, r.implied[1]),
        }
    }

    fn undeclared(&mut self, r: &Resolved<'_>) {
        let mut d = Diagnostic::error(r.span, format!("undeclared element '{}'", r.name));
        let elements: Vec<&String> = self.body.by_name.keys().filter(|n| !n.starts_with(';')).collect();
        let near_element = if r.config.is_none() { nearest(&r.name, elements) } else { None };
        if let Some(e) = near_element {
            d = d.with_help(format!("element '{e}' has a similar name"));
        }
        if let Some(why) = self.table.why_missing(&r.name) {
            d = d.with_help(why);
        } else if let Some(c) = nearest(&r.name, self.class_names()) {
            d = d.with_help(format!("class '{c}' has a similar name"));
        }
        if matches!(r.name.as_str(), "input" | "output") {
            d = d.with_help(format!("'{}' exists only inside compound elements and groups", r.name));
        }
        self.diags.push(d);
    }

    /// The statements of a group; returns its name and its number of inputs and outputs.
    fn group(&mut self, stmts: &[Stmt], span: Span) -> (String, [u32; 2]) {
        let name = self.body.anonymous("");
        let slots = ["", "/input", "/output"]
            .map(|part| self.slot(format!("{name}{part}"), SlotKind::Tunnel, None, span));
        let first = self.body.conns.len();
        let outer = ["input", "output"].map(|n| self.body.by_name.remove(n));
        self.body.by_name.insert("input".into(), slots[1]);
        self.body.by_name.insert("output".into(), slots[2]);
        self.statements(stmts);
        let mut ports = [0, 0];
        for k in [0, 1] {
            ports[k] = self.body.check_pseudo(
                slots[k + 1],
                k == 1,
                ("<anonymous group>", span),
                first,
                &mut self.diags,
            );
        }
        for (n, old) in ["input", "output"].into_iter().zip(outer) {
            match old {
                Some(i) => self.body.by_name.insert(n.into(), i),
                None => self.body.by_name.remove(n),
            };
        }
        (name, ports)
    }

    /// Connects the outputs of one set to the inputs of the next.
    fn connect(&mut self, from: &[End], to: &[End], arrow: Arrow) {
        // Index 0 is the side of the inputs, 1 that of the outputs.
        let sides: [Vec<(usize, &Ports)>; 2] = [
            to.iter().map(|e| (e.slot, &e.inputs)).collect(),
            from.iter().map(|e| (e.slot, &e.outputs)).collect(),
        ];
        let min = [0, 1].map(|k| sides[k].iter().map(|(_, p)| p.list.len().max(1)).sum::<usize>());
        let mut grows = [0, 1].map(|k| sides[k].iter().filter(|(_, p)| p.open).count());
        if grows[0] + grows[1] > 1 {
            self.error(arrow.span, "at most one expandable port allowed per connection");
            grows[usize::from(min[0] < min[1])] = 0;
        }
        if arrow.many {
            // A single element without a port takes as many ports as the other side has.
            for k in [0, 1] {
                if min[k] == 1 && min[1 - k] > 1 && sides[k].first().is_some_and(|(_, p)| p.list.is_empty()) {
                    grows[k] = 1;
                }
            }
        }
        let grows = grows.map(|n| n > 0);
        let many = [0, 1].map(|k| min[k] > 1 || grows[k]);
        if many == [true, true] {
            if !arrow.many {
                self.diags.push(
                    Diagnostic::error(arrow.span, "syntax error: many-to-many connections require '=>'")
                        .with_help("write '=>' to connect the ports pairwise"),
                );
            }
            let (i, o) = (min[0], min[1]);
            if !grows[0] && !grows[1] && i != o {
                self.error(arrow.span, format!("connection mismatch: {o} outputs connected to {i} inputs"));
            } else if !grows[0] && i < o {
                self.error(
                    arrow.span,
                    format!("connection mismatch: {o} or more outputs connected to {i} inputs"),
                );
            } else if !grows[1] && o < i {
                self.error(
                    arrow.span,
                    format!("connection mismatch: {o} outputs connected to {i} or more inputs"),
                );
            }
        }
        let extra = [0, 1].map(|k| if grows[k] { min[1 - k].saturating_sub(min[k]) } else { 0 });
        let ends = [0, 1].map(|k| endpoints(&sides[k], extra[k]));
        let n = match many {
            [true, true] => ends[0].len().min(ends[1].len()),
            _ => ends[0].len().max(ends[1].len()),
        };
        for i in 0..n {
            let [input, output] = [0, 1].map(|k| ends[k].get(i).or(ends[k].first()).copied());
            if let (Some(input), Some(output)) = (input, output) {
                self.body.connect(output, input, arrow.span);
            }
        }
    }
}

/// The ports of one side in order. The first list that is open, or the first element without ports, gets
/// `extra` more.
fn endpoints(side: &[(usize, &Ports)], mut extra: usize) -> Vec<(usize, u32)> {
    let any_open = side.iter().any(|(_, p)| p.open);
    let mut out = Vec::new();
    for &(slot, ports) in side {
        let list: &[u32] = if ports.list.is_empty() { &[0] } else { &ports.list };
        out.extend(list.iter().map(|&p| (slot, p)));
        if extra > 0 && (ports.open || (!any_open && ports.list.is_empty())) {
            let last = list.last().copied().unwrap_or(0);
            out.extend((1..=extra).map(|n| (slot, last.saturating_add(n as u32))));
            extra = 0;
        }
    }
    out
}
