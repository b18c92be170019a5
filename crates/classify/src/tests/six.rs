//! Patterns about IPv6 packets.

use crate::{NoNames, ip_classifier, ip_filter};
use std::net::Ipv6Addr;

/// A packet from 2001:db8::1 to 2001:db8:7::2 with hop limit 64, traffic class 0xb9 and flow label 0x12345.
fn six(next: u8, payload: &[u8]) -> Vec<u8> {
    let a = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let mut bytes = vec![0x6b, 0x91, 0x23, 0x45, 0, payload.len() as u8, next, 64];
    bytes.extend(a("2001:db8::1"));
    bytes.extend(a("2001:db8:7::2"));
    bytes.extend(payload);
    bytes
}

fn tcp(flags: u8) -> Vec<u8> {
    six(6, &[0x12, 0x34, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 1, 1, 0, 0, 0, 0])
}

fn matches(pattern: &str, packet: &[u8]) -> bool {
    let compiled = ip_classifier(&[pattern], None, &NoNames).unwrap_or_else(|errors| panic!("{errors}"));
    compiled.program.match_ip(packet) == 0
}

fn check(packet: &[u8], yes: &[&str], no: &[&str]) {
    for pattern in yes {
        assert!(matches(pattern, packet), "{pattern}");
    }
    for pattern in no {
        assert!(!matches(pattern, packet), "{pattern}");
    }
}

#[test]
fn versions_and_protocols() {
    let mut four = [0; 60];
    (four[0], four[9]) = (0x45, 6);
    check(
        &tcp(2),
        &["ip6", "ip6 tcp", "ip6 proto tcp", "ip6 proto 6", "ip6 proto tcpudp", "not ip6 udp"],
        &["not ip6", "ip6 udp", "icmp6", "ip6 proto 58", "ip6 proto != 6"],
    );
    check(&four, &["not ip6", "tcp"], &["ip6", "ip6 tcp", "icmp6", "ip6 proto != 17", "ip6 hlim < 3"]);
    check(
        &six(58, &[128, 0, 0, 0, 0, 0, 0, 0]),
        &["icmp6", "icmp6 type echo", "icmp6 type 128", "icmp6 type >= 128"],
        &["icmp6 type echo-reply", "icmp6 type != 128", "ip6 tcp"],
    );
}

/// A value alone has the qualifiers of the primitive before it; what begins a primitive of its own may be
/// about IPv4.
#[test]
fn both_versions_in_one_pattern() {
    let mut four = [0; 40];
    (four[0], four[9]) = (0x45, 6);
    four[12..20].copy_from_slice(&[1, 1, 1, 1, 2, 2, 2, 2]);
    four[20..24].copy_from_slice(&[0x12, 0x34, 0, 22]);
    check(
        &four,
        &[
            "ip6 proto udp or tcp dst port 22",
            "ip6 proto udp || (tcp dst port 22)",
            "ip6 proto udp or (tcp)",
            "tcp dst port 22 || ip6 proto udp",
            "src host 2001:db8::1 or 1.1.1.1",
            "dst host 2001:db8::1 or 2.2.2.2",
            "src host 1.1.1.1 or 2001:db8::1",
        ],
        &[
            "ip6 proto udp or tcp",
            "ip6 proto udp or tcp dst port 23",
            "src host 2001:db8::1 or 2.2.2.2",
            "dst host 2001:db8::1 or 1.1.1.1",
        ],
    );
    check(
        &tcp(2),
        &["ip6 proto udp or tcp", "src host 1.1.1.1 or 2001:db8::1", "dst host 1.1.1.1 or 2001:db8:7::2"],
        &["src host 1.1.1.1 or 2001:db8:7::2", "dst host 1.1.1.1 or 2001:db8::1", "ip6 proto udp or (tcp)"],
    );
}

#[test]
fn addresses() {
    check(
        &tcp(2),
        &[
            "src host 2001:db8::1",
            "host 2001:db8::1",
            "2001:db8::1",
            "src 2001:db8::1",
            "ip6 src host 2001:db8::1",
            "src ip6 host 2001:db8::1",
            "dst net 2001:db8:7::/48",
            "ip6 net 2001:db8::/32",
            "src and dst net 2001:db8::/32",
            "net ::/0",
            "dst 2001:db8:7::/64",
            "src host ::1 or 2001:db8::1",
            "src host != ::1",
            "src host 2001:db8::1 and dst host 2001:db8:7::2",
        ],
        &[
            "dst host 2001:db8::1",
            "src host 2001:db8::2",
            "src and dst net 2001:db8:7::/48",
            "net 2001:db9::/32",
            "dst host ::1 or 2001:db8::1",
            "src net ::/1 and dst net 8000::/1",
            "host 10.0.0.1",
        ],
    );
}

