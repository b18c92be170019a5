//! Program texts. Those named after a Click test are what Click's own test suite expects.

use crate::{NoNames, classifier, ip_classifier, ip_filter};

#[track_caller]
fn check(text: &str, expected: &str) {
    let expected: Vec<&str> =
        expected.lines().skip(1).map(|line| line.trim_start_matches("            ")).collect();
    assert_eq!(text.trim_end(), expected.join("\n").trim_end(), "\n{text}");
}

#[track_caller]
fn bytes(patterns: &[&str], expected: &str) {
    let compiled = classifier(patterns, Some(patterns.len())).unwrap();
    assert_eq!(compiled.warnings, []);
    check(compiled.program.text(), expected);
}

#[track_caller]
fn filter(rules: &[&str], expected: &str) {
    check(ip_filter(rules, None, &NoNames).unwrap().program.text(), expected);
}

#[track_caller]
fn ip(patterns: &[&str], expected: &str) {
    let compiled = ip_classifier(patterns, None, &NoNames).unwrap();
    assert_eq!(compiled.warnings, []);
    check(compiled.program.text(), expected);
}

#[test]
fn classifier_01() {
    bytes(
        &["1/01", "-"],
        "
             0   0/00010000%00ff0000  yes->[0]  no->[1]
            safe length 2
            alignment offset 0",
    );
}

#[test]
fn classifier_manual() {
    bytes(
        &["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"],
        "
             0  12/08060000%ffff0000  yes->step 1  no->step 3
             1  20/00010000%ffff0000  yes->[0]  no->step 2
             2  20/00020000%ffff0000  yes->[1]  no->[3]
             3  12/08000000%ffff0000  yes->[2]  no->[3]
            safe length 22
            alignment offset 0",
    );
}

#[test]
fn classifier_everything() {
    bytes(&["-"], "\nall->[0]\nsafe length 0\nalignment offset 0");
}

#[test]
fn classifier_words_masks_and_negation() {
    bytes(
        &["0/001122334455 !12/0800%ff00", "!6/?0", "-"],
        "
             0   0/00112233%ffffffff  yes->step 1  no->step 3
             1   4/44550000%ffff0000  yes->step 2  no->step 3
             2  12/08000000%ff000000  yes->step 3  no->[0]
             3   4/00000000%00000f00  yes->[2]  no->[1]
            safe length 13
            alignment offset 0",
    );
}

#[test]
fn ipfilter_04() {
    let patterns = ["dst port 7777", "dst port 8888", "dst port 7000", "icmp type echo", "icmp", "-"];
    ip(
        &patterns,
        "
             0 264/00060000%00ff0000  yes->step 2  no->step 1
             1 264/00110000%00ff0000  yes->step 2  no->step 6
             2 260/00000000%00001fff  yes->step 3  no->[5]
             3 512/00001e61%0000ffff  yes->[0]  no->step 4
             4 512/000022b8%0000ffff  yes->[1]  no->step 5
             5 512/00001b58%0000ffff  yes->[2]  no->[5]
             6 264/00010000%00ff0000  yes->step 7  no->[5]
             7 260/00000000%00001fff  yes->step 8  no->[4]
             8 512/08000000%ff000000  yes->[3]  no->[4]
            safe length 516
            alignment offset 0",
    );
    let rules = [
        "0 udp dst port netbios-ns",
        "1 udp dst port 5353",
        "2 udp src port bootpc",
        "3 128.230.206.0/24",
        "4 -",
    ];
    filter(
        &rules,
        "
             0 264/00110000%00ff0000  yes->step 1  no->step 5
             1 260/00000000%00001fff  yes->step 2  no->step 5
             2 512/00000089%0000ffff  yes->[0]  no->step 3
             3 512/000014e9%0000ffff  yes->[1]  no->step 4
             4 512/00440000%ffff0000  yes->[2]  no->step 5
             5 268/80e6ce00%ffffff00  yes->[3]  no->step 6
             6 272/80e6ce00%ffffff00  yes->[3]  no->[4]
            safe length 516
            alignment offset 0",
    );
    let patterns =
        ["proto icmp", "dst port 53", "(proto tcp and !(syn and !ack)) or (tcpudp port >= 1024)", "-"];
    ip(
        &patterns,
        "
             0 264/00010000%00ff0000  yes->[0]  no->step 1
             1 264/00060000%00ff0000  yes->step 3  no->step 2
             2 264/00110000%00ff0000  yes->step 3  no->[3]
             3 260/00000000%00001fff  yes->step 4  no->step 5
             4 512/00000035%0000ffff  yes->[1]  no->step 5
             5 264/00060000%00ff0000  yes->step 6  no->step 8
             6 260/00000000%00001fff  yes->step 7  no->[2]
             7 524/00020000%00120000  yes->step 9  no->[2]
             8 260/00000000%00001fff  yes->step 9  no->[3]
             9 512/00000000%fc00fc00  yes->[3]  no->[2]  short->yes
            safe length 526
            alignment offset 0",
    );
}

