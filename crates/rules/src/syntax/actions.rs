//! Actions.

use super::line::{Line, Word};
use crate::rule::{Action, Rule};
use lang::{Diagnostic, Span};

/// A number that an action takes.
struct Setting {
    /// Its name.
    name: &'static str,
    /// The largest value.
    most: u64,
    /// The value if it is left out; none if it may not be.
    default: Option<u64>,
}

/// An action that takes numbers.
struct Known {
    /// Its name.
    name: &'static str,
    /// What it takes.
    settings: &'static [Setting],
    /// The action with these numbers; none if it does nothing.
    make: fn([u64; MOST_SETTINGS]) -> Option<Action>,
}

/// The most numbers that an action takes.
const MOST_SETTINGS: usize = 3;

const fn must(name: &'static str, most: u64) -> Setting {
    Setting { name, most, default: None }
}

const fn may(name: &'static str, most: u64, default: u64) -> Setting {
    Setting { name, most, default: Some(default) }
}

const BITS_8: u64 = u8::MAX as u64;
const BITS_16: u64 = u16::MAX as u64;
const BITS_32: u64 = u32::MAX as u64;

/// All actions but `rss`.
static KNOWN: &[Known] = &[
    Known {
        name: "queue",
        settings: &[must("index", BITS_16)],
        make: |[n, ..]| Some(Action::Queue(n as u16)),
    },
    Known { name: "drop", settings: &[], make: |_| Some(Action::Drop) },
    Known { name: "count", settings: &[may("identifier", BITS_32, 0)], make: |_| Some(Action::Count) },
    Known { name: "mark", settings: &[must("id", BITS_32)], make: |[n, ..]| Some(Action::Mark(n as u32)) },
    Known { name: "jump", settings: &[must("group", BITS_32)], make: |[n, ..]| Some(Action::Jump(n as u32)) },
    Known {
        name: "set_meta",
        settings: &[must("data", BITS_32), may("mask", BITS_32, BITS_32)],
        make: |[data, mask, _]| Some(Action::SetMeta { data: data as u32, mask: mask as u32 }),
    },
    Known {
        name: "set_tag",
        settings: &[must("data", BITS_32), may("index", BITS_8, 0), may("mask", BITS_32, BITS_32)],
        make: |[data, index, mask]| {
            Some(Action::SetTag { data: data as u32, mask: mask as u32, index: index as u8 })
        },
    },
    Known { name: "of_pop_vlan", settings: &[], make: |_| Some(Action::VlanPop) },
    Known {
        name: "of_push_vlan",
        settings: &[must("ethertype", BITS_16)],
        make: |[n, ..]| Some(Action::VlanPush(n as u16)),
    },
    Known {
        name: "of_set_vlan_vid",
        settings: &[must("vlan_vid", 0xfff)],
        make: |[n, ..]| Some(Action::VlanSetId(n as u16)),
    },
    Known {
        name: "of_set_vlan_pcp",
        settings: &[must("vlan_pcp", 7)],
        make: |[n, ..]| Some(Action::VlanSetPriority(n as u8)),
    },
    Known {
        name: "meter",
        settings: &[must("mtr_id", BITS_32)],
        make: |[n, ..]| Some(Action::Meter(n as u32)),
    },
    Known { name: "passthru", settings: &[], make: |_| Some(Action::PassThrough) },
    Known { name: "void", settings: &[], make: |_| None },
];

/// Reads the actions and what is left of the line.
pub(super) fn read(line: &mut Line<'_, '_>, rule: &mut Rule) {
    if line.peek().is_none_or(|word| word.text != "actions") {
        line.missing("'actions'", "after the pattern comes 'actions ACTION / ... / end'");
        line.skip_to(&["actions"]);
    }
    if line.next().is_none() {
        return;
    }
    let mut fate = None;
    loop {
        let Some(word) = line.next() else {
            line.missing("'/ end' after the actions", "a rule ends with '/ end'");
            return;
        };
        match word.text {
            "end" => break,
            "/" => line.error(|| {
                Diagnostic::error(word.span(), "no action before '/'").with_help("an empty action is 'void'")
            }),
            name => {
                if let Some(action) = action(name, word, line) {
                    check(&action, word, &mut fate, rule.group, line);
                    rule.actions.push(action);
                }
            }
        }
    }
    if let Some(word) = line.peek() {
        line.error(|| {
            Diagnostic::error(word.span(), format!("'{word}' after the end of the rule"))
                .with_help("one rule a line")
        });
    }
}

