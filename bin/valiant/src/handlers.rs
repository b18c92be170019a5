//! Handlers that are read when a run is over.

use glob::Pattern;
use lang::args::parse;
use launch::logging::error;
use launch::output;
use runtime::{HandlerError, Router};

/// Prints read handlers as `-h` asks for them. Returns whether all could be read.
pub(crate) fn print(router: &mut Router, wanted: &[String]) -> bool {
    let mut good = true;
    let mut calls: Vec<(String, bool)> = Vec::new();
    for spec in wanted {
        let name_it = wanted.len() > 1;
        let Some((element, handler)) = spec.split_once('.') else {
            calls.push((spec.clone(), name_it));
            continue;
        };
        if router.find("", element).is_some() {
            calls.push((spec.clone(), name_it));
            continue;
        }
        let is_pattern = element.contains(['*', '?', '[']);
        let mut any = false;
        let pattern = if is_pattern { shell_pattern(element) } else { None };
        for e in router.elements() {
            let meant = if is_pattern {
                pattern.as_ref().is_some_and(|pattern| pattern.matches(&e.name))
            } else {
                e.class == element
            };
            if meant {
                any = true;
                let name = format!("{}.{handler}", e.name);
                if router.check_handler(&name, false).is_ok() {
                    calls.push((name, true));
                }
            }
        }
        if !any {
            let what = if is_pattern { "no element matching" } else { "no element" };
            error(&format!("{what} '{element}'"));
            good = false;
        }
    }
    for (spec, name_it) in calls {
        // What is private to the configuration does not exist outside it.
        let value = match router.look_up("", &spec, false) {
            Ok(known) if known.private => Err(HandlerError::NoHandler(spec.clone())),
            _ => router.read(&spec, ""),
        };
        match value {
            Ok(value) => {
                let newline = if value.is_empty() || value.ends_with('\n') { "" } else { "\n" };
                let text = if name_it {
                    format!("{spec}:\n{value}{newline}\n")
                } else {
                    format!("{value}{newline}")
                };
                output::print(&text);
            }
            Err(HandlerError::NoHandler(_)) => {
                error(&format!("no '{spec}' handler"));
                good = false;
            }
            Err(e) => {
                error(&e.to_string());
                good = false;
            }
        }
    }
    good
}

/// A pattern of names: `*`, `?`, `[set]`; none if the text is not a pattern.
fn shell_pattern(text: &str) -> Option<Pattern> {
    // In paths `**` has a special meaning; names of elements have no directories.
    let mut text = text.to_owned();
    while text.contains("**") {
        text = text.replace("**", "*");
    }
    Pattern::new(&text).ok()
}

/// `-x`: an integer is the status, true is 0, false is 1, each in all forms that arguments may have. Behind
/// the handler's name may be a parameter.
pub(crate) fn exit_status(router: &mut Router, call: &str) -> u8 {
    let call = call.trim();
    let (handler, parameter) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
    match router.read(handler, parameter.trim_start()) {
        Ok(value) => status_of(value.trim()).unwrap_or_else(|| {
            error("exit handler value should be integer");
            255
        }),
        Err(HandlerError::NoHandler(_) | HandlerError::NotReadable(_)) => {
            error(&format!("no '{handler}' read handler"));
            255
        }
        Err(e) => {
            error(&e.to_string());
            255
        }
    }
}

fn status_of(value: &str) -> Option<u8> {
    if let Ok(n) = parse::<i32>(value) {
        return Some((n & 0xff) as u8);
    }
    parse::<bool>(value).ok().map(|good| u8::from(!good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_exit_status() {
        for (value, status) in [
            ("7", Some(7)),
            ("0x1f", Some(31)),
            ("-1", Some(255)),
            ("true", Some(0)),
            ("no", Some(1)),
            ("several words", None),
            ("", None),
        ] {
            assert_eq!(status_of(value), status, "{value}");
        }
    }

    #[test]
    fn patterns_of_names() {
        let matches = |pattern: &str, name: &str| shell_pattern(pattern).is_some_and(|p| p.matches(name));
        assert!(matches("c*", "counter") && matches("*", "") && matches("a?[xy]", "aby"));
        assert!(matches("**r", "counter") && matches("in*/c", "inner/deeper/c"));
        assert!(!matches("c?", "counter") && !matches("[ab]c", "cc") && !matches("[", "["));
    }
}
