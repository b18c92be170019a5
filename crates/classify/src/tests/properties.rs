//! Compiled programs compared with evaluators without optimization, and random texts.

use crate::graph::{Expr, Graph, Layout, NET, TRANSP, Target, Test};
use crate::optimize::{Budget, optimize, sweep};
use crate::program::Program;
use crate::{IpParts, NO_MATCH, NoNames, classifier, ip_classifier, ip_filter};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 3 } else { cases },
        failure_persistence: None,
        ..Default::default()
    }
}

/// Expressions over few words and bits, so that their tests depend on each other.
fn exprs(offsets: &'static [u16]) -> impl Strategy<Value = Expr> {
    let masks = select(vec![
        0x0000_0001,
        0x0000_0003,
        0x0000_00ff,
        0x8000_0000,
        0xc000_0000,
        0xff00_0001,
        0x0001_0000,
    ]);
    let values = select(vec![0, 1, 2, 3, 0x8000_0000, 0x4000_0000, 0xffff_ffff]);
    let leaf =
        (select(offsets), masks, values).prop_map(|(offset, mask, value)| Expr::test(offset, value, mask));
    let leaf = prop_oneof![8 => leaf, 1 => Just(Expr::True)];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            3 => vec(inner.clone(), 1..4).prop_map(Expr::And),
            3 => vec(inner.clone(), 1..4).prop_map(Expr::Or),
            1 => vec(inner.clone(), 3).prop_map(Expr::If),
            1 => vec(inner.clone(), 5).prop_map(Expr::If),
            1 => inner.clone().prop_map(Expr::not),
            1 => inner.prop_map(Expr::differs),
        ]
    })
}

/// The answer of a test for plain data.
fn answer(test: &Test, data: &[u8]) -> bool {
    match data.get(usize::from(test.offset)..usize::from(test.offset) + 4) {
        Some(word) => u32::from_be_bytes(word.try_into().unwrap()) & test.mask == test.value,
        None => test.short,
    }
}

/// The answer of a test for an IP packet that starts with its IP header.
fn ip_answer(test: &Test, packet: &[u8]) -> bool {
    let header = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    let base = if test.offset >= TRANSP { header } else { 0 };
    let offset = if test.offset >= TRANSP { test.offset - TRANSP } else { test.offset - NET };
    let moved = Test { offset, ..*test };
    answer(&moved, packet.get(base..).unwrap_or(&[]))
}

fn program(exprs: &[Expr], layout: Layout, rounds: usize) -> Program {
    let mut graph = Graph { nodes: Vec::new(), entry: Target::Fail };
    for (output, expr) in exprs.iter().enumerate() {
        graph.append(expr.graph(Target::Output(output as u16), Target::Fail));
    }
    graph.set_fail(Target::Drop);
    sweep(&mut graph);
    for _ in 0..rounds {
        optimize(&mut graph, layout, &mut Budget::default());
    }
    Program::new(&graph, layout, exprs.len()).unwrap()
}

/// Words with few different bits.
fn words(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let word =
        select(vec![0u32, 1, 2, 3, 0xff, 0x8000_0000, 0xc000_0003, 0xff01_00ff, 0xffff_ffff, 0x4001_0001]);
    vec(word, count).prop_map(|words| words.into_iter().flat_map(u32::to_be_bytes).collect())
}

fn first_match(exprs: &[Expr], answer: impl Fn(&Test) -> bool) -> usize {
    exprs.iter().position(|expr| expr.eval(&answer)).unwrap_or(NO_MATCH)
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn bytes_program_is_its_expressions(
        exprs in vec(exprs(&[0, 4, 8]), 1..4),
        packets in vec(words(0..4), 1..24),
        rounds in 0usize..3,
    ) {
        let program = program(&exprs, Layout::Bytes, rounds);
        for packet in packets {
            let expected = first_match(&exprs, |test| answer(test, &packet));
            prop_assert_eq!(program.match_bytes(&packet), expected, "{}", program.text());
            for output in 0..exprs.len() {
                let takes = program.path_to(output).is_some_and(|path| path.takes_bytes(&packet));
                prop_assert!(!takes || output == expected, "path to {}:\n{}", output, program.text());
            }
        }
    }

    #[test]
    fn ip_program_is_its_expressions(
        exprs in vec(exprs(&[260, 264, 512, 516]), 1..4),
        packets in vec((words(0..9), 0u8..8), 1..24),
        rounds in 0usize..3,
    ) {
        let program = program(&exprs, Layout::Ip, rounds);
        for (mut packet, header) in packets {
            if let Some(first) = packet.first_mut() {
                *first = 0x40 | header;
            }
            let expected = first_match(&exprs, |test| ip_answer(test, &packet));
            prop_assert_eq!(program.match_ip(&packet), expected, "{}", program.text());
            let parts = IpParts::from_network(&packet).regions();
            for output in 0..exprs.len() {
                let takes = program.path_to(output).is_some_and(|path| path.takes_parts(&parts));
                prop_assert!(!takes || output == expected, "path to {}:\n{}", output, program.text());
            }
        }
    }
}

