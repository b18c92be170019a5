//! FTPPortMapper, with the sequence numbers of the control connection.

use super::THROUGH;
use super::rewriting::{ends, packet};
use crate::ip::engine::header::sample::marked;
use crate::testing::Bench;
use wire::tcp::{self, ACK, PSH, SYN};

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 6587);
const SERVER: ([u8; 4], u16) = ([198, 51, 100, 9], 21);
const NAT: ([u8; 4], u16) = ([192, 0, 2, 100], 1024);
const COMMAND: &[u8] = b"PORT 10,0,0,2,3,9\r\n";

/// A segment with these sequence numbers and options.
fn segment(from: ([u8; 4], u16), to: ([u8; 4], u16), numbers: (u32, u32), data: &[u8]) -> Vec<u8> {
    with_options(from, to, numbers, &[], data)
}
fn with_options(
    from: ([u8; 4], u16),
    to: ([u8; 4], u16),
    (sequence, acknowledged): (u32, u32),
    options: &[u8],
    data: &[u8],
) -> Vec<u8> {
    let mut bytes = packet(from, to, Some(ACK | PSH), &[options, data].concat());
    bytes[24..28].copy_from_slice(&sequence.to_be_bytes());
    bytes[28..32].copy_from_slice(&acknowledged.to_be_bytes());
    bytes[32] = ((5 + options.len() / 4) as u8) << 4;
    let sum = wire::checksum::pseudo_v4(from.0.into(), to.0.into(), 6, (bytes.len() - 20) as u16);
    tcp::fill(sum, &mut bytes[20..]);
    bytes
}

/// Input 0 is of clients, with FTPPortMapper; 1 is of servers; 2 is of clients, without.
fn bench() -> Bench {
    let config = "nat :: TCPRewriter(pattern 192.0.2.100 1024-65535# - - 0 1, drop); \
                  e [0] -> FTPPortMapper(nat, nat, 0) -> nat; e [1] -> [1] nat; e [2] -> nat; \
                  nat [0] -> BenchOut(0); nat [1] -> BenchOut(1);";
    Bench::with_config(&format!("{THROUGH} {config}"), 3, 0)
}

/// What leaves: its ends, its numbers, what is behind the fixed TCP header.
type Left = ((([u8; 4], u16), ([u8; 4], u16)), (u32, u32), Vec<u8>);
fn left(bench: &mut Bench, input: usize, bytes: &[u8]) -> Left {
    let (_, packet) = bench.send(input, marked(bytes)).remove(0);
    let bytes = packet.data();
    assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (ends(&packet), (number(24), number(28)), bytes[40..].to_vec())
}

fn connected() -> Bench {
    let mut bench = bench();
    let syn = packet(CLIENT, SERVER, Some(SYN), b"");
    assert_eq!(left(&mut bench, 0, &syn).0, (NAT, SERVER));
    bench
}

#[test]
fn a_command_names_the_address_outside_and_the_numbers_go_on() {
    let mut bench = connected();
    let (to, numbers, data) = left(&mut bench, 0, &segment(CLIENT, SERVER, (1000, 50), COMMAND));
    // 1025 is 4 * 256 + 1; three bytes more.
    assert_eq!((to, numbers, &data[..]), ((NAT, SERVER), (1000, 50), &b"PORT 192,0,2,100,4,1\r\n"[..]));
    let more = (data.len() - COMMAND.len()) as u32;
    let next = 1000 + COMMAND.len() as u32;
    // The server acknowledges more than the client has sent, and the client goes on behind what it has sent.
    let reply = segment(SERVER, NAT, (50, next + more), b"200 ok\r\n");
    assert_eq!(left(&mut bench, 1, &reply).1, (50, next));
    let later = segment(CLIENT, SERVER, (next, 58), b"LIST\r\n");
    assert_eq!(left(&mut bench, 0, &later).1, (next + more, 58));
    // What is sent again is as before.
    let again = left(&mut bench, 0, &segment(CLIENT, SERVER, (1000, 50), COMMAND));
    assert_eq!((again.1, again.2), ((1000, 50), data.clone()));
    assert_eq!(left(&mut bench, 0, &later).1, (next + more, 58));
    // The server connects from the port below to the port in the command, and reaches the client at its own.
    let data_connection = packet((SERVER.0, 20), (NAT.0, 1025), Some(SYN), b"");
    assert_eq!(left(&mut bench, 1, &data_connection).0, ((SERVER.0, 20), (CLIENT.0, 777)));
    let table = bench.read("nat.table");
    assert!(
        table.contains(
            "(10.0.0.2, 6587, 198.51.100.9, 21) => (192.0.2.100, 1024, 198.51.100.9, 21) seq +3 [*0 1] i0 exp"
        ),
        "{table}"
    );
    assert!(
        table
            .contains("(10.0.0.2, 777, 198.51.100.9, 20) => (192.0.2.100, 1025, 198.51.100.9, 20) [*0 1] i0"),
        "{table}"
    );
    // A second command adds to that.
    let second = segment(CLIENT, SERVER, (next + 6, 58), b"port   10,0,0,2,255,255\n");
    let (_, numbers, data) = left(&mut bench, 0, &second);
    assert_eq!((numbers, &data[..]), ((next + 6 + more, 58), &b"port   192,0,2,100,4,2\n"[..]));
    let reply = segment(SERVER, NAT, (58, next + 6 + more + data.len() as u32), b"");
    assert_eq!(left(&mut bench, 1, &reply).1, (58, next + 6 + 24));
    // The numbers of a flow that has ended are forgotten.
    bench.write("nat.clear", "");
    assert_eq!(left(&mut bench, 2, &later).1, (next, 58));
}

