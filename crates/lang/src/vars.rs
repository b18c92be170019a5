//! Variable substitution in configuration strings: `$x`, `${x}`, `${x-default}`, `${x[2]}`, `$(...)`.

use crate::quote::{is_space, quote, shift_word, skip_space};
use std::cell::Cell;

/// How a variable was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// `$name`, or `$?`, `$#`, `$$`.
    Plain,
    /// `${...}`.
    Braces,
    /// `$(...)`.
    Parens,
}

/// Values nested deeper than this are left as they are, so that the expansion of a variable that is defined
/// by itself ends.
const MAX_DEPTH: u32 = 10;

/// The source of the values of variables.
pub trait Expander {
    /// The value of the text after the `$` (without braces), or `None` to leave the text unchanged.
    /// Nested values are expanded with `depth + 1`.
    fn value(&self, name: &str, kind: VarKind, depth: u32) -> Option<String>;
}

/// Replaces the variables of `text`. Inside double quotes the value is escaped; inside single quotes and
/// comments nothing is replaced. `quoted` puts values that stand outside quotes into double quotes.
pub fn expand(text: &str, with: &dyn Expander, quoted: bool) -> String {
    expand_at(text, with, quoted, 0)
}

/// [`expand`] for a nested value; an [`Expander`] calls it with the depth that it was given plus one.
pub fn expand_at(text: &str, with: &dyn Expander, quoted: bool, depth: u32) -> String {
    if !text.contains('$') || depth > MAX_DEPTH {
        return text.to_string();
    }
    let s = text.as_bytes();
    let mut out: Vec<u8> = Vec::with_capacity(s.len());
    // `copied`: everything before it is in `out`.
    let (mut i, mut copied) = (0, 0);
    let mut in_quote = 0u8;
    while i < s.len() {
        match s[i] {
            b'\\' if in_quote == b'"' => i += 2,
            c @ (b'\'' | b'"') => {
                in_quote = match in_quote {
                    0 => c,
                    q if q == c => 0,
                    q => q,
                };
                i += 1;
            }
            b'/' if in_quote == 0 && matches!(s.get(i + 1), Some(b'/' | b'*')) => i = skip_space(s, i),
            b'$' if in_quote != b'\'' => {
                let Some(found) = reference(s, i) else {
                    i += 1;
                    continue;
                };
                let Some((name, end)) = found else { break };
                let raw = String::from_utf8_lossy(&s[name.clone()]).into_owned();
                let kind = match s[i + 1] {
                    b'{' => VarKind::Braces,
                    b'(' => VarKind::Parens,
                    _ => VarKind::Plain,
                };
                let nested = kind != VarKind::Plain && raw.contains('$');
                let inner = if nested { expand_at(&raw, with, false, depth + 1) } else { raw };
                out.extend_from_slice(&s[copied..i]);
                copied = end;
                match with.value(&inner, kind, depth) {
                    Some(v) if in_quote == b'"' => {
                        let q = quote(&v);
                        out.extend_from_slice(&q.as_bytes()[1..q.len() - 1]);
                    }
                    Some(v) if quoted => out.extend_from_slice(quote(&v).as_bytes()),
                    Some(v) => out.extend_from_slice(v.as_bytes()),
                    None if nested => {
                        out.extend_from_slice(&s[i..i + 2]);
                        out.extend_from_slice(inner.as_bytes());
                        out.push(s[end - 1]);
                    }
                    None => copied = i,
                }
                i = end;
            }
            _ => i += 1,
        }
    }
    out.extend_from_slice(&s[copied..]);
    String::from_utf8_lossy(&out).into_owned()
}

/// The variable at the `$` at `i`: `None` if there is none, `Some(None)` if it is not closed, else the range
/// of the name and the end.
#[allow(clippy::option_option, reason = "three outcomes of one scan, used in one place")]
fn reference(s: &[u8], i: usize) -> Option<Option<(std::ops::Range<usize>, usize)>> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match *s.get(i + 1)? {
        b'{' => {
            let end = s[i..].iter().position(|&b| b == b'}');
            Some(end.map(|n| (i + 2..i + n, i + n + 1)))
        }
        b'(' => {
            let (mut level, mut quote, mut j) = (1, 0u8, i + 2);
            while j < s.len() {
                match s[j] {
                    b'(' if quote == 0 => level += 1,
                    b')' if quote == 0 => {
                        level -= 1;
                        if level == 0 {
                            return Some(Some((i + 2..j, j + 1)));
                        }
                    }
                    c @ (b'"' | b'\'') if quote == 0 => quote = c,
                    c if quote != 0 && c == quote => quote = 0,
                    b'\\' if quote != b'\'' => j += 1,
                    _ => {}
                }
                j += 1;
            }
            Some(None)
        }
        b if word(b) => {
            let n = s[i + 1..].iter().position(|&b| !word(b)).unwrap_or(s.len() - i - 1);
            Some(Some((i + 1..i + 1 + n, i + 1 + n)))
        }
        b'?' | b'#' | b'$' => Some(Some((i + 1..i + 2, i + 2))),
        _ => None,
    }
}

/// One scope of variables.
#[derive(Clone, Debug, Default)]
struct Env {
    parent: Option<usize>,
    depth: usize,
    vars: Vec<(String, String)>,
}

