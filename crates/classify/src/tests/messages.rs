//! Errors and warnings: their text, the place that they refer to, and hints.

use crate::{Compiled, Errors, Names, NoNames, classifier, ip_classifier, ip_filter};

/// All errors of a result, one on each line, each with the text that it refers to.
fn errors(result: Result<Compiled, Errors>, patterns: &[&str]) -> String {
    let Err(Errors(diagnostics)) = result else { return "no error".into() };
    let lines = diagnostics.iter().map(|diagnostic| {
        let place = match (diagnostic.pattern, &diagnostic.span) {
            (Some(pattern), Some(span)) => format!(" <{}>", &patterns[pattern][span.clone()]),
            _ => String::new(),
        };
        format!("{diagnostic}{place}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn classifier_errors() {
    let cases = [
        ("x", "pattern 0: expected a digit <x>"),
        ("12", "pattern 0: expected '/' <12>"),
        ("!é", "pattern 0: expected a digit <é>"),
        ("12/8", "pattern 0: value has less than 2 hex digits <8>"),
        ("12/080", "pattern 0: value has odd number of hex digits <080>"),
        ("12/0800%ff", "pattern 0: mask has too few hex digits <ff>"),
        ("12/0800%ffffff", "pattern 0: mask has too many hex digits <ffffff>"),
        ("12/0800 70000/00", "pattern 0: offset out of range, packets have at most 65532 bytes <70000/00>"),
        (
            "99999999999999999999999/00",
            "pattern 0: offset out of range, packets have at most 65532 bytes <99999999999999999999999/00>",
        ),
        (
            "1/1 2/2 3/33",
            "pattern 0: value has less than 2 hex digits <1>\npattern 0: value has less than 2 hex digits <2>",
        ),
    ];
    for (pattern, expected) in cases {
        assert_eq!(errors(classifier(&[pattern], None), &[pattern]), expected, "{pattern}");
    }
    assert_eq!(errors(classifier(&["-"], Some(2)), &["-"]), "need 2 arguments, one per output port");
}

#[test]
fn filter_errors() {
    let cases = [
        ("", "empty pattern 0"),
        ("alow tcp", "pattern 0: unknown slot ID 'alow' (did you mean 'allow'?) <alow>"),
        (
            "tcp",
            "pattern 0: unknown slot ID 'tcp' (a rule begins with 'allow', 'deny', 'drop' or an output number) <tcp>",
        ),
        ("2 tcp", "pattern 0: slot '2' out of range <2>"),
        ("-1 tcp", "pattern 0: slot '-1' out of range <-1>"),
        ("allow tpc", "pattern 0: empty term near 'tpc' (did you mean 'tcp'?) <tpc>"),
        ("allow src prt 80", "pattern 0: partial directive (did you mean 'port'?) <prt>"),
        ("allow tcp or", "pattern 0: missing expression <or>"),
        ("allow tcp and and udp", "pattern 0: empty term near 'and' <and>"),
        ("allow not", "pattern 0: missing expression after 'not' <not>"),
        ("allow (tcp", "pattern 0: missing ')' <(>"),
        ("allow tcp)", "pattern 0: garbage after expression at ')' <)>"),
        ("allow ()", "pattern 0: missing expression <)>"),
        ("allow tcp ? udp", "pattern 0: missing ':' in ternary expression <udp>"),
        ("allow port", "pattern 0: 'port': value missing <port>"),
        (
            "allow src port ftp-dta",
            "pattern 0: 'src port': value missing (did you mean 'ftp-data'?) <ftp-dta>",
        ),
        ("allow port 70000", "pattern 0: 'port': out of range, bound 65535 <port 70000>"),
        ("allow icmp port 80", "pattern 0: 'port': bad protocol 1 <icmp port 80>"),
        ("allow ip ttl & 256 == 1", "pattern 0: 'ip ttl': mask out of range, bound 0xFF <ip ttl & 256 == 1>"),
        ("allow host 10.0.0.0/8", "pattern 0: 'ip host': address missing <host 10.0.0.0/8>"),
        ("allow host > 10.0.0.1", "pattern 0: 'ip host': operator not supported <host > 10.0.0.1>"),
        ("allow 80", "pattern 0: specify header field or 'port' <80>"),
        ("allow tcp udp", "pattern 0: transport protocol specified twice <udp>"),
        ("allow src dst port 3", "pattern 0: 'src' or 'dst' specified twice <dst>"),
        ("allow port host 3", "pattern 0: type specified twice <host>"),
        ("allow tcp opt > syn", "pattern 0: 'tcp opt': operator or mask not supported <tcp opt > syn>"),
        ("allow ip[4:5] 3", "pattern 0: LEN in '[POS:LEN]' out of range, should be between 1 and 4 <[4:5]>"),
        ("allow ip[3:2] 3", "pattern 0: field [3:2] does not fit in a single word <[3:2]>"),
        ("allow ip[x] 3", "pattern 0: syntax error after '[', expected '[POS]' or '[POS:LEN]' <[x]>"),
        ("allow ip[3 3", "pattern 0: missing ']' <[>"),
        ("allow port >= foo", "pattern 0: dangling operator near 'foo' <foo>"),
        ("allow echo", "pattern 0: 'echo' is ambiguous; try 'port echo', 'icmp type echo' <echo>"),
        ("allow icmp type www", "pattern 0: 'icmp type www' is meaningless; try 'port www' <www>"),
        ("allow proto 300", "pattern 0: 'proto': out of range, bound 255 <proto 300>"),
        ("allow ether port 5", "pattern 0: 'port': ip only <ether port 5>"),
    ];
    for (rule, expected) in cases {
        assert_eq!(errors(ip_filter(&[rule], Some(2), &NoNames), &[rule]), expected, "{rule}");
    }
    assert_eq!(
        errors(ip_filter(&["allow all"], Some(0), &NoNames), &["allow all"]),
        "pattern 0: 'allow' is meaningless, element has zero outputs <allow>"
    );
}

#[test]
fn warnings() {
    let warnings = |rules: &[&str]| {
        let compiled = ip_filter(rules, Some(2), &NoNames).unwrap();
        compiled.warnings.iter().map(|warning| warning.to_string()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(warnings(&["0 tcp", "1 udp"]), "");
    assert_eq!(warnings(&["0 tcp", "1 tcp syn"]), "warning: output 1 matches no packets");
    assert_eq!(
        warnings(&["0 tcp", "1 all", "deny udp"]),
        "warning: pattern 2: meaning of 'deny' has changed (now it means 'drop')"
    );
    assert_eq!(
        warnings(&["0 ip ttl > 255", "1 all"]),
        "warning: pattern 0: relation '> 255' is always false (range 0-255)\nwarning: output 0 matches no packets"
    );
    assert_eq!(warnings(&["0 src tcp", "1 all"]), "warning: pattern 0: 'src proto': 'src' or 'dst' ignored");
}

#[test]
fn limits() {
    let (many, some) = if cfg!(miri) { (300, 20) } else { (100_000, 3_000) };
    let deep = format!("allow {}tcp", "(".repeat(many));
    let message = errors(ip_filter(&[&deep], None, &NoNames), &[&deep]);
    assert_eq!(message, "pattern 0: expression nested too deeply, at most 200 levels <(>");
    let wide = format!("allow {}tcp", "tcp ? udp : ".repeat(some));
    assert!(ip_filter(&[&wide], None, &NoNames).is_ok());
    let deep = format!("allow {}tcp", "tcp ? ".repeat(many.min(3_000)));
    assert!(ip_filter(&[&deep], None, &NoNames).is_err());
    let negations = format!("allow {}tcp", "! ".repeat(many + 1));
    assert!(ip_filter(&[&negations], None, &NoNames).is_ok());
    if cfg!(miri) {
        return;
    }
    let large = format!("allow port 1{}", " or 2".repeat(40_000));
    let message = errors(ip_filter(&[&large], None, &NoNames), &[&large]);
    assert_eq!(message, "pattern 0: patterns too large, at most 32768 tests");
    let huge = " ".repeat(2 << 20);
    let message = errors(ip_filter(&[&huge], None, &NoNames), &[&huge]);
    assert_eq!(message, "pattern 0: too long, at most 1048576 bytes");
}

/// Names that a configuration defines are found, and have priority over the built-in ones.
#[test]
fn names() {
    struct Some1;
    impl Names for Some1 {
        fn ip_address(&self, name: &str) -> Option<[u8; 4]> {
            (name == "BASTION").then_some([10, 0, 0, 9])
        }
        fn ip_prefix(&self, name: &str) -> Option<([u8; 4], [u8; 4])> {
            (name == "INSIDE").then_some(([10, 0, 0, 0], [255, 0, 0, 0]))
        }
        fn ether_address(&self, name: &str) -> Option<[u8; 6]> {
            (name == "eth0").then_some([2, 0, 0, 0, 0, 1])
        }
        fn tcp_port(&self, name: &str) -> Option<u16> {
            ["www", "ours"].contains(&name).then_some(8080)
        }
        fn udp_port(&self, name: &str) -> Option<u16> {
            (name == "ours").then_some(9090)
        }
    }
    let text =
        |pattern| ip_classifier(&[pattern], None, &Some1).map(|compiled| compiled.program.text().to_string());
    assert_eq!(text("src BASTION"), text("src host 10.0.0.9"));
    assert_eq!(text("dst INSIDE"), text("dst net 10.0.0.0/8"));
    assert_eq!(text("src net INSIDE"), text("src net 10.0.0.0 mask 255.0.0.0"));
    assert_eq!(text("ether src eth0"), text("src 2:0:0:0:0:1"));
    assert_eq!(text("tcp port www"), text("tcp port 8080"));
    assert_eq!(text("udp port ours"), text("udp port 9090"));
    assert_eq!(
        text("port ours").unwrap_err().to_string(),
        "pattern 0: 'port ours' is ambiguous; try 'tcp port ours', 'udp port ours'"
    );
}
