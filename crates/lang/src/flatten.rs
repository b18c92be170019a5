//! Expansion of compound elements and groups: one body with tunnels to a flat graph.
//!
//! Every use of a compound element becomes three tunnels: its name, `name/input` and `name/output`.
//! Connections that enter the name leave `name/input`; connections that enter `name/output` leave the name.
//! Groups are built that way from the start. When all is expanded, each connection is followed through the
//! tunnels to the elements where it ends.

use crate::config::{Config, Connection, ElementDecl, PortRef};
use crate::diag::{Diagnostic, Diagnostics};
use crate::quote::split_args;
use crate::scope::{Body, ClassDef, ClassId, ClassKind, Slot, SlotKind, SlotPort, port_signature};
use crate::source::Span;
use crate::vars::Envs;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Elements that a configuration may have once it is expanded.
const MAX_ELEMENTS: usize = 1 << 18;
/// Bytes of element names and configuration strings that a configuration may have.
const MAX_TEXT: usize = 64 << 20;
/// Connections that a configuration may have.
const MAX_CONNECTIONS: usize = 1 << 20;
/// Steps through tunnels that following all connections may take.
const MAX_STEPS: usize = 1 << 24;

/// Slots of a tunnel.
#[derive(Clone, Copy, Debug)]
struct Tunnel {
    /// The name of the compound element or group.
    outside: usize,
    /// `name/input`, `name/output`.
    inside: [usize; 2],
}

struct Flattener<'a> {
    body: Body,
    classes: &'a [ClassDef],
    envs: Envs,
    tunnels: Vec<Tunnel>,
    diags: &'a mut Diagnostics,
    text: usize,
    full: bool,
}

/// Expands the body of the file.
pub(crate) fn flatten(
    body: Body,
    classes: &[ClassDef],
    outer_defines: &[(String, String)],
    diags: &mut Diagnostics,
) -> Config {
    let mut envs = Envs::new();
    let mut vars = body.defines.clone();
    for (name, value) in outer_defines {
        vars.retain(|(n, _)| n != name);
        vars.push((name.clone(), value.clone()));
    }
    let top = envs.add(None, 0, vars);
    let mut f = Flattener { body, classes, envs, tunnels: Vec::new(), diags, text: 0, full: false };
    f.find_groups();
    f.expand_all(top);
    if f.envs.exhausted() {
        f.diags.error(None, "configuration too large after variable substitution");
    }
    f.check_tunnels();
    f.finish()
}

