//! What classes declare about themselves, over the whole library: the declarations are consistent, and there
//! are no lists of class names elsewhere.

use runtime::{Class, DropReason, Fields, Notify, Registry, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The least and the most ports that a port count code allows on a side; `None`: no limit.
fn count(code: &str) -> (usize, Option<usize>) {
    match code.split_once('-') {
        // As many as on the other side, or more by one for each `+`.
        None if code.starts_with('=') => (0, None),
        None => (code.parse().unwrap(), Some(code.parse().unwrap())),
        Some((least, most)) => (least.parse().unwrap_or(0), most.parse().ok()),
    }
}

/// The errors in a class's role.
fn misfit(registry: &Registry, class: &Class) -> Option<String> {
    let (inputs, outputs) = class.ports.split_once('/').unwrap();
    let (inputs, outputs) = (count(inputs), count(outputs));
    let fits = match class.role {
        Role::Ordinary => true,
        Role::DeviceSource => inputs == (0, Some(0)) && outputs.0 == 1 && class.reads.is_empty(),
        // What it has sent, and what it could not send, may go on.
        Role::DeviceSink => inputs == (1, Some(1)) && outputs.0 == 0 && class.writes.is_empty(),
        Role::NextHopResolver => inputs.0 >= 1 && outputs.0 >= 1 && class.reads.meets(Fields::DST_IP),
        Role::RouteTable { changeable } => {
            let adds = |class: &Class| class.handlers.iter().any(|h| h.name == "add" && h.writable());
            let other = changeable.and_then(|name| registry.get(name));
            inputs == (1, Some(1))
                && outputs.1.is_none()
                && adds(class) == changeable.is_none()
                && other.is_none_or(|c| adds(c) && c.role == Role::RouteTable { changeable: None })
                && changeable.is_some() == other.is_some()
        }
        Role::Queue => {
            inputs == (1, Some(1))
                && outputs.0 == 1
                && class.processing.starts_with("h/l")
                && class.notify == Notify::EmptyAndFull
                && class.writes.is_empty()
        }
        // They pull, and leave in the queue before them what may not pass yet.
        Role::RateLimit | Role::Delay => inputs == (1, Some(1)) && class.processing.starts_with('l'),
        Role::ClusterLink => inputs.0 == 2 && outputs.0 >= 2,
        Role::ClusterSwitch => inputs == (2, Some(2)) && outputs.1.is_none(),
    };
    (!fits).then(|| format!("{}: {:?} with ports {}", class.name, class.role, class.ports))
}

#[test]
fn roles_fit_the_ports() {
    let registry = elements::registry();
    let wrong: Vec<String> = registry.iter().filter_map(|c| misfit(&registry, c)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for role in [
        Role::DeviceSource,
        Role::DeviceSink,
        Role::NextHopResolver,
        Role::RouteTable { changeable: None },
        Role::Queue,
        Role::RateLimit,
        Role::Delay,
        Role::ClusterLink,
        Role::ClusterSwitch,
    ] {
        assert!(registry.iter().any(|c| c.role == role), "no class is a {role:?}");
    }
}

#[test]
fn an_element_without_packets_reads_and_writes_none_and_one_without_inputs_reads_none() {
    let registry = elements::registry();
    for class in registry.iter() {
        if class.ports == "0/0" {
            assert!(class.reads.is_empty() && class.writes.is_empty(), "{}", class.name);
        } else if class.ports.starts_with("0/") {
            assert!(class.reads.is_empty(), "{}", class.name);
        }
    }
}

/// `valiant why` tells what was lost for lack of room, of buffers or of a port from what elements drop by
/// their rules, by the texts of the reasons; it knows no classes.
#[test]
fn reasons_by_which_losses_are_explained_are_there() {
    let registry = elements::registry();
    let all: Vec<&str> =
        registry.iter().flat_map(|class| class.drops).map(|case| case.reason.text()).collect();
    for text in ["receive: ring full", "early drop", "port gone"] {
        assert!(all.contains(&text), "{text}");
    }
    for begin in ["no buffer", "receive: no buffer"] {
        assert!(all.iter().any(|text| text.starts_with(begin)), "{begin}");
    }
    let full = ["queue full", "transmit queue full", "worker's ring full", "handoff ring full"];
    let general = runtime::DropReason::GENERAL.map(runtime::DropReason::text);
    assert!(full.iter().all(|text| text.ends_with("full") && (all.contains(text) || general.contains(text))));
}

#[test]
fn drop_reasons_are_short_and_said_once() {
    let registry = elements::registry();
    let all: Vec<(&str, DropReason)> =
        registry.iter().flat_map(|class| class.drops.iter().map(|case| (class.name, case.reason))).collect();
    assert!(all.len() > 100, "{}", all.len());
    for (class, reason) in &all {
        let text = reason.text();
        assert!(
            !text.is_empty() && text.len() <= 60 && !text.contains(['\n', '\t', '.']),
            "{class}: '{text}'"
        );
        assert!(!DropReason::GENERAL.contains(reason), "{class}: '{text}' is counted for every element");
        let same = all.iter().filter(|(c, r)| c == class && r.text().eq_ignore_ascii_case(text)).count();
        assert_eq!(same, 1, "{class}: '{text}' is declared twice");
    }
    let words = |reason: &DropReason| {
        let mut words: Vec<String> = reason.text().to_lowercase().split(' ').map(str::to_owned).collect();
        words.sort();
        words
    };
    for (class, reason) in &all {
        let like = all.iter().find(|(_, r)| r != reason && words(r) == words(reason));
        assert_eq!(like, None, "{class}: '{reason}'");
    }
}

#[test]
fn every_declared_reason_says_when() {
    let registry = elements::registry();
    for class in registry.iter() {
        for case in class.drops {
            let when = case.when;
            assert!(
                !when.trim().is_empty() && when.len() <= 200 && !when.ends_with('.') && !when.contains("  "),
                "{}: '{}': '{when}'",
                class.name,
                case.reason
            );
            assert!(!when.contains(['\n', '\t']) && when == when.trim(), "{}: '{when}'", class.name);
        }
    }
}

#[test]
fn every_reason_with_a_name_is_counted_somewhere() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let text: String = files.iter().map(|f| fs::read_to_string(f).unwrap()).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
    let names = lines.iter().filter_map(|line| {
        let (before, _) = line.split_once(": DropReason =")?;
        before.rsplit(' ').next()
    });
    let words = |line: &str| -> Vec<String> {
        line.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let counted: BTreeSet<String> = lines
        .iter()
        .filter(|l| !l.contains(".when(") && !l.contains(": DropReason ="))
        .flat_map(|l| words(l))
        .collect();
    let names: BTreeSet<&str> = names.collect();
    assert!(names.len() > 80, "{names:?}");
    let idle: Vec<&&str> = names.iter().filter(|name| !counted.contains(**name)).collect();
    assert!(idle.is_empty(), "declared, and never counted: {idle:?}");
}

#[test]
fn a_fast_path_is_for_packets_of_input_0() {
    let registry = elements::registry();
    let fast: Vec<&Class> = registry.iter().filter(|c| c.step.is_some()).collect();
    assert!(fast.len() > 20, "{}", fast.len());
    for class in fast {
        assert!(class.ports.starts_with(['1', '2']), "{}: {}", class.name, class.ports);
    }
}

#[test]
fn who_implements_a_step_says_so() {
    // The compiler checks that a class that declares a step implements one: `StepFacts::of` accepts no other
    // type.
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let (mut found, mut wrong) = (0, Vec::new());
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let count = |wanted: &dyn Fn(&str) -> bool| source.lines().filter(|line| wanted(line)).count();
        let steps = count(&|line| line.starts_with("impl") && line.contains(" Step for "));
        let declared = count(&|line| line.contains("const STEP: ") && line.contains("::of::<Self>()"));
        found += steps;
        if steps != declared {
            wrong.push(format!("{}: {steps} steps, {declared} are declared", file.display()));
        }
    }
    assert!(found > 10, "{found}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Words that are names of classes but mean something else, or that cannot be avoided: the file, the word,
/// the reason.
const ALLOWED: [(&str, &str, &str); 7] = [
    ("crates/clusterctl/src/split/write.rs", "Idle", WRITTEN),
    ("crates/clusterctl/src/split/write.rs", "ClusterEncap", WRITTEN),
    ("crates/clusterctl/src/split/write.rs", "ClusterQueue", WRITTEN),
    ("crates/predict/src/traffic.rs", "Idle", WRITTEN),
    ("crates/clusterctl/src/split/analysis.rs", "FromDevice", ADVISED),
    ("crates/clusterctl/src/split/analysis.rs", "ToDevice", ADVISED),
    ("crates/clusterctl/src/split/analysis.rs", "ARPQuerier", ADVISED),
];
const WRITTEN: &str = "it writes configurations, and so names what it writes";
const ADVISED: &str = "messages recommend it to the user";

/// Files whose longer texts name classes of other sections.
const NAMING: [(&str, &str); 14] = [
    ("crates/clusterctl/src/split/analysis.rs", ADVISED),
    ("crates/clusterctl/src/split/write.rs", WRITTEN),
    ("crates/clusterctl/src/split/fabrics.rs", WRITTEN),
    ("bin/valiant/src/traffic/config.rs", WRITTEN),
    ("bin/valiant/src/run.rs", WRITTEN),
    ("crates/vrctl/src/setup.rs", WRITTEN),
    ("crates/vrctl/src/hybrid.rs", WRITTEN),
    ("bin/valiant/src/cli.rs", "the help shows a configuration"),
    ("bin/valiant/src/bench.rs", "the help shows elements"),
    ("bin/valiant/src/nic/rules.rs", "the help names the elements that have rules"),
    ("bin/valiant/src/costs.rs", WRITTEN),
    ("crates/predict/src/element.rs", WRITTEN),
    ("crates/launch/src/client.rs", "Click's greeting has the name"),
    ("crates/elements/src/missing.rs", "an error names what to use instead"),
];

/// The string literals of a Rust source before its tests, each with its line.
fn literals(source: &str) -> Vec<(usize, String)> {
    let end = source.find("\n#[cfg(test)]\nmod ").or_else(|| source.find("\n#[cfg(test)]\npub(crate) mod "));
    let text: Vec<char> = source[..end.unwrap_or(source.len())].chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    let next = |at: usize| text.get(at).copied().unwrap_or('\0');
    while at < text.len() {
        match (text[at], next(at + 1)) {
            ('\n', _) => line += 1,
            ('/', '/') => {
                while at + 1 < text.len() && next(at + 1) != '\n' {
                    at += 1;
                }
            }
            // A character literal, not a lifetime.
            ('\'', '\\') => at += 2,
            ('\'', _) if next(at + 2) == '\'' => at += 2,
            ('r', '#') if next(at + 2) == '"' => {
                let begin = at + 3;
                at = begin;
                while at < text.len() && !(text[at] == '"' && next(at + 1) == '#') {
                    at += 1;
                }
                let inside: String = text[begin..at.min(text.len())].iter().collect();
                found.push((line, inside.clone()));
                line += inside.matches('\n').count();
            }
            ('"', _) => {
                let (begin, first) = (at + 1, line);
                at = begin;
                while at < text.len() && text[at] != '"' {
                    line += usize::from(text[at] == '\n');
                    at += 1 + usize::from(text[at] == '\\');
                }
                found.push((first, text[begin..at.min(text.len())].iter().collect()));
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The Rust sources in a directory, without tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["tests", "target", "examples", "benches"].contains(&name.as_str()) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The section of each class: the directory of its golden test.
fn sections(root: &Path) -> BTreeMap<String, String> {
    let mut sections = BTreeMap::new();
    for section in fs::read_dir(root.join("tests/click")).unwrap() {
        let section = section.unwrap();
        for test in fs::read_dir(section.path()).unwrap() {
            let name = test.unwrap().file_name().to_string_lossy().into_owned();
            let class = name.strip_suffix(".clicktest").unwrap_or(&name).to_owned();
            sections.insert(class, section.file_name().to_string_lossy().into_owned());
        }
    }
    sections
}

#[test]
fn nobody_names_a_class_of_another_section() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (registry, sections) = (elements::registry(), sections(&root));
    let mut files = Vec::new();
    ["crates", "bin"].iter().for_each(|dir| sources(&root.join(dir), &mut files));
    assert!(files.len() > 200, "{} files", files.len());
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        for (line, literal) in literals(&fs::read_to_string(&file).unwrap()) {
            let Some(class) = registry.get(&literal) else { continue };
            seen += 1;
            let section = sections.get(&class.name.to_lowercase());
            let own = section.is_some_and(|s| name.starts_with(&format!("crates/elements/src/{s}/")));
            if !own && !ALLOWED.iter().any(|(file, word, _)| *file == name && *word == literal) {
                wrong.push(format!("{name}:{line}: \"{literal}\""));
            }
        }
    }
    assert!(
        seen >= registry.iter().count() / 2,
        "only {seen} literals found: does the reader of sources work?"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a word can only be the name of a class: `FromHost` is one, `Queue` may be an ordinary word.
fn unmistakable(word: &str) -> bool {
    word.chars().filter(char::is_ascii_uppercase).count() > 1
        && word.contains(|c: char| c.is_ascii_lowercase())
}

#[test]
fn no_text_names_classes_of_another_section() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (registry, sections) = (elements::registry(), sections(&root));
    let mut files = Vec::new();
    ["crates", "bin"].iter().for_each(|dir| sources(&root.join(dir), &mut files));
    let (mut wrong, mut naming) = (Vec::new(), BTreeSet::new());
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        for (line, literal) in literals(&fs::read_to_string(&file).unwrap()) {
            for word in literal.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| unmistakable(word))
            {
                let Some(class) = registry.get(word) else { continue };
                let section = sections.get(&class.name.to_lowercase());
                let own = section.is_some_and(|s| name.starts_with(&format!("crates/elements/src/{s}/")));
                match NAMING.iter().find(|(file, _)| *file == name) {
                    Some((file, _)) => drop(naming.insert(*file)),
                    None if own => {}
                    None => wrong.push(format!("{name}:{line}: {word}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(naming.len(), NAMING.len(), "only {naming:?} still name any");
}

#[test]
fn literals_are_found_and_comments_are_not() {
    let source = "// \"no\"\nlet a = ['\"', '\\'', 'x'];\nf::<'a>(\"one\", \"t\\\"wo\"); r#\"th\"ree\"#;\n\"fo\nur\"; \"five\"\n#[cfg(test)]\nmod tests { \"six\" }";
    let found = literals(source);
    let expected = [(3, "one"), (3, "t\\\"wo"), (3, "th\"ree"), (4, "fo\nur"), (5, "five")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}
