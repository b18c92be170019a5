//! Classes, and the bodies of compound elements while they are built.

use crate::diag::Diagnostics;
use crate::source::Span;
use std::collections::HashMap;
use std::rc::Rc;

/// Index of a class.
pub(crate) type ClassId = usize;

/// What a class is.
#[derive(Clone, Debug)]
pub(crate) enum ClassKind {
    /// A class of the element library.
    Primitive,
    /// An unknown class that has been reported.
    Unknown,
    /// A compound element; the other class is what it overloads.
    Compound(Rc<Body>, Option<ClassId>),
}

/// A class.
#[derive(Clone, Debug)]
pub(crate) struct ClassDef {
    pub(crate) name: String,
    pub(crate) kind: ClassKind,
}

/// What a slot of a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// A name that connections pass through.
    Tunnel,
    /// An element of a class.
    Class(ClassId),
}

/// An element, or the name of a tunnel, in a body.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// Its name; anonymous ones start with `;` until all names are known.
    pub(crate) name: String,
    pub(crate) kind: SlotKind,
    pub(crate) config: String,
    pub(crate) span: Span,
    pub(crate) config_span: Option<Span>,
    /// Inputs and outputs used: one more than the highest port connected.
    pub(crate) ports: [u32; 2],
}

/// A port of a slot.
pub(crate) type SlotPort = (usize, u32);

/// A connection between slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conn {
    pub(crate) from: SlotPort,
    pub(crate) to: SlotPort,
    pub(crate) span: Span,
}

/// The contents of the file or of one definition of a compound element.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// Name of the class; empty if anonymous.
    pub(crate) name: String,
    pub(crate) span: Span,
    /// Depth of lexical nesting; 0 is the file.
    pub(crate) depth: usize,
    /// Keyword and name of each parameter.
    pub(crate) formals: Vec<(String, String)>,
    /// Names and values of `define`.
    pub(crate) defines: Vec<(String, String)>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) by_name: HashMap<String, usize>,
    /// Slots that do not count when anonymous elements are numbered.
    pub(crate) anonymous_offset: usize,
    pub(crate) conns: Vec<Conn>,
    /// Inputs and outputs of the compound element.
    pub(crate) nports: [u32; 2],
}

impl Body {
    pub(crate) fn new(name: &str, span: Span, depth: usize) -> Body {
        Body {
            name: name.to_string(),
            span,
            depth,
            formals: Vec::new(),
            defines: Vec::new(),
            slots: Vec::new(),
            by_name: HashMap::new(),
            anonymous_offset: 0,
            conns: Vec::new(),
            nports: [0, 0],
        }
    }

    pub(crate) fn printable_name(&self) -> &str {
        if self.name.is_empty() { "<anonymous>" } else { &self.name }
    }

    /// The next anonymous name for a class.
    pub(crate) fn anonymous(&self, class: &str) -> String {
        format!(";{class}@{}", self.slots.len() - self.anonymous_offset + 1)
    }

    pub(crate) fn connect(&mut self, from: SlotPort, to: SlotPort, span: Span) {
        self.conns.push(Conn { from, to, span });
        let note = |n: &mut u32, port: u32| *n = (*n).max(port + 1);
        note(&mut self.slots[to.0].ports[0], to.1);
        note(&mut self.slots[from.0].ports[1], from.1);
    }

