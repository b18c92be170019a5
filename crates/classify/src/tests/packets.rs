//! The results of single patterns for hand-made packets.

use crate::{IpParts, NO_MATCH, NoNames, classifier, ip_classifier, ip_filter};

/// An IPv4 packet.
#[derive(Clone)]
struct Ip {
    proto: u8,
    tos: u8,
    ttl: u8,
    frag: u16,
    words: u8,
    payload: Vec<u8>,
}

impl Ip {
    fn new(proto: u8, payload: &[u8]) -> Ip {
        Ip { proto, tos: 0, ttl: 64, frag: 0, words: 5, payload: payload.to_vec() }
    }

    fn tcp(src: u16, dst: u16, flags: u8) -> Ip {
        let mut header = [0; 20];
        header[..2].copy_from_slice(&src.to_be_bytes());
        header[2..4].copy_from_slice(&dst.to_be_bytes());
        header[12..16].copy_from_slice(&[0x50, flags, 0x10, 0]);
        Ip::new(6, &header)
    }

    fn udp(src: u16, dst: u16) -> Ip {
        let mut header = [0; 8];
        header[..2].copy_from_slice(&src.to_be_bytes());
        header[2..4].copy_from_slice(&dst.to_be_bytes());
        Ip::new(17, &header)
    }

