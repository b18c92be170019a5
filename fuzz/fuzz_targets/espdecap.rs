//! Packets into ESPDecap: whatever arrives, nothing panics, only what was sealed with a key of the database
//! comes out, it is what was sealed, and no number is taken twice.
//!
//! Input: packets one after the other, each a byte of flags, a byte of length and so many bytes. The flags
//! choose the association, whether the bytes are a whole packet, what follows the outer header, or the text
//! that is sealed here with the association's keys, trailer included, and whether one byte of the packet is
//! damaged afterwards.
//!
//! It needs root, as DPDK's crypto devices do.
#![no_main]

use dpdk::crypto::{Aad, Algorithm, CryptoDevice, CryptoSession, Span, Transform, Verdict};
use dpdk::{Batch, Eal, EalOptions};
use libfuzzer_sys::fuzz_target;
use runtime::testing::Bench;
use runtime::{Options, Packet, Registry};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use wire::{Ipv4, Ipv6, ipv4};

static REGISTRY: LazyLock<Registry> = LazyLock::new(elements::registry);

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const AUTH: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const SALT: &str = "10111213";
const SRC: [u8; 4] = [192, 0, 2, 1];
const DST: [u8; 4] = [192, 0, 2, 2];

/// SPI, algorithm, whether numbers are extended, what else its line says.
const ASSOCIATIONS: [(u32, Algorithm, bool, &str); 5] = [
    (0x1001, Algorithm::AesGcm, false, "window 64"),
    (0x1002, Algorithm::AesGcm, true, "window 128"),
    (0x1003, Algorithm::AesCbcHmacSha1, false, "window 64 ecn none"),
    (0x1004, Algorithm::AesCbcHmacSha256, false, "packets 9"),
    (0x1005, Algorithm::AesGcm, false, "first 100 bytes 4000"),
];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

fn auth_key(algorithm: Algorithm) -> &'static str {
    &AUTH[..2 * algorithm.auth_key_len()]
}

/// The lines for the database.
fn lines() -> String {
    let line = |(spi, algorithm, esn, more): &(u32, Algorithm, bool, &str)| {
        let keys = match algorithm {
            Algorithm::AesGcm => format!("{KEY}{SALT}"),
            _ => format!("{KEY} {}", auth_key(*algorithm)),
        };
        let esn = if *esn { "esn" } else { "" };
        format!("in {spi:#x} 192.0.2.1 192.0.2.2 {} {keys} {esn} {more}\n", algorithm.name())
    };
    ASSOCIATIONS.iter().map(line).collect()
}

/// The other end of a tunnel.
struct Sender {
    device: Arc<CryptoDevice>,
    session: CryptoSession,
    algorithm: Algorithm,
    spi: u32,
}

impl Sender {
    fn new(&(spi, algorithm, esn, _): &(u32, Algorithm, bool, &str)) -> Self {
        let device = CryptoDevice::open("crypto_openssl", 1, ASSOCIATIONS.len()).expect("a crypto device");
        let (key, auth_key) = (bytes(KEY), bytes(auth_key(algorithm)));
        let aad = if esn { Aad::Extended } else { Aad::ESP };
        let transform = Transform { algorithm, encrypt: true, key: &key, auth_key: &auth_key, aad };
        let session = device.session(0, &transform).expect("a session");
        Self { device, session, algorithm, spi }
    }

    /// ESP around a text, which is filled up to whole blocks.
    fn seal(&self, seq: u32, text: &mut Vec<u8>) -> Vec<u8> {
        let gcm = self.algorithm == Algorithm::AesGcm;
        let (block, iv_len) = if gcm { (4, 8) } else { (16, 16) };
        text.resize(text.len().max(1).next_multiple_of(block), 1);
        let mut esp = self.spi.to_be_bytes().to_vec();
        esp.extend(seq.to_be_bytes());
        esp.resize(8 + iv_len, 7);
        esp.extend(&*text);
        let tag_offset = esp.len() as u16;
        esp.resize(esp.len() + self.algorithm.tag_len(), 0);
        let mut iv = [7; 16];
        if gcm {
            iv[..4].copy_from_slice(&bytes(SALT));
            // The half of an extended number that is not sent.
            iv[12..].fill(0);
        }
        let span = Span {
            cipher_offset: 8 + iv_len as u16,
            cipher_len: text.len() as u16,
            auth_offset: 0,
            auth_len: tag_offset,
            tag_offset,
        };
        let mut batch: Batch = Packet::from_bytes(&esp).into_iter().collect();
        let mut run = self.device.queue(0).expect("a queue");
        assert!(run.add(&self.session, &span, iv), "the job is sound");
        let mut verdicts = Vec::new();
        assert!(run.process(&mut batch, &mut verdicts), "the device answers");
        assert!(verdicts.iter().all(|v| *v == Verdict::Done));
        batch[0].data().to_vec()
    }
}

struct Lab {
    bench: Bench,
    senders: Vec<Sender>,
}