/// The fields of a packet that primitives test.
#[derive(Clone, Debug)]
struct Flow {
    proto: u8,
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    flags: u8,
    ttl: u8,
    tos: u8,
    frag: u16,
    words: u8,
}

impl Flow {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x40 | self.words, self.tos, 0, 60, 0, 7];
        bytes.extend(self.frag.to_be_bytes());
        bytes.extend([self.ttl, self.proto, 0, 0]);
        bytes.extend(self.src.to_be_bytes());
        bytes.extend(self.dst.to_be_bytes());
        bytes.resize(usize::from(self.words) * 4, 1);
        bytes.extend(self.sport.to_be_bytes());
        bytes.extend(self.dport.to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, self.flags, 0x20, 0, 0, 0, 0, 0]);
        bytes
    }
}

fn flows() -> impl Strategy<Value = Flow> {
    let address = || select(vec![0x0a00_0001, 0x0a00_0002, 0x0a01_0001, 0xc0a8_0101, 0x7f00_0001]);
    let port = || select(vec![0, 1, 22, 53, 80, 443, 1023, 1024, 8080, 65535]);
    let part = (select(vec![0, 0, 0, 0x2000, 0x2001, 0x4000, 0x0010]), 5u8..16);
    (
        select(vec![1u8, 6, 17, 47]),
        address(),
        address(),
        port(),
        port(),
        0u8..64,
        any::<u8>(),
        any::<u8>(),
        part,
    )
        .prop_map(|(proto, src, dst, sport, dport, flags, ttl, tos, (frag, words))| Flow {
            proto,
            src,
            dst,
            sport,
            dport,
            flags,
            ttl,
            tos,
            frag,
            words,
        })
}