    /// From 10.0.0.1 to 192.168.7.8.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(self.words) * 4];
        bytes[0] = 0x40 | self.words;
        bytes[1] = self.tos;
        let len = (bytes.len() + self.payload.len()) as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[4..6].copy_from_slice(&[0x12, 0x34]);
        bytes[6..8].copy_from_slice(&self.frag.to_be_bytes());
        bytes[8] = self.ttl;
        bytes[9] = self.proto;
        bytes[12..16].copy_from_slice(&[10, 0, 0, 1]);
        bytes[16..20].copy_from_slice(&[192, 168, 7, 8]);
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

fn matches(pattern: &str, packet: &[u8]) -> bool {
    let compiled = ip_classifier(&[pattern], None, &NoNames).unwrap_or_else(|errors| panic!("{errors}"));
    compiled.program.match_ip(packet) == 0
}

#[track_caller]
fn table(packet: &Ip, yes: &[&str], no: &[&str]) {
    let bytes = packet.bytes();
    for pattern in yes {
        assert!(matches(pattern, &bytes), "{pattern}");
    }
    for pattern in no {
        assert!(!matches(pattern, &bytes), "{pattern}");
    }
}

#[test]
fn tcp_packet() {
    let yes = [
        "-",
        "any",
        "all",
        "true",
        "tcp",
        "ip proto tcp",
        "ip proto 6",
        "proto 6",
        "proto != udp",
        "tcpudp",
        "transp",
        "host 10.0.0.1",
        "host 192.168.7.8",
        "10.0.0.1",
        "src 10.0.0.1",
        "src host == 10.0.0.1",
        "dst host != 10.0.0.1",
        "src or dst host 192.168.7.8",
        "src net 10.0.0.0/8",
        "src net 10.0.0.0 mask 255.0.0.0",
        "src 10.7.7.7 & 255.0.0.0 == 10.0.0.0 or src host & 255.0.0.0 == 10.9.9.9",
        "dst 192.168.0.0/16",
        "src net 0.0.0.0/0",
        "src port 1234",
        "dst port 80",
        "dst tcp port 80",
        "dst port www",
        "dst port http",
        "dst port == 80",
        "dst port != 81",
        "src port > 1023",
        "src tcp port >= 1234",
        "dst port < 81",
        "dst port <= 80",
        "dst www",
        "port 80",
        "port 80 or 443",
        "src port 80 or dst port 443 or 80",
        "src port 1 or 2 or 1234",
        "tcp and dst port 80",
        "tcp && !udp",
        "tcp dst port 80 syn",
        "not udp",
        "! (udp or icmp)",
        "syn",
        "tcp opt syn",
        "syn and !ack",
        "tcp win 4096",
        "tcp win > 4095",
        "ip vers 4",
        "ip hl 5",
        "ip id 0x1234",
        "ip ttl 64",
        "ip ttl > 1 and < 255",
        "ip len 40",
        "ip tos 0",
        "ip dscp 0",
        "ip unfrag",
        "unfrag",
        "not ip frag",
        "ip[9] 6",
        "ip[12:4] 0x0a000001",
        "ip[0] & 0x0f == 5",
        "transp[2:2] 80",
        "tcp[2:2] == 80",
        "tcp[12,13] & 0x00ff = 2",
        "tcp ? dst port 80 : udp",
        "udp ? false : icmp ? false : dst port 80",
        "src port & 0xff00 == 0x0400",
        "dst port & 80 == 80",
    ];
    let no = [
        "false",
        "udp",
        "not tcp",
        "proto != tcp",
        "icmp type echo",
        "host 10.0.0.2",
        "src and dst host 10.0.0.1",
        "host != 10.0.0.1",
        "src net 11.0.0.0/8",
        "src port 80",
        "dst udp port 80",
        "src or dst port != 80",
        "src port > 1234",
        "src port < 1234",
        "dst port 81 or 82",
        "ack",
        "tcp opt fin",
        "ip ce",
        "ip ect",
        "ip frag",
        "ip ttl < 64",
        "udp[2:2] 80",
        "icmp[0] 4",
        "src ether host 1:2:3:4:5:6",
        "tcp ? udp : true",
    ];
    table(&Ip::tcp(1234, 80, 2), &yes, &no);
}

#[test]
fn other_packets() {
    table(
        &Ip::udp(53, 68),
        &["udp", "src port dns", "dst port bootpc", "udp port 53"],
        &["tcp", "tcp port 53", "syn"],
    );
    let mut echo = Ip::new(1, &[8, 0, 0, 0, 0, 0, 0, 0]);
    table(
        &echo,
        &["icmp", "icmp type echo", "icmp type 8", "icmp type != 3", "icmp type > 3"],
        &["icmp type 0"],
    );
    echo.tos = 0x2b;
    table(&echo, &["ip ce", "ip ect", "ip dscp 10", "ip tos 43", "ip ecn 3", "ip ect 3"], &["ip ect 1"]);
    echo.tos = 0x01;
    table(&echo, &["ip ect", "ip ect 1", "ip ecn 1"], &["ip ce"]);
}

/// A negated primitive is also true where the primitive makes no sense; a negated relation is not.
#[test]
fn negation() {
    let udp = Ip::udp(1, 2);
    table(&udp, &["!(src tcp port == 5)", "not icmp type 4"], &["src tcp port != 5", "icmp type != 4"]);
}

#[test]
fn fragments_and_options() {
    let mut packet = Ip::tcp(1234, 80, 2);
    packet.frag = 0x2000;
    table(&packet, &["dst port 80", "ip frag", "syn"], &["unfrag"]);
    packet.frag = 0x2001;
    table(
        &packet,
        &["tcp", "ip frag", "not dst port 80"],
        &["dst port 80", "dst port != 81", "syn", "tcp[2:2] 80"],
    );
    packet.frag = 0x4000;
    packet.words = 8;
    table(&packet, &["unfrag", "dst port 80", "ip hl 8"], &["dst port 81"]);
}

/// What Click's tests IPFilter-01 to IPFilter-03 and fastclassifier-01 expect of short packets.
#[test]
fn short_packets() {
    let long = Ip::udp(0, 0).bytes();
    let odd = Ip::udp(128, 0).bytes();
    assert!(matches("ip[19]&128==0", &long));
    assert!(!matches("ip[19]&128==0", &long[..19]));
    for (packet, bit) in [(&long, false), (&odd, true)] {
        assert_eq!(matches("transp[1]&128==0", packet), !bit);
        assert_eq!(matches("transp[1]&128!=0", packet), bit);
        assert_eq!(matches("transp[1]>=16", packet), bit);
        assert_eq!(matches("not (transp[1]<16)", packet), bit);
        assert!(matches("transp[1]&128==0 || transp[1]&128==128", packet));
        for pattern in ["transp[1]&128==0", "transp[1]&128!=0", "transp[1]&128==0 || transp[1]&128==128"] {
            assert!(!matches(pattern, &packet[..21]), "{pattern}");
            assert!(!matches(pattern, &packet[..20]), "{pattern}");
        }
        assert!(matches("not (transp[1]&128==0)", &packet[..21]));
        assert!(matches("not (transp[1]<16)", &packet[..21]));
        assert!(!matches("transp[1]>=16", &packet[..21]));
        assert!(matches("transp[1] & 128 == 0", &packet[..22]) != bit);
    }
    for pattern in ["tcp", "not tcp", "ip[200] 3", "not ip[200] 3", "ip frag", "src port 4"] {
        for length in 0..long.len() {
            let _ = matches(pattern, &long[..length]);
        }
    }
    assert!(!matches("ip[200] 3", &long));
    assert!(matches("not ip[200] 3", &long));
    let compiled = classifier(&["12/0800", "!12/08", "-"], None).unwrap();
    assert_eq!(compiled.program.match_bytes(&[8; 13]), 2);
    assert_eq!(compiled.program.match_bytes(&[8; 12]), 1);
    assert_eq!(compiled.program.match_bytes(&[]), 1);
    let mut frame = [0; 14];
    frame[12] = 8;
    assert_eq!(compiled.program.match_bytes(&frame), 0);
}

#[test]
fn mac_header() {
    let mac = [16, 32, 48, 64, 80, 96, 0, 1, 2, 3, 4, 5, 8, 0];
    let network = Ip::udp(1, 2).bytes();
    let parts = IpParts { mac: &mac, ..IpParts::from_network(&network) };
    let matches = |pattern: &str| {
        ip_filter(&[format!("allow {pattern}")], None, &NoNames).unwrap().program.match_parts(&parts) == 0
    };
    assert!(matches("src 0:1:2:3:4:5"));
    assert!(matches("ether src host 0:1:2:3:4:5"));
    assert!(matches("dst 10:20:30:40:50:60"));
    assert!(matches("ether host & ff:0:0:0:0:0 == 10:0:0:0:0:0"));
    assert!(!matches("src 10:20:30:40:50:60"));
    assert!(!matches("ether dst host 10:20:30:40:50:61"));
}

#[test]
fn many() {
    let compiled = ip_filter(&["1 udp", "drop tcp", "0 all"], None, &NoNames).unwrap();
    let packets = [Ip::udp(1, 2).bytes(), Ip::tcp(1, 2, 0).bytes(), Ip::new(1, &[]).bytes()];
    let mut outputs = Vec::new();
    compiled.program.match_ip_many(packets.iter().map(|packet| &packet[..]), &mut outputs);
    assert_eq!(outputs, [1, NO_MATCH, 0]);
    let compiled = classifier(&["0/45", "-"], None).unwrap();
    outputs.clear();
    compiled.program.match_many([&[0x45][..], &[0x46][..]], &mut outputs);
    assert_eq!(outputs, [0, 1]);
}