#[test]
fn ports_and_flags() {
    check(
        &tcp(0x12),
        &[
            "ip6 tcp dst port 80",
            "ip6 dst tcp port www",
            "ip6 port 80",
            "ip6 tcp port 0x1234",
            "ip6 tcp dst port 443 or 80",
            "ip6 tcp dst port < 81",
            "ip6 tcp dst port >= 80 && ip6 tcp src port > 1024",
            "ip6 tcp dst port & 0xf0 = 80",
            "ip6 tcp opt syn",
            "ip6 tcp opt ack and ip6 tcp opt syn",
            "ip6 src port != 80",
        ],
        &[
            "ip6 udp port 80",
            "ip6 tcp src port 80",
            "ip6 tcp port != 80",
            "ip6 tcp dst port 443 or 81",
            "ip6 dst port > 80",
            "ip6 tcp opt rst",
            "ip6 src and dst port 80",
        ],
    );
    // A fragment's ports are not looked for, nor those behind other extension headers.
    check(&six(44, &[6, 0, 0, 0, 0, 0, 0, 80, 0, 80, 0, 80]), &["ip6 proto 44"], &["ip6 port 80", "ip6 tcp"]);
    // What is cut off matches no test.
    check(&tcp(2)[..42], &["ip6 tcp"], &["ip6 dst port 80", "ip6 dst port != 80", "ip6 tcp opt syn"]);
}

#[test]
fn fields() {
    check(
        &tcp(2),
        &[
            "ip6 hlim 64",
            "ip6 hlim > 63",
            "ip6 plen 20",
            "ip6 class 0xb9",
            "ip6 dscp 46",
            "ip6 ecn 1",
            "ip6 flow 0x12345",
            "ip6[6] = 6",
            "ip6[6:1] & 0xfe = 6",
            "ip6[40:2] = 0x1234",
            "ip6 tcp[2:2] = 80",
        ],
        &["ip6 hlim 63", "ip6 hlim < 64", "ip6 plen != 20", "ip6 flow 1", "ip6[6] = 7", "ip6 udp[2:2] = 80"],
    );
}

#[test]
fn with_patterns_of_both_versions() {
    let patterns = ["ip6 tcp dst port 80 or 443", "tcp dst port 80 or 443", "ip6", "-"];
    let program = ip_classifier(&patterns, None, &NoNames).unwrap().program;
    let mut four = vec![0; 40];
    (four[0], four[9], four[23]) = (0x45, 6, 80);
    assert_eq!(program.match_ip(&tcp(2)), 0);
    assert_eq!(program.match_ip(&four), 1);
    assert_eq!(program.match_ip(&six(17, &[0; 8])), 2);
    four[9] = 17;
    assert_eq!(program.match_ip(&four), 3);
    let rules = ["deny src net 2001:db8:6::/48", "allow ip6 tcp dst port 80", "drop all"];
    let program = ip_filter(&rules, Some(1), &NoNames).unwrap().program;
    assert_eq!((program.match_ip(&tcp(2)), program.match_ip(&four)), (0, crate::NO_MATCH));
}

#[test]
fn wrong_patterns_are_errors() {
    for (pattern, wrong) in [
        ("ip6 host 10.0.0.1", "not an IPv6 address"),
        ("ip6 net 2001:db8::/129", "not an IPv6 address"),
        ("ip6 host", "not an IPv6 address"),
        ("host 2001:db8::/32", "without length"),
        ("ip6 src", "value missing"),
        ("ip6 port", "value missing"),
        ("ip6 tcp port nonsense", "value missing or unknown"),
        ("ip6 icmp", "icmp6"),
        ("icmp6 port 80", "needs TCP or UDP"),
        ("ip6 src dst port 80", "twice"),
        ("ip6 tcp udp port 80", "twice"),
        ("ip6 host net ::1", "twice"),
        ("ip6[300] = 1", "256 bytes"),
        ("ip6[2:4] = 1", "one word"),
        ("ip6[x] = 1", "syntax error"),
        ("ip6 hlim 256", "out of range"),
        ("ip6 tcp port 65536", "out of range"),
        ("src host > ::1", "not supported"),
        ("ip6 frobnicate", "empty term near 'frobnicate'"),
    ] {
        let errors = ip_classifier(&[pattern], None, &NoNames).expect_err(pattern).to_string();
        assert!(errors.contains(wrong), "{pattern}: {errors}");
    }
}