impl Flattener<'_> {
    /// Registers the tunnels of the groups at file level.
    fn find_groups(&mut self) {
        let is_group = |s: &Slot| {
            s.kind == SlotKind::Tunnel && !s.name.ends_with("/input") && !s.name.ends_with("/output")
        };
        for i in 0..self.body.slots.len().saturating_sub(2) {
            if is_group(&self.body.slots[i]) && self.body.slots[i + 1].kind == SlotKind::Tunnel {
                self.tunnels.push(Tunnel { outside: i, inside: [i + 1, i + 2] });
            }
        }
    }

    fn expand_all(&mut self, top: usize) {
        for first in 0..self.body.slots.len() {
            let mut todo = vec![(first, top)];
            while let Some((slot, env)) = todo.pop() {
                self.expand(slot, env, &mut todo);
                if self.full {
                    return;
                }
            }
        }
    }

    /// Expands one slot. New slots that must be expanded too are pushed on `todo`, in reverse order.
    fn expand(&mut self, slot: usize, env: usize, todo: &mut Vec<(usize, usize)>) {
        if self.body.slots[slot].name.starts_with(';') {
            self.body.name_anonymous(slot);
        }
        let SlotKind::Class(class) = self.body.slots[slot].kind else { return };
        let config = self.envs.expand(env, &self.body.slots[slot].config);
        self.count(slot, config.len());
        self.body.slots[slot].config = config;
        if !matches!(self.classes[class].kind, ClassKind::Compound(..)) {
            return;
        }
        let args: Vec<String> =
            split_args(&self.body.slots[slot].config).into_iter().map(|a| a.text).collect();
        match self.choose(slot, class, &args) {
            None => {}
            Some((class, None)) => self.body.slots[slot].kind = SlotKind::Class(class),
            Some((_, Some((body, values)))) => self.expand_into(slot, &body, values, env, todo),
        }
    }

    fn count(&mut self, slot: usize, more: usize) {
        self.text += self.body.slots[slot].name.len() + more;
        if !self.full && (self.body.slots.len() > MAX_ELEMENTS || self.text > MAX_TEXT) {
            self.full = true;
            let span = self.body.slots[slot].span;
            self.diags.error(span, "configuration too large after expansion of compound elements");
        }
    }

    /// Picks the definition of a compound element that fits the ports and arguments of a use: `None` after an
    /// error, `Some((class, None))` if that is a class of the library.
    #[allow(
        clippy::type_complexity,
        reason = "private, one caller, and a named type would only move the words"
    )]
    fn choose(
        &mut self,
        slot: usize,
        class: ClassId,
        args: &[String],
    ) -> Option<(ClassId, Option<(Rc<Body>, Vec<String>)>)> {
        let [inputs, outputs] = self.body.slots[slot].ports;
        let mut candidates: Vec<Rc<Body>> = Vec::new();
        let mut closest = None;
        let mut at = Some(class);
        while let Some(id) = at {
            let ClassKind::Compound(body, overloads) = &self.classes[id].kind else {
                return Some((id, None));
            };
            if let Some(values) = body.assign(args) {
                if body.nports == [inputs, outputs] {
                    return Some((id, Some((body.clone(), values))));
                }
                closest = Some((id, Some((body.clone(), values))));
            }
            candidates.push(body.clone());
            at = *overloads;
        }
        if candidates.len() != 1 || closest.is_none() {
            let name = candidates.first().map_or("", |b| b.printable_name());
            let want = port_signature(inputs, outputs, Some(args.len()));
            let span = self.body.slots[slot].span;
            let mut d = Diagnostic::error(span, format!("no match for '{name}{want}'"));
            for (at, c) in candidates.iter().take(20).enumerate() {
                // Their heading is at the place of the first, as in Click.
                let heading = if at == 0 { "candidates are:\n" } else { "" };
                d = d.with_note(c.span, format!("{heading}  {}", c.signature()));
            }
            self.diags.push(d);
        }
        closest
    }

    /// Adds the three tunnel slots of `name`; its own may exist.
    fn add_tunnel(&mut self, name: &str, span: Span) -> Option<Tunnel> {
        let mut slots = [0; 3];
        for (k, part) in ["", "/input", "/output"].into_iter().enumerate() {
            let full = format!("{name}{part}");
            slots[k] = match self.body.by_name.get(&full) {
                Some(&i) if self.body.slots[i].kind == SlotKind::Tunnel => i,
                Some(&i) => {
                    self.redeclared(&full, span, i);
                    return None;
                }
                None => self.add_slot(full, SlotKind::Tunnel, String::new(), span, None),
            };
        }
        let t = Tunnel { outside: slots[0], inside: [slots[1], slots[2]] };
        self.tunnels.push(t);
        Some(t)
    }

    fn redeclared(&mut self, name: &str, span: Span, old: usize) {
        self.diags.push(
            Diagnostic::error(span, format!("redeclaration of element '{name}'"))
                .with_note(self.body.slots[old].span, format!("'{name}' previously declared here")),
        );
    }

    fn add_slot(
        &mut self,
        name: String,
        kind: SlotKind,
        config: String,
        span: Span,
        config_span: Option<Span>,
    ) -> usize {
        let slot = self.body.slots.len();
        self.body.by_name.insert(name.clone(), slot);
        self.body.slots.push(Slot { name, kind, config, span, config_span, ports: [0, 0] });
        slot
    }

    fn expand_into(
        &mut self,
        slot: usize,
        inner: &Body,
        values: Vec<String>,
        env: usize,
        todo: &mut Vec<(usize, usize)>,
    ) {
        let mut vars: Vec<(String, String)> =
            inner.formals.iter().map(|(_, n)| n.clone()).zip(values).collect();
        vars.extend(inner.defines.iter().cloned());
        let env = self.envs.add(self.envs.outside(env, inner.depth), inner.depth, vars);

        let name = self.body.slots[slot].name.clone();
        let span = self.body.slots[slot].span;
        self.body.slots[slot].kind = SlotKind::Tunnel;
        let Some(tunnel) = self.add_tunnel(&name, span) else { return };
        let mut map: Vec<Option<usize>> = vec![Some(tunnel.inside[0]), Some(tunnel.inside[1])];
        let first = self.body.slots.len();
        let mut i = 2;
        while i < inner.slots.len() {
            let s = &inner.slots[i];
            let full = format!("{name}/{}", s.name);
            if let Some(&old) = self.body.by_name.get(&full) {
                self.redeclared(&full, span, old);
                map.push(None);
                i += 1;
                continue;
            }
            if s.kind == SlotKind::Tunnel {
                let t = self.add_tunnel(&full, s.span);
                map.extend(t.map_or([None; 3], |t| [t.outside, t.inside[0], t.inside[1]].map(Some)));
                i += 3;
                continue;
            }
            let added = self.add_slot(full, s.kind, s.config.clone(), s.span, s.config_span);
            self.count(added, 0);
            if self.full {
                return;
            }
            map.push(Some(added));
            i += 1;
        }
        for c in &inner.conns {
            if let (Some(Some(from)), Some(Some(to))) = (map.get(c.from.0), map.get(c.to.0)) {
                self.body.connect((*from, c.from.1), (*to, c.to.1), c.span);
            }
        }
        if self.body.conns.len() > MAX_CONNECTIONS {
            self.full = true;
            self.diags.error(span, "configuration too large after expansion of compound elements");
            return;
        }
        todo.extend((first..self.body.slots.len()).rev().map(|s| (s, env)));
    }

    /// Reports ports of compound elements and groups that are used only outside or only inside.
    fn check_tunnels(&mut self) {
        // For each tunnel slot, the ports by which connections enter it and leave it.
        let mut ports: HashMap<usize, [BTreeSet<u32>; 2]> = HashMap::new();
        for t in &self.tunnels {
            for s in [t.outside, t.inside[0], t.inside[1]] {
                ports.insert(s, Default::default());
            }
        }
        for c in &self.body.conns {
            if let Some(p) = ports.get_mut(&c.to.0) {
                p[0].insert(c.to.1);
            }
            if let Some(p) = ports.get_mut(&c.from.0) {
                p[1].insert(c.from.1);
            }
        }
        for t in &self.tunnels {
            let slot = &self.body.slots[t.outside];
            let name = &slot.name;
            for (k, what) in ["input", "output"].into_iter().enumerate() {
                let outside = &ports[&t.outside][k];
                let inside = &ports[&t.inside[k]][1 - k];
                let missing = outside.difference(inside).map(|p| format!("'{name}' has no {what} {p}"));
                let unused = inside.difference(outside).map(|p| format!("'{name}' {what} {p} unused"));
                for message in missing.take(8).chain(unused.take(8)) {
                    self.diags.error(slot.span, message);
                }
            }
        }
    }

    /// Follows the connections through the tunnels and builds the result.
    fn finish(self) -> Config {
        let Flattener { body, tunnels, diags, classes, .. } = self;
        let mut through: HashMap<usize, usize> = HashMap::new();
        for t in &tunnels {
            through.insert(t.outside, t.inside[0]);
            through.insert(t.inside[1], t.outside);
        }
        let is_tunnel = |slot: usize| body.slots[slot].kind == SlotKind::Tunnel;
        let mut from_tunnel: HashMap<SlotPort, Vec<SlotPort>> = HashMap::new();
        for c in body.conns.iter().filter(|c| is_tunnel(c.from.0)) {
            from_tunnel.entry(c.from).or_default().push(c.to);
        }
        let mut number = vec![usize::MAX; body.slots.len()];
        let mut config = Config::default();
        for (i, s) in body.slots.iter().enumerate() {
            let SlotKind::Class(class) = s.kind else { continue };
            number[i] = config.elements.len();
            config.elements.push(ElementDecl {
                name: s.name.clone(),
                class: classes[class].name.clone(),
                config: s.config.clone(),
                span: s.span,
                config_span: s.config_span.unwrap_or(s.span),
            });
        }
        let port = |p: SlotPort| PortRef { element: number[p.0], port: p.1 as usize };
        let mut found: Vec<Connection> = Vec::new();
        let mut steps = 0;
        for c in body.conns.iter().filter(|c| !is_tunnel(c.from.0)) {
            let mut seen: BTreeSet<SlotPort> = BTreeSet::new();
            let mut todo = vec![c.to];
            while let Some(to) = todo.pop() {
                steps += 1;
                if !is_tunnel(to.0) {
                    found.push(Connection { from: port(c.from), to: port(to), span: c.span });
                } else if seen.insert(to)
                    && let Some(&exit) = through.get(&to.0)
                    && let Some(next) = from_tunnel.get(&(exit, to.1))
                {
                    todo.extend(next);
                }
            }
            if found.len() > 2 * MAX_CONNECTIONS {
                tidy(&mut found);
            }
            if found.len() > 2 * MAX_CONNECTIONS || steps > MAX_STEPS {
                diags.error(c.span, "configuration has too many connections");
                break;
            }
        }
        tidy(&mut found);
        config.connections = found;
        config
    }
}

/// Puts connections in order, by input port and then by output port, each once.
fn tidy(list: &mut Vec<Connection>) {
    list.sort_by_key(|c| (c.to, c.from));
    list.dedup_by_key(|c| (c.to, c.from));
}