/// Reads an action and the `/` behind it. Nothing if it does nothing or is wrong, which has been told.
fn action(name: &str, word: Word<'_>, line: &mut Line<'_, '_>) -> Option<Action> {
    if name == "rss" {
        return rss(word, line);
    }
    let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
        line.error(|| {
            let names = KNOWN.iter().map(|known| known.name).chain(["rss"]);
            Diagnostic::error(word.span(), format!("unknown action '{word}'"))
                .with_nearest(word.text, "action", names)
        });
        line.skip_rest();
        return None;
    };
    let mut values = [None; MOST_SETTINGS];
    while let Some(setting) = line.next_inside() {
        let Some(index) = known.settings.iter().position(|known| known.name == setting.text) else {
            line.error(|| no_setting(known, setting));
            line.skip_rest();
            return None;
        };
        // A wrong value has been told, and is none that is missing.
        values[index] = Some(line.number(setting.text, known.settings[index].most).unwrap_or_default());
    }
    let mut numbers = [0; MOST_SETTINGS];
    for (index, setting) in known.settings.iter().enumerate() {
        let Some(value) = values[index].or(setting.default) else {
            line.missing(&format!("{} of {name}", setting.name), &format!("{name} {} N", setting.name));
            line.skip_rest();
            return None;
        };
        numbers[index] = value;
    }
    line.slash();
    (known.make)(numbers)
}

/// A word that the action does not take.
fn no_setting(known: &Known, word: Word<'_>) -> Diagnostic {
    let names = || known.settings.iter().map(|setting| setting.name);
    let error = Diagnostic::error(word.span(), format!("{} takes no '{word}'", known.name));
    let list: Vec<&str> = names().collect();
    let help = match list.as_slice() {
        [] => format!("after {} comes '/'", known.name),
        list => format!("{} takes {}", known.name, list.join(", ")),
    };
    error.with_nearest(word.text, "word", names()).with_help(help)
}

/// Whether an action may stand beside those before it, in this group.
fn check(
    action: &Action,
    word: Word<'_>,
    fate: &mut Option<(Span, String)>,
    group: u32,
    line: &mut Line<'_, '_>,
) {
    if let Action::Jump(to) = action
        && *to <= group
    {
        line.error(|| {
            Diagnostic::error(word.span(), format!("jump from group {group} to group {to}"))
                .with_help(format!("a jump goes to a higher group: {} or more", u64::from(group) + 1))
        });
    }
    if !is_fate(action) {
        return;
    }
    match fate {
        None => *fate = Some((word.span(), word.text.to_owned())),
        Some((before, name)) => line.error(|| {
            Diagnostic::error(word.span(), format!("{word}: {name} has decided where the packet goes"))
                .with_note(*before, format!("{name} is here"))
                .with_help("a rule has one of queue, rss, drop, jump, passthru")
        }),
    }
}

/// Whether an action decides where the packet goes.
fn is_fate(action: &Action) -> bool {
    matches!(action, Action::Queue(_) | Action::Rss(_) | Action::Drop | Action::Jump(_) | Action::PassThrough)
}

/// Reads what `rss` takes, and the `/` behind it.
fn rss(rss: Word<'_>, line: &mut Line<'_, '_>) -> Option<Action> {
    const WORDS: [&str; 6] = ["queues", "types", "func", "level", "key", "key_len"];
    let mut queues = Vec::new();
    while let Some(word) = line.next_inside() {
        match word.text {
            "queues" => queues = read_queues(line),
            "types" => read_types(word, line),
            "func" => only(line, "func", "default"),
            "level" => only(line, "level", "0"),
            "key" | "key_len" => {
                line.next_inside();
                line.error(|| {
                    Diagnostic::error(word.span(), format!("{word} of rss is not supported"))
                        .with_help("the key of the hash cannot be chosen")
                });
            }
            _ => {
                line.error(|| {
                    Diagnostic::error(word.span(), format!("rss takes no '{word}'"))
                        .with_nearest(word.text, "word", WORDS)
                        .with_help("rss queues N ... end")
                });
                line.skip_rest();
                return None;
            }
        }
    }
    if queues.is_empty() && !line.is_wrong() {
        line.error(|| Diagnostic::error(rss.span(), "rss has no queues").with_help("rss queues 0 1 end"));
    }
    line.slash();
    Some(Action::Rss(queues))
}

/// The queues up to `end`.
fn read_queues(line: &mut Line<'_, '_>) -> Vec<u16> {
    let mut queues = Vec::new();
    while line.peek().is_some_and(|word| !word.is_end()) {
        queues.extend(line.number("queues", BITS_16).map(|queue| queue as u16));
    }
    list_end(line, "queues");
    queues
}

/// The types up to `end`, of which there may be none.
fn read_types(types: Word<'_>, line: &mut Line<'_, '_>) {
    let mut some = false;
    while line.next_inside().is_some() {
        some = true;
    }
    if some {
        line.error(|| {
            Diagnostic::error(types.span(), "types of rss is not supported")
                .with_help("the hash is of the packet's flow")
        });
    }
    list_end(line, "types");
}

/// The `end` of a list.
fn list_end(line: &mut Line<'_, '_>, name: &str) {
    match line.peek() {
        Some(word) if word.text == "end" => {
            line.next();
        }
        _ => line.missing(&format!("'end' after {name}"), "a list ends with 'end', then comes '/'"),
    }
}

/// A word that has only one good value.
fn only(line: &mut Line<'_, '_>, name: &str, good: &str) {
    let Some(word) = line.next_inside() else {
        line.missing(&format!("the value of {name}"), &format!("rss {name} {good}"));
        return;
    };
    if word.text != good {
        line.error(|| {
            Diagnostic::error(word.span(), format!("rss: {name} {word} is not supported"))
                .with_help(format!("leave it out, or {name} {good}"))
        });
    }
}
