//! Configurations that would grow without bound are refused, quickly.
#![cfg(not(miri))]

use lang::{LoadOptions, Source, load};
use std::time::{Duration, Instant};

fn refused(text: &str) -> String {
    let classes = ["Idle", "Null", "Message"].map(String::from).to_vec();
    let start = Instant::now();
    let result = load(&[Source::new("t", text)], &LoadOptions::default(), &classes);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let d = result.expect_err("refused");
    d.iter().map(|d| format!("{}\n", d.message)).collect()
}

#[test]
fn elements() {
    let mut text = "elementclass C0 { Idle }\n".to_string();
    for i in 1..12 {
        let inner = format!("C{} ", i - 1).replace(' ', "; ").repeat(10);
        text.push_str(&format!("elementclass C{i} {{ {inner} }}\n"));
    }
    assert!(
        refused(&(text + "C11")).contains("configuration too large after expansion of compound elements")
    );
}

#[test]
fn connections() {
    let fan = "=> [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]".to_string();
    let nulls: String = (0..2000).map(|i| format!("a{i}, ")).collect();
    let names = nulls.trim_end_matches(", ");
    let text = format!("{names} :: Null; {names} -> {{ -> }} -> {names}; a0 {fan} a1");
    assert!(refused(&text).contains("configuration has too many connections"));
}

#[test]
fn substitution() {
    let refs = |v: &str| format!("${v}").repeat(200);
    let text = format!(
        "define($a {}, $b {}, $c {}, $d {}); Message($a)",
        refs("b"),
        refs("c"),
        refs("d"),
        "x".repeat(1000)
    );
    assert!(refused(&text).contains("configuration too large after variable substitution"));
}

#[test]
fn nesting() {
    let mut text = "elementclass C0 { Idle }\n".to_string();
    for i in 1..500 {
        text.push_str(&format!("elementclass C{i} {{ C{} }}\n", i - 1));
    }
    let classes = ["Idle".to_string()].to_vec();
    let c = load(&[Source::new("t", text + "C499")], &LoadOptions::default(), &classes).expect("loads");
    assert_eq!(c.elements.len(), 1);
    for (open, close) in [("{", "}"), ("(", ")"), ("x -> (", ")"), ("elementclass X {", "}")] {
        refused(&(open.repeat(100_000) + &close.repeat(100_000)));
    }
    refused(&"x -> { -> ( ".repeat(100_000));
    refused(&"->=>::||...[[(({{$$".repeat(20_000));
}
