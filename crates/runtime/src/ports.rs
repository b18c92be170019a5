//! Port counts, push and pull: Click's rules for connections between elements.

use crate::class::Class;
use crate::sides::{Processing, Sides};
use lang::{Config, Connection, Diagnostic, Diagnostics, Landmark, PortRef};

/// How many ports a side may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Count {
    min: usize,
    max: Option<usize>,
}

/// Parses one side of a port count code; `inputs` resolves `=`.
fn count(code: &str, inputs: usize) -> Count {
    if let Some(extra) = code.strip_prefix('=') {
        let n = inputs + extra.len();
        return Count { min: n, max: Some(n) };
    }
    match code.split_once('-') {
        Some((min, max)) => Count { min: min.parse().unwrap_or(0), max: max.parse().ok() },
        None => {
            let n = code.parse().unwrap_or(0);
            Count { min: n, max: Some(n) }
        }
    }
}

fn sides(code: &str) -> (&str, &str) {
    code.split_once('/').unwrap_or((code, code))
}

fn kind_at(code: &str, port: usize) -> Processing {
    let bytes = code.as_bytes();
    match bytes.get(port).or(bytes.last()) {
        Some(b'h') => Processing::Push,
        Some(b'l') => Processing::Pull,
        _ => Processing::Agnostic,
    }
}

/// One item of a flow code: a set of letters, possibly negated; `#` is the port's own number.
fn flow_item(code: &str, port: usize) -> (bool, Vec<String>) {
    let (mut items, mut chars) = (Vec::new(), code.chars());
    while let Some(c) = chars.next() {
        if c == '[' {
            let set: String = chars.by_ref().take_while(|c| *c != ']').collect();
            match set.strip_prefix('^') {
                Some(rest) => items.push((true, rest.chars().collect::<Vec<_>>())),
                None => items.push((false, set.chars().collect())),
            }
        } else {
            items.push((false, vec![c]));
        }
    }
    let (negated, set) = items.get(port).or(items.last()).cloned().unwrap_or((false, vec!['x']));
    (negated, set.into_iter().map(|c| if c == '#' { format!("#{port}") } else { c.to_string() }).collect())
}

/// Whether packets from `input` may leave by `output`.
pub(crate) fn flows(code: &str, input: usize, output: usize) -> bool {
    let (from, to) = sides(code);
    let ((not_a, a), (not_b, b)) = (flow_item(from, input), flow_item(to, output));
    match (not_a, not_b) {
        (false, false) => a.iter().any(|x| b.contains(x)),
        (false, true) => a.iter().any(|x| !b.contains(x)),
        (true, false) => b.iter().any(|x| !a.contains(x)),
        (true, true) => true,
    }
}

/// The ports' kinds in the words of the `ports` handler: a `~` marks a port that would be either.
pub(crate) fn words(class: &Class, all: &Sides) -> (Vec<&'static str>, Vec<&'static str>) {
    let word = |declared: Processing, kind: Processing| match (declared, kind) {
        (Processing::Agnostic, Processing::Pull) => "pull~",
        (Processing::Agnostic, _) => "push~",
        (_, kind) => kind.word(),
    };
    let (ins, outs) = sides(class.processing);
    let list = |code: &str, kinds: &[Processing]| {
        kinds.iter().enumerate().map(|(p, k)| word(kind_at(code, p), *k)).collect()
    };
    (list(ins, &all.inputs), list(outs, &all.outputs))
}

/// Checks port counts and connections, and decides whether each port is push or pull. Errors go to `diags` in
/// Click's words.
pub(crate) fn resolve(
    config: &Config,
    classes: &[Class],
    click: bool,
    diags: &mut Diagnostics,
) -> Vec<Sides> {
    let mut sizes = vec![(0usize, 0usize); classes.len()];
    for c in &config.connections {
        let (from, to) = (&mut sizes[c.from.element].1, c.from.port + 1);
        *from = (*from).max(to);
        let (into, to) = (&mut sizes[c.to.element].0, c.to.port + 1);
        *into = (*into).max(to);
    }
    let mut all: Vec<Sides> = Vec::with_capacity(classes.len());
    for (class, size) in classes.iter().zip(&mut sizes) {
        let (ins, outs) = sides(class.ports);
        *size = (size.0.max(count(ins, size.0).min), size.1);
        size.1 = size.1.max(count(outs, size.0).min);
        let (ins, outs) = sides(class.processing);
        all.push(Sides {
            inputs: (0..size.0).map(|p| kind_at(ins, p)).collect(),
            outputs: (0..size.1).map(|p| kind_at(outs, p)).collect(),
        });
    }
    range(config, classes, diags);
    // As Click does, which says nothing more about a graph with such errors.
    if click && diags.has_errors() {
        return all;
    }
    settle(config, classes, &mut all, diags);
    if click && diags.has_errors() {
        return all;
    }
    // A connection between agnostic ports without other neighbors is push.
    for side in &mut all {
        for kind in side.inputs.iter_mut().chain(&mut side.outputs).filter(|k| **k == Processing::Agnostic) {
            *kind = Processing::Push;
        }
    }
    usage(config, &all, diags);
    all
}

fn declared(config: &Config, element: usize) -> String {
    config.elements[element].declaration()
}