impl Lab {
    fn new() -> Self {
        Eal::init(&EalOptions::default()).expect("DPDK starts; it needs root");
        let options = Options { simulated_time: true, ..Options::default() };
        let config = "sad :: IPsecSAD(CAPACITY 8); e :: ESPDecap(sad);";
        let bench = Bench::with(&REGISTRY, config, 1, 2, options);
        Self { bench, senders: ASSOCIATIONS.iter().map(Sender::new).collect() }
    }
}

thread_local! {
    static LAB: RefCell<Option<Lab>> = const { RefCell::new(None) };
}

/// What was sealed: by which association, with which number.
struct Sealed {
    which: usize,
    seq: u32,
    text: Vec<u8>,
}

/// A packet from the fuzzer's bytes, and what was sealed in it if it was and is whole.
fn packet(lab: &Lab, flags: u8, data: &[u8]) -> (Vec<u8>, Option<Sealed>) {
    if flags & 8 != 0 {
        return (data.to_vec(), None);
    }
    let Some((&[number, at], data)) = data.split_first_chunk::<2>() else { return (data.to_vec(), None) };
    let which = usize::from(flags & 7) % ASSOCIATIONS.len();
    // Near the beginning, or near the end.
    let seq = if at == 255 { u32::MAX - u32::from(number) } else { u32::from(number) };
    let (body, mut sealed) = if flags & 16 != 0 {
        let mut text = data.to_vec();
        if flags & 32 != 0 {
            // Right padding and a protocol, behind a header that is nearly right.
            if let Some(mut ip) = Ipv4::new_mut(&mut text) {
                ip.set_version_ihl(0x45);
                ip.set_total_len(data.len() as u16);
            }
            let block = if lab.senders[which].algorithm == Algorithm::AesGcm { 4 } else { 16 };
            let padding = (text.len() + 2).next_multiple_of(block) - text.len() - 2;
            text.extend((1..=padding).map(|i| i as u8));
            text.extend([padding as u8, if at & 1 == 0 { 4 } else { 41 }]);
        }
        let esp = lab.senders[which].seal(seq, &mut text);
        (esp, Some(Sealed { which, seq, text }))
    } else {
        let mut esp = ASSOCIATIONS[which].0.to_be_bytes().to_vec();
        esp.extend(seq.to_be_bytes());
        esp.extend(data);
        (esp, None)
    };
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet.extend(body);
    let len = packet.len() as u16;
    if let Some(mut ip) = Ipv4::new_mut(&mut packet) {
        ip.set_version_ihl(0x45);
        ip.set_total_len(len);
        ip.set_ttl(64);
        ip.set_protocol(50);
        ip.update_ecn(at >> 1 & 3);
        ip.set_src(SRC.into());
        ip.set_dst(DST.into());
    }
    if flags & 64 != 0 {
        // Somewhere in what is sealed: the header around it is nobody's word.
        let sealed_bytes = &mut packet[ipv4::HEADER_LEN..];
        let place = usize::from(at) % sealed_bytes.len();
        sealed_bytes[place] ^= number | 1;
        sealed = None;
    }
    (packet, sealed)
}

/// What comes out is what was sealed, but for congestion marks and the checksum over them.
fn check(out: &[u8], sealed: &Sealed) {
    let mut text = sealed.text.get(..out.len()).expect("no longer than the text").to_vec();
    let mut out = out.to_vec();
    for packet in [&mut text, &mut out] {
        if packet[0] >> 4 == 4 {
            let mut ip = Ipv4::new_mut(packet).expect("an IPv4 header");
            ip.update_ecn(0);
            ip.set_checksum(0);
        } else {
            let mut ip = Ipv6::new_mut(packet).expect("an IPv6 header");
            ip.set_version_class_flow(ip.version_class_flow() & !(3 << 20));
        }
    }
    assert_eq!(out, text);
}

fuzz_target!(|data: &[u8]| {
    LAB.with_borrow_mut(|lab| {
        let lab = lab.get_or_insert_with(Lab::new);
        // The windows begin anew.
        lab.bench.write("sad.flush", "");
        lab.bench.write("sad.add", &lines());
        let mut taken = HashSet::new();
        let mut rest = data;
        while let Some(([flags, length], after)) = rest.split_first_chunk::<2>() {
            let (bytes, after) = after.split_at(after.len().min(usize::from(*length)));
            rest = after;
            let (bytes, sealed) = packet(lab, *flags, bytes);
            let Some(packet) = Packet::from_bytes(&bytes) else { continue };
            let came = lab.bench.send(0, packet);
            assert!(came.len() <= 1);
            for (_, packet) in came.iter().filter(|(port, _)| *port == 0) {
                let sealed = sealed.as_ref().expect("nobody but who has the key gets in");
                check(packet.data(), sealed);
                assert!(taken.insert((sealed.which, sealed.seq)), "{} twice", sealed.seq);
            }
        }
    });
});
