//! Names of ports, ICMP types and ICMP codes, as configurations and IP summary dumps write them.

use crate::icmpv4;

/// TCP and UDP ports that Click defines itself, in the order of their numbers, and `http`, which most
/// systems know.
pub const PORTS: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("dns", 53),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("finger", 79),
    ("http", 80),
    ("www", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("irc", 194),
    ("imap3", 220),
    ("https", 443),
    ("rip", 520),
    ("route", 520),
    ("imaps", 993),
    ("pop3s", 995),
];

/// ICMP types (RFC 792, RFC 950, RFC 1256), in the order of their numbers.
pub const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", icmpv4::ECHO_REPLY),
    ("unreachable", icmpv4::UNREACHABLE),
    ("sourcequench", icmpv4::SOURCE_QUENCH),
    ("redirect", icmpv4::REDIRECT),
    ("echo", icmpv4::ECHO),
    ("routeradvert", icmpv4::ROUTER_ADVERTISEMENT),
    ("routersolicit", icmpv4::ROUTER_SOLICITATION),
    ("timeexceeded", icmpv4::TIME_EXCEEDED),
    ("parameterproblem", icmpv4::PARAMETER_PROBLEM),
    ("timestamp", icmpv4::TIMESTAMP),
    ("timestamp-reply", icmpv4::TIMESTAMP_REPLY),
    ("inforeq", icmpv4::INFO_REQUEST),
    ("inforeq-reply", icmpv4::INFO_REPLY),
    ("maskreq", icmpv4::MASK_REQUEST),
    ("maskreq-reply", icmpv4::MASK_REPLY),
];

/// ICMP codes: type, name, code.
pub const ICMP_CODES: &[(u8, &str, u8)] = &[
    (icmpv4::UNREACHABLE, "net", 0),
    (icmpv4::UNREACHABLE, "host", 1),
    (icmpv4::UNREACHABLE, "protocol", 2),
    (icmpv4::UNREACHABLE, "port", 3),
    (icmpv4::UNREACHABLE, "needfrag", 4),
    (icmpv4::UNREACHABLE, "srcroutefail", 5),
    (icmpv4::UNREACHABLE, "netunknown", 6),
    (icmpv4::UNREACHABLE, "hostunknown", 7),
    (icmpv4::UNREACHABLE, "isolated", 8),
    (icmpv4::UNREACHABLE, "netprohibited", 9),
    (icmpv4::UNREACHABLE, "hostprohibited", 10),
    (icmpv4::UNREACHABLE, "tosnet", 11),
    (icmpv4::UNREACHABLE, "toshost", 12),
    (icmpv4::UNREACHABLE, "filterprohibited", 13),
    (icmpv4::UNREACHABLE, "hostprecedence", 14),
    (icmpv4::UNREACHABLE, "precedencecutoff", 15),
    (icmpv4::REDIRECT, "net", 0),
    (icmpv4::REDIRECT, "host", 1),
    (icmpv4::REDIRECT, "tosnet", 2),
    (icmpv4::REDIRECT, "toshost", 3),
    (icmpv4::TIME_EXCEEDED, "transit", 0),
    (icmpv4::TIME_EXCEEDED, "reassembly", 1),
    (icmpv4::PARAMETER_PROBLEM, "erroratptr", 0),
    (icmpv4::PARAMETER_PROBLEM, "missingopt", 1),
    (icmpv4::PARAMETER_PROBLEM, "length", 2),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order_and_names_unique() {
        assert!(
            PORTS.is_sorted_by_key(|(_, port)| port) && ICMP_TYPES.is_sorted_by_key(|(_, number)| number)
        );
        let unique = |mut names: Vec<&str>| {
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            names.len() == all
        };
        assert!(unique(PORTS.iter().map(|(name, _)| *name).collect()));
        assert!(unique(ICMP_TYPES.iter().map(|(name, _)| *name).collect()));
        assert!(ICMP_CODES.iter().all(|(kind, ..)| ICMP_TYPES.iter().any(|(_, number)| number == kind)));
    }
}
