//! Click's classes: each is here, or an error says why it is not; and the README says how many there are.

use lang::ClassTable;
use std::collections::BTreeSet;

/// The names, with the directory of Click's tree that each is in.
fn names() -> Vec<(&'static str, &'static str)> {
    let lines = include_str!("click-classes.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(|line| {
            let mut words = line.split_whitespace();
            words.next().into_iter().flat_map(move |directory| {
                words.clone().map(move |name| (directory, name)).collect::<Vec<_>>()
            })
        })
        .collect()
}

#[test]
fn each_class_of_click_is_here_or_an_error_says_why_not() {
    let registry = elements::registry();
    let (mut unknown, mut seen) = (Vec::new(), BTreeSet::new());
    for (directory, name) in names() {
        assert!(seen.insert(name), "{name} is twice in the list");
        if registry.get(name).is_none() && registry.why_missing(name).is_none() {
            unknown.push(format!("{directory}/{name}"));
        }
    }
    assert!(unknown.is_empty(), "neither registered nor in missing.rs: {}", unknown.join(" "));
}

#[test]
fn the_readme_says_how_many_there_are() {
    let registry = elements::registry();
    let names = names();
    let here = names.iter().filter(|(_, name)| registry.get(name).is_some()).count();
    assert!(here >= 230, "only {here} of Click's classes");
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let sentence = format!("{here} of the {} classes of Click's user-level driver", names.len());
    let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&sentence), "the README must say: {sentence}");
}

#[test]
fn what_is_for_other_networks_and_for_click_itself_is_called_out_of_scope() {
    let registry = elements::registry();
    for (directory, name) in names() {
        let Some(why) = registry.why_missing(name) else { continue };
        let later = why.contains("not in Valiant yet");
        match directory {
            "wifi" | "grid" | "radio" | "local" => {
                assert!(why.contains("out of Valiant's scope"), "{name}: {why}");
            }
            "test" => assert!(why.contains("tests Click itself"), "{name}: {why}"),
            "ipsec" => assert!(why.contains("IPsecSAD"), "{name}: {why}"),
            "ip" | "userlevel" => assert!(later || why.contains("kernel"), "{name}: {why}"),
            _ => assert!(later, "{directory}/{name}: {why}"),
        }
    }
}