    /// Gives an anonymous slot its name: the one planned, or the next number that is free.
    pub(crate) fn name_anonymous(&mut self, slot: usize) {
        let Some(planned) = self.slots[slot].name.strip_prefix(';') else { return };
        let mut name = planned.to_string();
        if self.by_name.contains_key(&name)
            && let Some(at) = planned.rfind('@')
        {
            let digits = planned[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
            let mut n: usize = planned[at + 1..at + 1 + digits].parse().unwrap_or(0);
            while self.by_name.contains_key(&name) {
                n += 1;
                name = format!("{}{n}", &planned[..=at]);
            }
        }
        self.by_name.insert(name.clone(), slot);
        self.slots[slot].name = name;
    }

    /// Checks the use of `input` (`output` false) or `output` in a compound element or group called `name`,
    /// whose connections begin with number `first`; returns the number of its ports.
    pub(crate) fn check_pseudo(
        &self,
        slot: usize,
        output: bool,
        (name, span): (&str, Span),
        first: usize,
        diags: &mut Diagnostics,
    ) -> u32 {
        const NAMES: [&str; 2] = ["input", "output"];
        let (me, other) = (NAMES[usize::from(output)], NAMES[usize::from(!output)]);
        if self.slots[slot].ports[usize::from(output)] > 0 {
            diags.error(span, format!("'{name}' pseudoelement '{me}' may only be used as {other}"));
        }
        let n = self.slots[slot].ports[usize::from(!output)];
        let mut used = vec![false; n as usize];
        for c in &self.conns[first..] {
            let end = if output { c.to } else { c.from };
            if end.0 == slot {
                used[end.1 as usize] = true;
            }
        }
        for (port, _) in used.iter().enumerate().filter(|(_, u)| !**u).take(8) {
            diags.error(span, format!("'{name}' {me} {port} missing"));
        }
        n
    }

    /// Checks the whole body of a compound element and names its anonymous elements.
    pub(crate) fn finish(&mut self, diags: &mut Diagnostics) {
        for k in [0, 1] {
            let n = self.check_pseudo(k, k == 1, (self.printable_name(), self.span), 0, diags);
            self.nports[k] = n;
        }
        for i in 0..self.slots.len() {
            self.name_anonymous(i);
        }
    }

    /// How messages show the compound element: `Name(<arg>, KEY)[1 input, 1 output]`.
    pub(crate) fn signature(&self) -> String {
        let mut out = self.printable_name().to_string();
        if !self.formals.is_empty() {
            let list: Vec<&str> = self
                .formals
                .iter()
                .map(|(key, _)| match key.as_str() {
                    "" => "<arg>",
                    "__REST__" => "...",
                    k => k,
                })
                .collect();
            out.push_str(&format!("({})", list.join(", ")));
        }
        out + &port_signature(self.nports[0], self.nports[1], None)
    }

    /// Distributes arguments to the parameters; `None` if they do not fit.
    pub(crate) fn assign(&self, args: &[String]) -> Option<Vec<String>> {
        let rest = self.formals.last().is_some_and(|(k, _)| k == "__REST__");
        let named = &self.formals[..self.formals.len() - usize::from(rest)];
        let positional = named.iter().take_while(|(k, _)| k.is_empty()).count();
        let mut values: Vec<Option<String>> = vec![None; named.len()];
        let mut seen = 0;
        let mut others: Vec<&str> = Vec::new();
        for arg in args {
            if seen < positional {
                values[seen] = Some(arg.clone());
                seen += 1;
                continue;
            }
            let key = crate::quote::leading_keyword(arg);
            let hit = key.and_then(|(k, at)| Some((named.iter().position(|(n, _)| n == k)?, at)));
            if let Some((i, at)) = hit {
                values[i] = Some(arg[at..].to_string());
            } else if rest {
                others.push(arg);
            } else {
                return None;
            }
        }
        let mut values: Vec<String> = values.into_iter().collect::<Option<_>>()?;
        if rest {
            values.push(others.join(", "));
        }
        Some(values)
    }
}

/// `[2 arguments, 1 input, 1 output]`
pub(crate) fn port_signature(inputs: u32, outputs: u32, args: Option<usize>) -> String {
    let s = |n: usize| if n == 1 { "" } else { "s" };
    let args = match args {
        Some(n) if n > 0 => format!("{n} argument{}, ", s(n)),
        _ => String::new(),
    };
    format!("[{args}{inputs} input{}, {outputs} output{}]", s(inputs as usize), s(outputs as usize))
}
