//! Names that match a pattern.

/// Shell patterns: `*`, `?`, `[set]`.
pub(crate) fn glob(pattern: &str, name: &str) -> bool {
    fn matches(p: &[char], n: &[char]) -> bool {
        match p.split_first() {
            None => n.is_empty(),
            Some(('*', rest)) => (0..=n.len()).any(|skip| matches(rest, &n[skip..])),
            Some(('?', rest)) => !n.is_empty() && matches(rest, &n[1..]),
            Some(('[', rest)) => {
                let Some(end) = rest.iter().position(|c| *c == ']') else { return false };
                n.first().is_some_and(|c| rest[..end].contains(c)) && matches(&rest[end + 1..], &n[1..])
            }
            Some((c, rest)) => n.first() == Some(c) && matches(rest, &n[1..]),
        }
    }
    let chars = |s: &str| s.chars().collect::<Vec<_>>();
    matches(&chars(pattern), &chars(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(glob("c*", "counter") && glob("*", "") && glob("a?[xy]", "aby"));
        assert!(!glob("c?", "counter") && !glob("[ab]c", "cc"));
    }
}
