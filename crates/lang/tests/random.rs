//! Properties that hold for every text: nothing panics, and a printed configuration that is read again is the
//! same.

use lang::args::{
    Anno, AnnoOffset, Args, Bandwidth, Bytes, ElementName, EtherAddr, Filename, FromArg, HandlerName,
    Ip6Prefix, IpPrefix, IpProto, Keyword, NameDb, Rate, Real2, Real10, TcpPort, Timestamp, Word,
};
use lang::{
    Config, LoadOptions, Source, load, quote, split_args, split_words, uncomment, unquote, unquote_bytes,
};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 3 } else { 2000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn classes() -> Vec<String> {
    ["Idle", "Discard", "Null", "Queue", "Tee"].map(String::from).to_vec()
}

fn load_text(text: &str) -> Result<Config, lang::Diagnostics> {
    load(&[Source::new("t.click", text)], &LoadOptions::default(), &classes())
}

type Elements = Vec<(String, String, String)>;
type Wires = Vec<(usize, usize, usize, usize)>;

fn parts(c: &Config) -> (Elements, Wires, Vec<String>) {
    (
        c.elements.iter().map(|e| (e.name.clone(), e.class.clone(), e.config.clone())).collect(),
        c.connections.iter().map(|c| (c.from.element, c.from.port, c.to.element, c.to.port)).collect(),
        c.requirements.clone(),
    )
}

/// Loads a text. A configuration that loads is printed and read again; otherwise there must be an error
/// message.
fn check(text: &str) -> Result<(), TestCaseError> {
    match load_text(text) {
        Ok(c) => {
            let flat = c.unparse();
            match load_text(&flat) {
                Ok(again) => prop_assert_eq!(parts(&again), parts(&c), "{}", flat),
                Err(d) => prop_assert!(false, "{}\n{}", flat, d.render(d.sources(), false)),
            }
        }
        Err(d) => {
            prop_assert!(d.has_errors());
            prop_assert!(d.render(d.sources(), true).contains(": ") || d.iter().all(|d| d.span.is_none()));
            d.to_json(d.sources());
        }
    }
    Ok(())
}

const PIECES: &[&str] = &[
    "a",
    "b",
    "x/y",
    "Idle",
    "Null",
    "Queue",
    "F",
    "G",
    "input",
    "output",
    "->",
    "->",
    "->",
    "=>",
    "::",
    "::",
    ";",
    ";",
    ",",
    "[0]",
    "[1]",
    "[]",
    "[0,1]",
    "[2,]",
    "(1)",
    "($v)",
    "(\"q$v\", 'r')",
    "(a /* c */, b)",
    "{",
    "}",
    "(",
    ")",
    "||",
    "|",
    "...",
    "$v",
    "K $w",
    "elementclass F",
    "elementclass G",
    "elementclass",
    "define($v 1)",
    "define($w $v$v)",
    "require(p)",
    "// c\n",
    "/* c */",
    "\n# 5 \"z\"\n",
    "@",
    "\"",
    "{ -> }",
    "{ -> Null -> }",
    "(->)",
    "{ $v | input -> Queue($v) -> output }",
    "a :: Idle;",
    "b :: Null;",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec((0..PIECES.len(), any::<bool>()), 0..40).prop_map(|v| {
        v.into_iter().fold(String::new(), |mut s, (i, space)| {
            s.push_str(PIECES[i]);
            s.push_str(if space { " " } else { "" });
            s
        })
    })
}

fn config_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z0-9 ,.:%\t\n-]{1,8}",
        ".{0,6}".prop_map(|s| quote(&s)),
        "[^']{0,6}".prop_map(|s| format!("'{s}'")),
        "[0-9a-f ]{0,8}".prop_map(|s| format!("\\<{s}>")),
        Just("(x)".to_string()),
        Just("/* ) */".to_string()),
        Just("$unset ".to_string()),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    #[cfg_attr(miri, ignore = "regular expressions are slow there")]
    fn any_text_loads_or_is_refused(text in ".{0,80}") {
        check(&text)?;
    }

    #[test]
    fn any_bytes_load_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let source = Source::from_bytes("b", &bytes);
        let _ = load(&[source], &LoadOptions::default(), &classes());
    }

    #[test]
    fn any_tokens_load_or_are_refused(text in soup()) {
        check(&text)?;
    }

    #[test]
    #[cfg_attr(miri, ignore = "regular expressions are slow there")]
    fn flat_configurations_are_read_back(
        elements in prop::collection::vec((0usize..5, config_string()), 1..8),
        wires in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4, any::<prop::sample::Index>(), 0usize..4), 0..20),
    ) {
        let n = elements.len();
        let mut text = String::new();
        for (i, (class, conf)) in elements.iter().enumerate() {
            text.push_str(&format!("e{i} :: {}({conf});\n", classes()[*class]));
        }
        let mut want = Wires::new();
        for (f, fp, t, tp) in &wires {
            let (f, t) = (f.index(n), t.index(n));
            text.push_str(&format!("e{f} [{fp}] -> [{tp}] e{t};\n"));
            want.push((f, *fp, t, *tp));
        }
        want.sort_by_key(|&(f, fp, t, tp)| (t, tp, f, fp));
        want.dedup();
        let c = load_text(&text).map_err(|d| TestCaseError::fail(d.render(d.sources(), false)))?;
        let (got_elements, got_wires, _) = parts(&c);
        prop_assert_eq!(got_wires, want);
        for ((_, conf), (_, _, got)) in elements.iter().zip(&got_elements) {
            prop_assert_eq!(conf, got);
        }
        check(&text)?;
    }

    #[test]
    #[cfg_attr(miri, ignore = "regular expressions are slow there")]
    fn quoting_is_undone(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(unquote(&quote(&text)), text);
        prop_assert_eq!(unquote_bytes(&lang::quote::quote_bytes(&bytes)), bytes);
    }

    #[test]
    #[cfg_attr(miri, ignore = "regular expressions are slow there")]
    fn splitting_keeps_the_parts(text in "[ab ,'\"\\\\<>/*\n$()é]{0,30}") {
        for a in split_args(&text).into_iter().chain(split_words(&text)) {
            prop_assert!(text.get(a.range.clone()).is_some(), "{:?}", a);
            prop_assert_eq!(uncomment(&a.text), a.text.clone());
        }
        let joined = lang::quote::join_args(&split_args(&text).into_iter().map(|a| a.text).collect::<Vec<_>>());
        let again: Vec<String> = split_args(&joined).into_iter().map(|a| a.text).collect();
        let first: Vec<String> = split_args(&text).into_iter().map(|a| a.text).collect();
        let closed = uncomment(&format!("{text}\u{1}")).ends_with('\u{1}');
        if closed && first.last().is_none_or(|l| !l.is_empty()) {
            prop_assert_eq!(again, first);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "regular expressions are slow there")]
    fn arguments_of_any_text(text in "[-a-fA-Z0-9_.:/, '\"\\\\<>é+]{0,24}") {
        let mut names = NameDb::new();
        names.set_elements(["a".to_string(), "b/c".to_string()]);
        fn one<T: FromArg>(text: &str, names: &NameDb) {
            let _ = T::from_arg(text, names);
            let mut args = Args::new(text, Some(lang::Span::new(0, 0, text.len())), names);
            let _ = (args.mp::<T>("A"), args.p::<T>("B"), args.k::<T>("C"), args.all::<T>("D"), args.finish());
        }
        one::<u8>(&text, &names);
        one::<i64>(&text, &names);
        one::<f64>(&text, &names);
        one::<bool>(&text, &names);
        one::<String>(&text, &names);
        one::<Bytes>(&text, &names);
        one::<Word>(&text, &names);
        one::<Keyword>(&text, &names);
        one::<Filename>(&text, &names);
        one::<Ipv4Addr>(&text, &names);
        one::<Ipv6Addr>(&text, &names);
        one::<IpPrefix>(&text, &names);
        one::<Ip6Prefix>(&text, &names);
        one::<EtherAddr>(&text, &names);
        one::<Duration>(&text, &names);
        one::<Timestamp>(&text, &names);
        one::<Bandwidth>(&text, &names);
        one::<Rate>(&text, &names);
        one::<Real2<16>>(&text, &names);
        one::<Real10<6>>(&text, &names);
        one::<TcpPort>(&text, &names);
        one::<IpProto>(&text, &names);
        one::<AnnoOffset>(&text, &names);
        one::<Anno<4>>(&text, &names);
        one::<ElementName>(&text, &names);
        one::<HandlerName>(&text, &names);
        for arg in split_args(&text) {
            let mut scoped = names.at("b/x");
            let _ = (scoped.define_address_info(&arg), scoped.define_port_info(&arg), scoped.define_annotation_info(&arg));
        }
    }

    #[test]
    fn integers_are_read_back(n in any::<i64>(), u in any::<u64>()) {
        prop_assert_eq!(lang::args::parse::<i64>(&n.to_string()), Ok(n));
        prop_assert_eq!(lang::args::parse::<u64>(&format!("{u:#x}")), Ok(u));
        prop_assert_eq!(lang::args::parse::<u64>(&format!("0{u:o}")), Ok(u));
    }

    #[test]
    fn addresses_are_read_back(a in any::<u32>(), len in 0u8..=32, six in any::<u128>(), mac in any::<[u8; 6]>()) {
        let p = IpPrefix::new(Ipv4Addr::from_bits(a), len).unwrap();
        prop_assert_eq!(lang::args::parse::<IpPrefix>(&p.to_string()), Ok(p));
        let p = Ip6Prefix { addr: Ipv6Addr::from_bits(six), len };
        prop_assert_eq!(lang::args::parse::<Ip6Prefix>(&p.to_string()), Ok(p));
        prop_assert_eq!(lang::args::parse::<EtherAddr>(&EtherAddr(mac).to_string()), Ok(EtherAddr(mac)));
    }
}