/// Connections lead to ports that their elements have.
fn range(config: &Config, classes: &[Class], diags: &mut Diagnostics) {
    let mut inputs = vec![0usize; classes.len()];
    for c in &config.connections {
        inputs[c.to.element] = inputs[c.to.element].max(c.to.port + 1);
    }
    for c in &config.connections {
        for (end, what) in [(&c.from, "output"), (&c.to, "input")] {
            let (ins, outs) = sides(classes[end.element].ports);
            let most = count(ins, inputs[end.element]);
            let most = if what == "input" { most } else { count(outs, inputs[end.element].max(most.min)) };
            if most.max.is_some_and(|max| end.port >= max) {
                let message = format!("{} has no {what} {}", declared(config, end.element), end.port);
                let landmark = Landmark::At(config.elements[end.element].span);
                diags.push(Diagnostic::error(c.span, message).with_landmark(landmark));
            }
        }
    }
}

/// Propagates push and pull over agnostic ports until nothing changes.
fn settle(config: &Config, classes: &[Class], all: &mut [Sides], diags: &mut Diagnostics) {
    let given: Vec<Sides> = all.to_vec();
    let mut reported = std::collections::HashSet::new();
    loop {
        let mut changed = false;
        for (n, c) in config.connections.iter().enumerate() {
            let (from, to) = (all[c.from.element].outputs[c.from.port], all[c.to.element].inputs[c.to.port]);
            match (from, to) {
                (Processing::Agnostic, Processing::Agnostic) => {}
                (Processing::Agnostic, kind) => {
                    all[c.from.element].outputs[c.from.port] = kind;
                    changed = true;
                }
                (kind, Processing::Agnostic) => {
                    all[c.to.element].inputs[c.to.port] = kind;
                    changed = true;
                }
                (a, b) if a != b && reported.insert(n) => {
                    let message = format!(
                        "{} {} output {} connected to {} {} input {}",
                        declared(config, c.from.element),
                        a.word(),
                        c.from.port,
                        declared(config, c.to.element),
                        b.word(),
                        c.to.port
                    );
                    diags.push(Diagnostic::error(c.span, message).with_landmark(Landmark::None));
                }
                _ => {}
            }
        }
        for (e, class) in classes.iter().enumerate() {
            for i in 0..all[e].inputs.len() {
                for o in 0..all[e].outputs.len() {
                    if given[e].inputs[i] != Processing::Agnostic
                        || given[e].outputs[o] != Processing::Agnostic
                        || !flows(class.flow, i, o)
                    {
                        continue;
                    }
                    match (all[e].inputs[i], all[e].outputs[o]) {
                        (a, b) if a == b => {}
                        (Processing::Agnostic, kind) => {
                            all[e].inputs[i] = kind;
                            changed = true;
                        }
                        (kind, Processing::Agnostic) => {
                            all[e].outputs[o] = kind;
                            changed = true;
                        }
                        (a, b) => {
                            if reported.insert(usize::MAX - e) {
                                let message = format!(
                                    "agnostic {} in mixed context: {} input {i}, {} output {o}",
                                    declared(config, e),
                                    a.word(),
                                    b.word()
                                );
                                let error = Diagnostic::error(config.elements[e].span, message);
                                diags.push(error.with_landmark(Landmark::None));
                            }
                        }
                    }
                }
            }
        }
        if !changed {
            return;
        }
    }
}

/// Every port is connected; push outputs and pull inputs once.
fn usage(config: &Config, all: &[Sides], diags: &mut Diagnostics) {
    type End = fn(&Connection) -> PortRef;
    type Kinds = fn(&Sides) -> &[Processing];
    let inputs: (_, _, End, Kinds) = ("input", Processing::Pull, |c| c.to, |s| &s.inputs);
    let outputs: (_, _, End, Kinds) = ("output", Processing::Push, |c| c.from, |s| &s.outputs);
    let mut order: Vec<&Connection> = config.connections.iter().collect();
    for (what, active, end, kinds) in [inputs, outputs] {
        order.sort_by_key(|c| (end(c).element, end(c).port));
        for pair in order.windows(2) {
            let (first, port) = (end(pair[0]), end(pair[1]));
            let kind = kinds(&all[port.element])[port.port];
            if first == port && kind == active {
                let element = &config.elements[port.element];
                let message = format!(
                    "illegal reuse of {} {} {what} {}",
                    element.declaration(),
                    kind.word(),
                    port.port
                );
                let landmark = Landmark::At(element.span);
                diags.push(Diagnostic::error(pair[1].span, message).with_landmark(landmark));
            }
        }
    }
    // A port that is used twice is used, at both ends.
    for (what, _, end, kinds) in [inputs, outputs] {
        let mut used: Vec<Vec<bool>> = all.iter().map(|s| vec![false; kinds(s).len()]).collect();
        config.connections.iter().map(end).for_each(|port| used[port.element][port.port] = true);
        for (e, element) in config.elements.iter().enumerate() {
            for (port, _) in used[e].iter().enumerate().filter(|(_, used)| !**used) {
                let name = declared(config, e);
                diags.error(element.span, format!("{name} {what} {port} unused"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(count("1", 0), Count { min: 1, max: Some(1) });
        assert_eq!(count("1-2", 0), Count { min: 1, max: Some(2) });
        assert_eq!(count("-", 0), Count { min: 0, max: None });
        assert_eq!(count("2-", 0), Count { min: 2, max: None });
        assert_eq!(count("=", 3), Count { min: 3, max: Some(3) });
        assert_eq!(count("=+", 3), Count { min: 4, max: Some(4) });
    }

    #[test]
    fn flow_codes() {
        assert!(flows("x/x", 3, 5));
        assert!(!flows("x/y", 0, 0));
        assert!(flows("#/#", 2, 2) && !flows("#/#", 2, 1));
        assert!(flows("xy/x", 0, 0) && !flows("xy/x", 1, 0));
        assert!(flows("#/[^#]", 0, 1) && !flows("#/[^#]", 1, 1));
    }
}