#[test]
fn ipfilter_05() {
    let rules = [
        "allow tcp && dst 10.0.0.0/32 && src 2.0.0.0/32",
        "allow tcp && dst 10.0.0.0/32 && dst port 80 && src 2.0.0.0/32",
        "allow all",
    ];
    filter(&rules, "\nall->[0]\nsafe length 0\nalignment offset 0");
}

#[test]
fn ipfilter_06() {
    let rules = [
        "allow src 0:1:2:3:4:5",
        "allow src 10.0.0.0 & 8.0.0.0 = 8.0.0.0",
        "allow dst 10:20:30:40:50:60",
        "allow host 9:A:B:C:D:E",
        "deny all",
    ];
    filter(
        &rules,
        "
             0   8/00010203%ffffffff  yes->step 1  no->step 2
             1  12/04050000%ffff0000  yes->[0]  no->step 2
             2 268/0a000000%ffffffff  yes->[0]  no->step 3
             3   0/00001020%0000ffff  yes->step 4  no->step 5
             4   4/30405060%ffffffff  yes->[0]  no->step 5
             5   8/090a0b0c%ffffffff  yes->step 6  no->step 7
             6  12/0d0e0000%ffff0000  yes->[0]  no->step 7
             7   0/0000090a%0000ffff  yes->step 8  no->[X]
             8   4/0b0c0d0e%ffffffff  yes->[0]  no->[X]
            safe length 272
            alignment offset 0",
    );
}

#[test]
fn ipfilter_07() {
    let nothing = "\nall->[X]\nsafe length 0\nalignment offset 0";
    let source = "
             0 268/0a000001%ffffffff  yes->[0]  no->[X]
            safe length 272
            alignment offset 0";
    filter(&["allow false"], nothing);
    filter(
        &["allow false", "allow false", "allow false", "allow true"],
        "\nall->[0]\nsafe length 0\nalignment offset 0",
    );
    filter(&["allow false", "allow false", "allow src 10.0.0.1"], source);
    filter(&["allow src 10.0.0.1"], source);
    filter(&[], nothing);
    filter(&["allow false", "allow false", "allow false", "allow false", "allow src 10.0.0.1"], source);
}

#[test]
fn fragments() {
    filter(
        &["allow ip frag"],
        "
             0 260/00000000%00003fff  yes->[X]  no->[0]  short->yes
            safe length 264
            alignment offset 0",
    );
    filter(
        &["allow unfrag"],
        "
             0 260/00000000%00003fff  yes->[0]  no->[X]
            safe length 264
            alignment offset 0",
    );
}

/// Seven values and more are printed in the byte order of a little-endian machine.
#[test]
fn sorted_values() {
    filter(
        &["allow src tcp port 32 or 16 or 8 or 4 or 256 or 2 or 1"],
        "
             0 264/00060000%00ff0000  yes->step 1  no->[X]
             1 260/00000000%00001fff  yes->step 2  no->[X]
             2 512/01000000%ffff0000  yes->[0]  no->step 3
             3 512/00010000%ffff0000  yes->[0]  no->step 4
             4 512/00020000%ffff0000  yes->[0]  no->step 5
             5 512/00040000%ffff0000  yes->[0]  no->step 6
             6 512/00080000%ffff0000  yes->[0]  no->step 7
             7 512/00100000%ffff0000  yes->[0]  no->step 8
             8 512/00200000%ffff0000  yes->[0]  no->[X]
            safe length 514
            alignment offset 0",
    );
}
