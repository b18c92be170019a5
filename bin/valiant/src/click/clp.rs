//! Names of options as Click's command line parser, Clp, reads them: a beginning that fits one option only is
//! enough, dashes within a name may be missing, and `no-` negates.

use super::words::quoted;

/// A long option of Click's driver, or of FastClick's.
struct Long {
    name: &'static str,
    /// Whether there is a form with `no-`.
    negates: bool,
    /// Options that do the same are no other options to each other.
    does: usize,
}

const fn long(name: &'static str, negates: bool, does: usize) -> Long {
    Long { name, negates, does }
}

/// In Clp's order, in which it names those that an abbreviation may mean.
const LONG: [Long; 20] = [
    long("allow-reconfigure", true, 0),
    long("clickpath", false, 1),
    long("expression", false, 2),
    long("file", false, 3),
    long("handler", false, 4),
    long("help", false, 5),
    long("output", false, 6),
    long("socket", false, 7),
    long("port", false, 8),
    long("quit", false, 9),
    long("simtime", false, 10),
    long("simulation-time", false, 10),
    long("threads", false, 11),
    long("cpu", true, 12),
    long("affinity", true, 12),
    long("time", false, 13),
    long("unix-socket", false, 14),
    long("version", false, 15),
    long("warnings", true, 16),
    long("exit-handler", false, 17),
];

/// How many options Clp names.
const MOST: usize = 4;

/// How many characters two names have in common at their beginnings.
fn common(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

/// Whether `word` is a beginning of `name`, and how much of it; `loose`: dashes may be missing.
fn beginning(name: &str, word: &str, loose: bool) -> Option<usize> {
    let mut rest = name;
    for c in word.chars() {
        let without = rest.strip_prefix('-').filter(|_| loose && c != '-');
        rest = without.unwrap_or(rest).strip_prefix(c)?;
    }
    Some(name.len() - rest.len())
}

/// The option that `word` means; those that it could mean are added to `possible`.
fn find(word: &str, negated: bool, possible: &mut Vec<(bool, &'static str)>) -> Option<&'static str> {
    let options = || LONG.iter().filter(move |option| option.negates || !negated);
    for loose in [false, true] {
        let before = possible.len();
        for option in options() {
            let Some(length) = beginning(option.name, word, loose) else { continue };
            let others = options().filter(|other| other.does != option.does);
            let alike = others.map(|other| common(option.name, other.name)).max().unwrap_or(0);
            if length >= (alike + 1).min(option.name.len()) {
                return Some(option.name);
            }
            possible.push((negated, option.name));
        }
        if possible.len() > before {
            break;
        }
    }
    None
}

/// An argument's long option in full, with its `--` and without its value; `None` if it is none of Click's.
/// The error says that it is an abbreviation of several.
pub(super) fn in_full(arg: &str) -> Result<Option<String>, String> {
    let Some(whole) = arg.strip_prefix("--").filter(|whole| !whole.is_empty()) else { return Ok(None) };
    let (mut word, mut negated) = (whole.split('=').next().unwrap_or_default(), false);
    let mut possible = Vec::new();
    loop {
        if let Some(name) = find(word, negated, &mut possible) {
            return Ok(Some(format!("--{}{name}", if negated { "no-" } else { "" })));
        }
        match word.strip_prefix("no-") {
            Some(rest) => (word, negated) = (rest, !negated),
            None => break,
        }
    }
    if possible.is_empty() {
        return Ok(None);
    }
    let names = possible.iter().take(MOST).enumerate().map(|(i, (negated, name))| {
        let before = match i {
            0 => " ",
            1 if possible.len() == 2 => " and ",
            _ if i + 1 == possible.len() => ", and ",
            _ => ", ",
        };
        format!("{before}{}", quoted(&format!("--{}{name}", if *negated { "no-" } else { "" })))
    });
    let (names, others) =
        (names.collect::<String>(), if possible.len() > MOST { ", and others" } else { "" });
    let option = quoted(arg);
    Err(format!("click: option {option} is ambiguous\nclick: (Possibilities are{names}{others}.)"))
}

#[cfg(test)]
mod tests {
    use super::in_full;

    #[test]
    fn beginnings_of_names() {
        for (given, full) in [
            ("--sim", Some("--simtime")),
            ("--simul=5", Some("--simulation-time")),
            ("--port", Some("--port")),
            ("--th", Some("--threads")),
            ("--exithandler", Some("--exit-handler")),
            ("--no-w", Some("--no-warnings")),
            ("--no-no-w", Some("--warnings")),
            ("--no-quit", None),
            ("--no", None),
            ("--burst", None),
            ("--cpus=1", None),
            ("--", None),
            ("-p", None),
            ("a.click", None),
        ] {
            assert_eq!(in_full(given), Ok(full.map(str::to_owned)), "{given}");
        }
        for (given, possible) in [
            ("--ex", "'--expression' and '--exit-handler'."),
            ("--s=1", "'--socket', '--simtime', and '--simulation-time'."),
            ("--no-a", "'--no-allow-reconfigure' and '--no-affinity'."),
            ("--no-", "'--no-allow-reconfigure', '--no-cpu', '--no-affinity', and '--no-warnings'."),
            ("--=", "'--allow-reconfigure', '--clickpath', '--expression', '--file', and others."),
        ] {
            let said = in_full(given).unwrap_err().replace(['\u{2018}', '\u{2019}'], "'");
            let expected =
                format!("click: option '{given}' is ambiguous\nclick: (Possibilities are {possible})");
            assert_eq!(said, expected);
        }
    }
}
