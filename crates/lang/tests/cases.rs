//! Configurations and their results: `tests/cases/NAME.click` gives `NAME.out`, the flat configuration
//! or the messages. `BLESS=1 cargo test -p valiant-lang` rewrites the `.out` files.
#![cfg(not(miri))]

use lang::{LoadOptions, Source, load};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

const CLASSES: &[&str] = &[
    "Idle",
    "Discard",
    "Null",
    "Counter",
    "Queue",
    "Shaper",
    "Paint",
    "Print",
    "Message",
    "InfiniteSource",
    "Tee",
    "Unqueue",
];

fn library(name: &str, _from: &str) -> Result<Source, String> {
    match name {
        "lib.click" => Ok(Source::new("lib/lib.click", "elementclass FromLib { -> Counter(lib) -> }")),
        _ => Err(String::new()),
    }
}

fn outcome(name: &str, text: &str) -> String {
    let classes: Vec<String> = CLASSES.iter().map(|s| s.to_string()).collect();
    let opts = LoadOptions {
        defines: vec![("outer".into(), "from outside".into())],
        library: Some(Arc::new(library)),
    };
    let mut out = String::new();
    match load(&[Source::new(format!("{name}.click"), text)], &opts, &classes) {
        Ok(config) => {
            out.push_str(&config.unparse());
            if !config.warnings.is_empty() {
                let _ = write!(out, "--- warnings\n{}", config.warnings.render(&config.sources, false));
            }
        }
        Err(diags) => {
            let _ = write!(
                out,
                "{}--- as tools see it\n{}",
                diags.render(diags.sources(), false),
                diags.render_plain(diags.sources())
            );
        }
    }
    out
}

#[test]
fn cases() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let bless = std::env::var_os("BLESS").is_some();
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .expect("tests/cases")
        .filter_map(|e| e.ok()?.file_name().into_string().ok()?.strip_suffix(".click").map(String::from))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let mut wrong = String::new();
    for name in names {
        let text = std::fs::read_to_string(dir.join(format!("{name}.click"))).expect("case");
        let got = outcome(&name, &text);
        let file = dir.join(format!("{name}.out"));
        if bless {
            std::fs::write(&file, &got).expect("write");
        } else if std::fs::read_to_string(&file).unwrap_or_default() != got {
            let _ = write!(wrong, "=== {name}: got\n{got}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}(BLESS=1 accepts the new output)");
}
