//! What Click's driver says of a command line that it does not understand.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The lines that stand below any complaint.
pub(super) const USAGE: &str =
    "Usage: click [OPTION]... [ROUTERFILE]\nTry 'click --help' for more information.";
/// What follows the name: the first line has the form and the version of the Click whose behavior this is.
pub(super) const VERSION: &str =
    concat!("(Click) 2.1\nThis is Valiant ", env!("CARGO_PKG_VERSION"), ", which runs Click configurations.");
/// Two configurations.
pub(super) const TWICE: &str = "router configuration specified twice";

/// Whether Clp quotes in UTF-8.
fn is_utf8(lang: Option<String>) -> bool {
    lang.is_some_and(|lang| ["UTF-8", "UTF8", "utf8"].iter().any(|name| lang.contains(name)))
}

/// A text in quotation marks, which depend on the environment as Clp's do.
pub(super) fn quoted(text: &str) -> String {
    let (open, close) = marks();
    format!("{open}{text}{close}")
}

/// The quotation marks; the second one is the apostrophe, too.
fn marks() -> (char, char) {
    if is_utf8(std::env::var("LANG").ok()) { ('\u{2018}', '\u{2019}') } else { ('\'', '\'') }
}

/// Of options that have a long form only.
const NO_LETTER: char = '\0';

/// Click's options with a value, and what it says that they expect, for those that do not take any text.
const VALUED: [(&str, char, &str); 11] = [
    ("clickpath", 'C', ""),
    ("expression", 'e', ""),
    ("file", 'f', ""),
    ("handler", 'h', ""),
    ("output", 'o', ""),
    ("port", 'p', "a TCP port number"),
    ("threads", 'j', "an integer"),
    ("unix-socket", 'u', ""),
    ("exit-handler", 'x', ""),
    ("socket", NO_LETTER, "an integer"),
    ("simtime", NO_LETTER, "a real number"),
];

/// What is wrong with the command line `args`, in Click's words; `None` if an option is meant that Click does
/// not have.
pub(super) fn complaint(e: &clap::Error, args: &[String]) -> Option<String> {
    let context = |kind| match e.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let (argument, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    // `--port <PORT>`, `--handler <ELEMENT.HANDLER>`
    let long = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let known = VALUED.iter().find(|(name, _, _)| long.strip_prefix("--") == Some(name));
    match e.kind() {
        ErrorKind::UnknownArgument => {
            let whole =
                args.iter().find(|arg| arg.strip_prefix(argument).is_some_and(|v| v.starts_with('=')));
            Some(format!("click: unrecognized option {}", quoted(whole.map_or(argument, |arg| arg))))
        }
        ErrorKind::ArgumentConflict => match long {
            "--file" | "--expression" => Some(TWICE.to_owned()),
            "--output" => Some("output file specified twice".to_owned()),
            "--exit-handler" => Some("--exit-handler specified twice".to_owned()),
            _ => None,
        },
        ErrorKind::TooManyValues => {
            Some(format!("click: {} can{}t take an argument", quoted(long), marks().1))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            let (_, short, _) = known?;
            let is_short = args.last().is_some_and(|arg| !arg.starts_with("--") && arg.ends_with(*short));
            let given = if is_short { format!("-{short}") } else { long.to_owned() };
            Some(format!("click: {} requires an argument", quoted(&given)))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let (_, short, wanted) = known.filter(|(_, _, wanted)| !wanted.is_empty())?;
            let short = format!("-{short}");
            let is_short = args.windows(2).any(|two| two[0] == short && two[1] == value)
                || args.iter().any(|arg| arg.strip_prefix(&short) == Some(value));
            let given = if is_short { &short } else { long };
            Some(format!("click: {} expects {wanted}, not {}", quoted(given), quoted(value)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<String> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = super::super::command().try_get_matches_from(&args).err()?;
        complaint(&error, &args).map(|text| text.replace(['\u{2018}', '\u{2019}'], "'"))
    }

    #[test]
    fn quotation_marks_depend_on_the_language() {
        for (lang, utf8) in [("en_US.UTF-8", true), ("C.utf8", true), ("C", false), ("de_DE@euro", false)] {
            assert_eq!(is_utf8(Some(lang.to_owned())), utf8, "{lang}");
        }
        assert!(!is_utf8(None));
    }

    #[test]
    fn complaints_are_clicks() {
        for (line, words) in [
            ("click --nonsense", "click: unrecognized option '--nonsense'"),
            ("click --nonsense=5 a", "click: unrecognized option '--nonsense=5'"),
            ("click -Zq", "click: unrecognized option '-Z'"),
            ("click --quit=1", "click: '--quit' can't take an argument"),
            ("click -q -f", "click: '-f' requires an argument"),
            ("click --file", "click: '--file' requires an argument"),
            ("click -p x", "click: '-p' expects a TCP port number, not 'x'"),
            ("click --port=x", "click: '--port' expects a TCP port number, not 'x'"),
            ("click --socket x", "click: '--socket' expects an integer, not 'x'"),
            ("click --simtime=abc", "click: '--simtime' expects a real number, not 'abc'"),
            ("click -jmany", "click: '-j' expects an integer, not 'many'"),
            ("click -e a -e b", TWICE),
            ("click -o a -o b", "output file specified twice"),
            ("click -x a -x b", "--exit-handler specified twice"),
        ] {
            assert_eq!(said(line).as_deref(), Some(words), "{line}");
        }
        // Options of Valiant's own, and what Click takes more than once.
        for line in ["click --burst x", "click -R -R -q -q -j 1 -j 2 -C a -C b", "click -h a.b -h a.c"] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