#[test]
fn a_command_that_is_sent_again_with_more_or_less_behind_it_counts_once() {
    let mut bench = connected();
    let with_more = [COMMAND, b"LIST\r\n"].concat();
    for data in [COMMAND, &with_more, COMMAND] {
        let (_, numbers, data) = left(&mut bench, 0, &segment(CLIENT, SERVER, (1000, 50), data));
        assert_eq!(numbers, (1000, 50));
        assert!(data.starts_with(b"PORT 192,0,2,100,4,1\r\n"), "{data:?}");
    }
    let next = 1000 + with_more.len() as u32;
    assert_eq!(left(&mut bench, 0, &segment(CLIENT, SERVER, (next, 58), b"x")).1, (next + 3, 58));
    assert_eq!(left(&mut bench, 1, &segment(SERVER, NAT, (58, next + 3), b"")).1, (58, next));
}

#[test]
fn a_new_connection_between_the_same_ports_begins_with_its_own_numbers() {
    let mut bench = connected();
    let _ = left(&mut bench, 0, &segment(CLIENT, SERVER, (1000, 50), COMMAND));
    assert_eq!(left(&mut bench, 0, &packet(CLIENT, SERVER, Some(SYN), b"")).0, (NAT, SERVER));
    // Its numbers lie before those of the first one.
    let (_, numbers, data) = left(&mut bench, 0, &segment(CLIENT, SERVER, (600, 70), COMMAND));
    assert_eq!((numbers, &data[..]), ((600, 70), &b"PORT 192,0,2,100,4,1\r\n"[..]));
    let next = 600 + COMMAND.len() as u32;
    assert_eq!(left(&mut bench, 0, &segment(CLIENT, SERVER, (next, 70), b"x")).1, (next + 3, 70));
}

#[test]
fn selective_acknowledgments_are_adjusted() {
    let mut bench = connected();
    left(&mut bench, 0, &segment(CLIENT, SERVER, (1000, 50), COMMAND));
    let next = 1000 + COMMAND.len() as u32;
    let blocks = |edges: [u32; 4]| {
        let mut options = vec![1, 1, 5, 18];
        edges.iter().for_each(|edge| options.extend(edge.to_be_bytes()));
        options
    };
    let theirs = blocks([next + 3 + 100, next + 3 + 200, 900, next + 3]);
    let sack = with_options(SERVER, NAT, (50, 1000), &theirs, b"");
    let (_, numbers, options) = left(&mut bench, 1, &sack);
    assert_eq!((numbers, options), ((50, 1000), blocks([next + 100, next + 200, 900, next])));
    // At an odd place the bytes of the sum are the other way round.
    let odd = |options: Vec<u8>| [&[1][..], &options[2..], &[0]].concat();
    let sack = with_options(SERVER, NAT, (50, 1000), &odd(theirs), b"");
    assert_eq!(left(&mut bench, 1, &sack).2, odd(blocks([next + 100, next + 200, 900, next])));
}

#[test]
fn other_packets_pass_as_they_are() {
    let mut bench = connected();
    let mut wrong_sum = segment(CLIENT, SERVER, (1000, 50), COMMAND);
    wrong_sum[36] ^= 1;
    let out = bench.send(0, marked(&wrong_sum)).remove(0).1;
    assert_eq!(&out.data()[40..], COMMAND);
    for data in [
        &b"PORT 10,0,0,2,3,9"[..],
        b"PORT 10,0,0,2,3,256\r\n",
        b"PORT 10,0,0,2,3\r\n",
        b"PORT 10,0,0,2,3,9,1\r\n",
        b"PORT 10,0,0,2,3,9 \r\n",
        b"PORT10,0,0,2,3,9\r\n",
        b"PORT",
        b"PORT ",
        b"PASV\r\n",
        b" PORT 10,0,0,2,3,9\r\n",
        b"",
    ] {
        assert_eq!(left(&mut bench, 0, &segment(CLIENT, SERVER, (1000, 50), data)).2, data);
    }
    // Of a connection that the rewriter does not know.
    let unknown = segment((CLIENT.0, 9), SERVER, (1000, 50), COMMAND);
    assert_eq!(left(&mut bench, 0, &unknown).2, COMMAND);
    assert_eq!(bench.read("nat.size"), "2");
}

#[test]
fn what_is_behind_the_packet_is_cut_off() {
    let mut bench = connected();
    let mut padded = segment(CLIENT, SERVER, (1000, 50), COMMAND);
    padded.extend_from_slice(&[0; 9]);
    assert_eq!(left(&mut bench, 0, &padded).2, b"PORT 192,0,2,100,4,1\r\n");
}

#[test]
fn what_is_wrong_is_said() {
    let rest = "t :: TCPRewriter(keep 0 0); u :: UDPRewriter(keep 0 0); d :: Discard; Idle -> t -> u -> d;";
    for (arguments, wrong) in [
        ("zonk, t, 0", "no element named 'zonk'"),
        ("u, t, 0", "CONTROL_REWRITER type mismatch, expected TCPRewriter"),
        ("t, d, 0", "DATA_REWRITER type mismatch, expected IPRewriterBase"),
        ("t, u, 1", "DATA_REWRITER_INPUT out of range"),
    ] {
        let error = Bench::error(&format!("FTPPortMapper({arguments}); {rest}"));
        assert!(error.contains(wrong), "{arguments}: {error}");
    }
}