/// The scopes of a configuration while compound elements are expanded.
#[derive(Debug, Default)]
pub(crate) struct Envs {
    list: Vec<Env>,
    /// The number of bytes of substituted text that may still be added.
    budget: Cell<usize>,
}

/// Substituted text that one configuration may hold; without a limit, a chain of definitions could grow
/// without bound.
const BUDGET: usize = 16 << 20;

impl Envs {
    pub(crate) fn new() -> Envs {
        Envs { list: Vec::new(), budget: Cell::new(BUDGET) }
    }

    pub(crate) fn add(&mut self, parent: Option<usize>, depth: usize, vars: Vec<(String, String)>) -> usize {
        self.list.push(Env { parent, depth, vars });
        self.list.len() - 1
    }

    /// The nearest scope, from `env` outwards, that lies outside lexical depth `depth`.
    pub(crate) fn outside(&self, env: usize, depth: usize) -> Option<usize> {
        let mut at = Some(env);
        while let Some(e) = at
            && self.list[e].depth >= depth
        {
            at = self.list[e].parent;
        }
        at
    }

    /// Whether the substituted text exceeded the limit and was cut.
    pub(crate) fn exhausted(&self) -> bool {
        self.budget.get() == 0
    }

    pub(crate) fn expand(&self, env: usize, text: &str) -> String {
        expand(text, &InEnv { envs: self, env }, false)
    }

    fn lookup(&self, env: usize, name: &str) -> Option<&str> {
        let mut at = Some(env);
        while let Some(e) = at {
            if let Some((_, v)) = self.list[e].vars.iter().find(|(n, _)| n == name) {
                return Some(v);
            }
            at = self.list[e].parent;
        }
        None
    }
}

struct InEnv<'a> {
    envs: &'a Envs,
    env: usize,
}

impl Expander for InEnv<'_> {
    fn value(&self, text: &str, kind: VarKind, depth: u32) -> Option<String> {
        let var = Reference::parse(text, kind);
        let nested = |v: &str| {
            let left = self.envs.budget.get();
            self.envs.budget.set(left.saturating_sub(v.len() + 1));
            if left <= v.len() { String::new() } else { expand_at(v, self, false, depth + 1) }
        };
        match self.envs.lookup(self.env, var.name) {
            Some(v) => Some(var.pick(nested(v))),
            None => var.default.map(nested),
        }
    }
}

/// The parts of `${name[index]-default}`.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Name of the variable.
    pub name: &'a str,
    /// The index of a word of the value.
    pub index: Option<usize>,
    /// The default, if the variable is not set.
    pub default: Option<&'a str>,
}

impl<'a> Reference<'a> {
    /// Splits the text that an [`Expander`] gets into its parts.
    pub fn parse(text: &'a str, kind: VarKind) -> Reference<'a> {
        if kind != VarKind::Braces {
            return Reference { name: text, index: None, default: None };
        }
        let s = text.as_bytes();
        let spaces = |mut i: usize| {
            while i < s.len() && is_space(s[i]) {
                i += 1;
            }
            i
        };
        let start = spaces(0);
        let word = s[start..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let name = &text[start..start + word];
        let mut at = spaces(start + word);
        let mut index = None;
        if s.get(at) == Some(&b'[') {
            let digits = spaces(at + 1);
            let n = s[digits..].iter().take_while(|b| b.is_ascii_digit()).count();
            if n > 0 && s.get(digits + n) == Some(&b']') {
                index = text[digits..digits + n].parse().ok();
                at = spaces(digits + n + 1);
            }
        }
        let default = (s.get(at) == Some(&b'-')).then(|| &text[at + 1..]);
        Reference { name, index, default }
    }

    /// The value, or the requested word of it.
    pub fn pick(&self, value: String) -> String {
        let Some(index) = self.index else { return value };
        let (mut word, mut rest) = (String::new(), value);
        for _ in 0..=index {
            if rest.is_empty() {
                return String::new();
            }
            (word, rest) = shift_word(&rest);
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(vars: &[(&str, &str)], text: &str) -> String {
        let mut envs = Envs::new();
        let vars = vars.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        let e = envs.add(None, 0, vars);
        envs.expand(e, text)
    }

    #[test]
    fn forms() {
        let v = [("a", "A B C"), ("n", "2"), ("q", "x\"y"), ("b", "<$n>")];
        assert_eq!(run(&v, "$a, ${a}x, $ax"), "A B C, A B Cx, $ax");
        assert_eq!(run(&v, "${a[0]} ${a[$n]} ${a[9]}|"), "A C |");
        assert_eq!(run(&v, "${z-def} ${z-$n} ${z-}"), "def 2 ");
        assert_eq!(run(&v, "'$n' \"$q\" $q"), "'$n' \"x\\\"y\" x\"y");
        assert_eq!(run(&v, "$b \"\\$n\" /* $n */ // $n"), "<2> \"\\$n\" /* $n */ // $n");
        assert_eq!(run(&v, "${a ${n"), "${a ${n");
        assert_eq!(run(&v, "$(echo $n) $( $"), "$(echo 2) $( $");
        assert_eq!(run(&v, "$ $- $$ $?"), "$ $- $$ $?");
    }

    #[test]
    #[cfg_attr(miri, ignore = "long")]
    fn endless() {
        assert!(run(&[("a", "$a$a")], "$a").len() < 1 << 20);
        let wide: String = "$a".repeat(100);
        let long = run(&[("a", &wide)], "$a");
        assert!(long.len() < 512 << 20);
    }
}