/// A pattern, with the meaning that a user expects.
#[derive(Clone, Debug)]
enum Meaning {
    Proto(&'static str, &'static [u8]),
    Net(u8, u32, u32),
    Port(u8, &'static str, &'static str, u16),
    Ttl(&'static str, u8, u8),
    Tos(u8, u8),
    Frag,
    Flag(&'static str, u8),
    IcmpType(&'static str, u8),
    And(Vec<Meaning>),
    Or(Vec<Meaning>),
    Not(Box<Meaning>),
    If(Box<[Meaning; 3]>),
}

const RELATIONS: [&str; 6] = ["==", "!=", "<", ">", "<=", ">="];
const SIDES: [&str; 5] = ["src", "dst", "src and dst", "src or dst", ""];

fn related(left: u32, relation: &str, right: u32) -> bool {
    match relation {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        ">" => left > right,
        "<=" => left <= right,
        _ => left >= right,
    }
}

fn side(side: u8, src: bool, dst: bool) -> bool {
    match side {
        0 => src,
        1 => dst,
        2 => src && dst,
        _ => src || dst,
    }
}

impl Meaning {
    fn text(&self) -> String {
        let join = |parts: &[Meaning], word: &str| {
            let texts: Vec<String> = parts.iter().map(Meaning::text).collect();
            format!("({})", texts.join(word))
        };
        match self {
            Meaning::Proto(name, _) => format!("ip proto {name}"),
            Meaning::Net(side, address, bits) => {
                let [a, b, c, d] = address.to_be_bytes();
                format!("{} net {a}.{b}.{c}.{d}/{bits}", SIDES[usize::from(*side)])
            }
            Meaning::Port(side, proto, relation, port) => {
                format!("{} {proto} port {relation} {port}", SIDES[usize::from(*side)])
            }
            Meaning::Ttl(relation, mask, value) => format!("ip ttl & {mask} {relation} {value}"),
            Meaning::Tos(mask, value) => format!("ip[1] & {mask} = {value}"),
            Meaning::Frag => "frag".into(),
            Meaning::Flag(name, _) => format!("tcp opt {name}"),
            Meaning::IcmpType(relation, value) => format!("icmp type {relation} {value}"),
            Meaning::And(parts) => join(parts, " and "),
            Meaning::Or(parts) => join(parts, " || "),
            Meaning::Not(inner) => format!("not ({})", inner.text()),
            Meaning::If(parts) => {
                format!("({} ? {} : {})", parts[0].text(), parts[1].text(), parts[2].text())
            }
        }
    }

    fn holds(&self, flow: &Flow) -> bool {
        let first = flow.frag & 0x1fff == 0;
        match self {
            Meaning::Proto(_, protos) => protos.contains(&flow.proto),
            Meaning::Net(at, address, bits) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                let inside = |host: u32| host & mask == address & mask;
                side(*at, inside(flow.src), inside(flow.dst))
            }
            Meaning::Port(at, proto, relation, port) => {
                let carries = match *proto {
                    "tcp" => flow.proto == 6,
                    "udp" => flow.proto == 17,
                    _ => flow.proto == 6 || flow.proto == 17,
                };
                let holds = |have: u16| related(u32::from(have), relation, u32::from(*port));
                carries && first && side(*at, holds(flow.sport), holds(flow.dport))
            }
            Meaning::Ttl(relation, mask, value) => {
                related(u32::from(flow.ttl & mask), relation, u32::from(*value))
            }
            Meaning::Tos(mask, value) => flow.tos & mask == value & mask,
            Meaning::Frag => flow.frag & 0x3fff != 0,
            Meaning::Flag(_, bit) => flow.proto == 6 && first && flow.flags & bit != 0,
            Meaning::IcmpType(relation, value) => {
                flow.proto == 1 && first && related(u32::from(flow.sport >> 8), relation, u32::from(*value))
            }
            Meaning::And(parts) => parts.iter().all(|part| part.holds(flow)),
            Meaning::Or(parts) => parts.iter().any(|part| part.holds(flow)),
            Meaning::Not(inner) => !inner.holds(flow),
            Meaning::If(parts) => parts[if parts[0].holds(flow) { 1 } else { 2 }].holds(flow),
        }
    }
}

fn meanings() -> impl Strategy<Value = Meaning> {
    let relation = || select(&RELATIONS[..]);
    let protos: Vec<(&'static str, &'static [u8])> =
        vec![("tcp", &[6]), ("udp", &[17]), ("tcpudp", &[6, 17]), ("icmp", &[1]), ("47", &[47])];
    let networks =
        select(vec![(0x0a00_0000, 8), (0x0a00_0000, 16), (0x0a00_0001, 32), (0xc0a8_0100, 24), (0, 0)]);
    let flags = select(vec![("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)]);
    let leaf = prop_oneof![
        select(protos).prop_map(|(name, protos)| Meaning::Proto(name, protos)),
        (0u8..5, networks).prop_map(|(side, (address, bits))| Meaning::Net(side, address, bits)),
        (
            0u8..5,
            select(vec!["tcp", "udp", ""]),
            relation(),
            select(vec![0u16, 22, 80, 443, 1023, 1024, 65535])
        )
            .prop_map(|(side, proto, relation, port)| {
                // A relation that joins two sides and negates them has another meaning; only simple ones are
                // generated.
                let relation = if side >= 2 && relation != "==" && relation != ">" { "==" } else { relation };
                Meaning::Port(side, proto, relation, port)
            }),
        (relation(), 1u8..255, any::<u8>()).prop_map(|(relation, mask, value)| {
            let value = if matches!(relation, "==" | "!=") { value & mask } else { value };
            Meaning::Ttl(relation, mask, value)
        }),
        (1u8..255, any::<u8>()).prop_map(|(mask, value)| Meaning::Tos(mask, value)),
        Just(Meaning::Frag),
        flags.prop_map(|(name, bit)| Meaning::Flag(name, bit)),
        (relation(), select(vec![0u8, 1, 3, 8, 255]))
            .prop_map(|(relation, value)| Meaning::IcmpType(relation, value)),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            3 => vec(inner.clone(), 1..4).prop_map(Meaning::And),
            3 => vec(inner.clone(), 1..4).prop_map(Meaning::Or),
            1 => inner.clone().prop_map(|inner| Meaning::Not(Box::new(inner))),
            1 => [inner.clone(), inner.clone(), inner].prop_map(|parts| Meaning::If(Box::new(parts))),
        ]
    })
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn patterns_mean_what_they_say(patterns in vec(meanings(), 1..6), flows in vec(flows(), 1..24)) {
        let texts: Vec<String> = patterns.iter().map(Meaning::text).collect();
        let compiled = ip_classifier(&texts, None, &NoNames);
        let program = compiled.map_err(|errors| TestCaseError::fail(format!("{errors}\n{texts:?}")))?.program;
        for flow in flows {
            let expected = patterns.iter().position(|pattern| pattern.holds(&flow)).unwrap_or(NO_MATCH);
            prop_assert_eq!(program.match_ip(&flow.bytes()), expected, "{:?}\n{}", texts, program.text());
        }
    }
}

const WORDS: &[&str] = &[
    "src",
    "dst",
    "and",
    "or",
    "not",
    "!",
    "(",
    ")",
    "?",
    ":",
    "[",
    "]",
    "&",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    "tcp",
    "udp",
    "icmp",
    "ip",
    "ether",
    "host",
    "net",
    "port",
    "proto",
    "opt",
    "win",
    "type",
    "frag",
    "unfrag",
    "ect",
    "ce",
    "ttl",
    "len",
    "transp",
    "true",
    "false",
    "all",
    "-",
    "10.0.0.1",
    "10.0.0.0/8",
    "mask",
    "255.0.0.0",
    "80",
    "0x10",
    "-1",
    "4294967295",
    "0:2",
    "1:2:3:4:5:6",
    "www",
    "echo",
    "syn",
    "é",
    ",",
    "0",
    "300",
    "8191",
    "99999999999",
];

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn any_words_do_no_harm(words in vec(select(WORDS), 0..24), packet in vec(any::<u8>(), 0..80)) {
        let pattern = words.join(" ");
        let _ = ip_classifier(&[&pattern, "tcp"], None, &NoNames).map(|compiled| compiled.program.match_ip(&packet));
        let rule = format!("allow {pattern}");
        match ip_filter(&[&rule, &pattern], Some(2), &NoNames) {
            Ok(compiled) => { compiled.program.match_ip(&packet); }
            Err(errors) => for error in errors.0 {
                let text = if error.pattern == Some(0) { &rule } else { &pattern };
                prop_assert!(error.span.is_none_or(|span| text.get(span).is_some()));
            }
        }
    }

    #[test]
    fn any_text_does_no_harm(text in "\\PC{0,40}", packet in vec(any::<u8>(), 0..80)) {
        let _ = ip_filter(&[&text], None, &NoNames).map(|compiled| compiled.program.match_ip(&packet));
        let _ = ip_classifier(&[&text], None, &NoNames).map(|compiled| compiled.program.match_ip(&packet));
        let _ = classifier(&[&text], None).map(|compiled| compiled.program.match_bytes(&packet));
    }

    #[test]
    fn any_clauses_do_no_harm(text in "(!? ?[0-9]{1,3}/[0-9a-f?]{2,6}(%[0-9a-f?]{4})? ){0,6}", packet in vec(any::<u8>(), 0..80)) {
        let _ = classifier(&[&text, "-"], None).map(|compiled| compiled.program.match_bytes(&packet));
    }

    /// Clauses match as bytes, also in packets that end in the middle of a word.
    #[test]
    fn clauses_mean_what_they_say(
        clauses in vec((0usize..10, vec(select(vec![0u8, 1, 0x80, 0xff]), 1..6)), 0..4),
        packet in vec(select(vec![0u8, 1, 0x80, 0xff]), 0..16),
    ) {
        let mut text = String::new();
        for (offset, bytes) in &clauses {
            text += &format!(" {offset}/");
            bytes.iter().for_each(|byte| text += &format!("{byte:02x}"));
        }
        let text = if clauses.is_empty() { "-".to_string() } else { text };
        let program = classifier(&[&text, "-"], None).unwrap().program;
        let holds = |(offset, bytes): &(usize, Vec<u8>)| packet.get(*offset..offset + bytes.len()) == Some(&bytes[..]);
        let expected = usize::from(!clauses.iter().all(holds));
        prop_assert_eq!(program.match_bytes(&packet), expected, "{}\n{}", text, program.text());
    }
}
