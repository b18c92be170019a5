//! The flat graph of a configuration.

use crate::diag::{Diagnostics, Landmark};
use crate::source::{SourceMap, Span};
use std::collections::HashMap;
use std::fmt::Write;

/// An element of the flat graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementDecl {
    /// Its name, with the names of the compound elements around it: `outer/inner`.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its configuration string, variables substituted, comments and quotes as written.
    pub config: String,
    /// Where it is declared.
    pub span: Span,
    /// Where the configuration string is written; the declaration if there is none.
    pub config_span: Span,
}

impl ElementDecl {
    /// `'NAME :: CLASS'`, as messages name the element.
    pub fn declaration(&self) -> String {
        format!("'{} :: {}'", self.name, self.class)
    }

    /// How Click begins messages about its arguments.
    pub fn while_configuring(&self) -> Landmark {
        Landmark::While(self.span, "While configuring", self.declaration())
    }

    /// How Click begins messages about files, devices and other elements that it could not begin to work
    /// with.
    pub fn while_initializing(&self) -> Landmark {
        Landmark::While(self.span, "While initializing", self.declaration())
    }
}

/// A port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// Index of the element in [`Config::elements`].
    pub element: usize,
    /// Number of the port.
    pub port: usize,
}

/// A connection from an output port to an input port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Output port.
    pub from: PortRef,
    /// Input port.
    pub to: PortRef,
    /// Where it is written.
    pub span: Span,
}

/// A configuration: elements and the connections among them, all compound elements and groups expanded.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The elements: those of the file in their order, then those of its compound elements.
    pub elements: Vec<ElementDecl>,
    /// The connections, each once, ordered by input port, then by output port.
    pub connections: Vec<Connection>,
    /// The requirements of `require`: `compact_config`, `package "name"`.
    pub requirements: Vec<String>,
    /// The sources that spans refer to.
    pub sources: SourceMap,
    /// Warnings; there were no errors.
    pub warnings: Diagnostics,
}

impl Config {
    /// Index of the element of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|e| e.name == name)
    }

    /// Whether nothing but the flat configuration is to be kept (`require(compact_config)`).
    pub fn is_compact(&self) -> bool {
        self.requirements.iter().any(|r| r == "compact_config")
    }

    /// Number of output ports that are connected: one more than the highest.
    pub fn outputs_used(&self, element: usize) -> usize {
        self.connections
            .iter()
            .filter(|c| c.from.element == element)
            .map(|c| c.from.port + 1)
            .max()
            .unwrap_or(0)
    }

    /// The flat configuration as text: requirements, declarations, connections, in the form in which Click's
    /// `flatconfig` handler prints them.
    pub fn unparse(&self) -> String {
        let mut out = String::new();
        if !self.requirements.is_empty() {
            let _ = write!(out, "require({});\n\n", self.requirements.join(", "));
        }
        for e in &self.elements {
            let _ = write!(out, "{} :: {}", e.name, e.class);
            if !e.config.is_empty() {
                let _ = write!(out, "({})", e.config);
            }
            out.push_str(";\n");
        }
        if !self.elements.is_empty() {
            out.push('\n');
        }
        self.unparse_connections(&mut out);
        out
    }

    /// Prints the connections as chains. A chain continues where a connection enters input 0 and the
    /// element's output 0 is connected too.
    fn unparse_connections(&self, out: &mut String) {
        let conns = &self.connections;
        let mut by_from: HashMap<PortRef, Vec<usize>> = HashMap::new();
        for (i, c) in conns.iter().enumerate() {
            by_from.entry(c.from).or_default().push(i);
        }
        let mut next = vec![None; conns.len()];
        let mut starts = vec![true; conns.len()];
        for (i, c) in conns.iter().enumerate() {
            if c.to.port != 0 {
                continue;
            }
            let after = by_from.get(&c.to).map_or(&[][..], Vec::as_slice);
            let others = || after.iter().copied().filter(|&d| d != i);
            if let Some(d) = others().find(|&d| conns[d].to.port == 0).or_else(|| others().next_back()) {
                next[i] = Some(d);
                starts[d] = false;
            }
        }
        let mut used = vec![false; conns.len()];
        let mut chain = |first: usize, used: &mut [bool]| {
            let name = |p: PortRef| self.elements.get(p.element).map_or("?", |e| e.name.as_str());
            let from = conns[first].from;
            out.push_str(name(from));
            if from.port != 0 {
                let _ = write!(out, " [{}]", from.port);
            }
            let mut at = Some(first);
            while let Some(i) = at
                && !used[i]
            {
                out.push_str(if i == first { " -> " } else { "\n    -> " });
                let to = conns[i].to;
                if to.port != 0 {
                    let _ = write!(out, "[{}] ", to.port);
                }
                out.push_str(name(to));
                used[i] = true;
                at = next[i];
            }
            out.push_str(";\n");
        };
        for i in (0..conns.len()).filter(|&i| starts[i]) {
            if !used[i] {
                chain(i, &mut used);
            }
        }
        // The remaining connections form cycles.
        for i in 0..conns.len() {
            if !used[i] {
                chain(i, &mut used);
            }
        }
    }
}
