//! Crypto devices of Debian's DPDK, with the memory that this machine has.

#[path = "../../../tests/skip.rs"]
mod skip;

use dpdk::crypto::{Aad, Algorithm, CryptoDevice, Span, Transform, Verdict, devices};
use dpdk::{Batch, Eal, EalOptions, Packet};
use locks::IgnorePoison;
use std::sync::{Mutex, MutexGuard};

const ALL: [Algorithm; 3] = [Algorithm::AesGcm, Algorithm::AesCbcHmacSha1, Algorithm::AesCbcHmacSha256];
const KEY: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

/// One test at a time, because one of them looks for devices that nobody has closed.
static ALONE: Mutex<()> = Mutex::new(());

/// Starts the environment; returns `None` and prints why if the test is skipped.
fn start() -> Option<MutexGuard<'static, ()>> {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip::skip("it needs root");
        return None;
    }
    let alone = ALONE.lock().ignore_poison();
    Eal::init(&EalOptions::default()).expect("DPDK starts");
    Some(alone)
}

fn transform(algorithm: Algorithm, encrypt: bool) -> Transform<'static> {
    Transform {
        algorithm,
        encrypt,
        key: &KEY[..16],
        auth_key: &KEY[..algorithm.auth_key_len()],
        aad: Aad::ESP,
    }
}

/// 8 bytes of header, 16 of IV, `len` of payload, room for the tag.
fn packet(algorithm: Algorithm, len: usize) -> (Packet, Span) {
    let bytes: Vec<u8> = (0..24 + len + algorithm.tag_len()).map(|i| i as u8).collect();
    let n = len as u16;
    let span =
        Span { cipher_offset: 24, cipher_len: n, auth_offset: 0, auth_len: 24 + n, tag_offset: 24 + n };
    (Packet::from_bytes(&bytes).unwrap(), span)
}

/// The device's result for `n` packets that use the sessions in turn.
fn run(
    device: &std::sync::Arc<CryptoDevice>,
    t: &Transform<'_>,
    input: &[Vec<u8>],
    sessions: usize,
) -> (Vec<Vec<u8>>, Vec<Verdict>) {
    let sessions: Vec<_> = (0..sessions).map(|_| device.session(0, t).unwrap()).collect();
    let mut batch: Batch = input.iter().map(|bytes| Packet::from_bytes(bytes).unwrap()).collect();
    let mut run = device.queue(0).unwrap();
    for (i, bytes) in input.iter().enumerate() {
        let span = packet(t.algorithm, bytes.len() - 24 - t.algorithm.tag_len()).1;
        assert!(run.add(&sessions[i % sessions.len()], &span, [7; 16]));
    }
    let mut verdicts = Vec::new();
    assert!(run.process(&mut batch, &mut verdicts));
    if verdicts.is_empty() {
        verdicts = vec![Verdict::Done; input.len()];
    }
    (batch.iter().map(|p| p.data().to_vec()).collect(), verdicts)
}

#[test]
fn devices_agree_and_find_forgeries() {
    let Some(_alone) = start() else { return };
    for algorithm in ALL {
        let clear: Vec<Vec<u8>> =
            (0..256).map(|i| packet(algorithm, 16 * (1 + i % 90)).0.data().to_vec()).collect();
        let mut first: Option<Vec<Vec<u8>>> = None;
        for name in algorithm.drivers() {
            let device = CryptoDevice::open(name, 2, 256).unwrap();
            assert!(devices().iter().any(|d| d.driver == *name && d.name.ends_with("_valiant")));
            // One session for all packets, and many in turn, which uses another code path of a driver.
            for sessions in [1, 100] {
                let (secret, verdicts) = run(&device, &transform(algorithm, true), &clear, sessions);
                assert!(verdicts.iter().all(|v| *v == Verdict::Done), "{name} {algorithm:?}");
                assert_eq!(*first.get_or_insert_with(|| secret.clone()), secret, "{name} {algorithm:?}");
                assert!(secret.iter().zip(&clear).all(|(s, c)| s[..24] == c[..24] && s[24..] != c[24..]));
                let mut changed = secret.clone();
                changed[3][30] ^= 1;
                changed[4][0] ^= 1;
                *changed[255].last_mut().unwrap() ^= 0x80;
                let (again, verdicts) = run(&device, &transform(algorithm, false), &changed, sessions);
                for (i, verdict) in verdicts.iter().enumerate() {
                    if [3, 4, 255].contains(&i) {
                        assert_eq!(*verdict, Verdict::Forged, "{name} {algorithm:?} {i}");
                    } else {
                        assert_eq!(*verdict, Verdict::Done, "{name} {algorithm:?} {i}");
                        let end = clear[i].len() - algorithm.tag_len();
                        assert_eq!(again[i][..end], clear[i][..end]);
                    }
                }
            }
        }
    }
    assert!(devices().iter().all(|d| !d.name.ends_with("_valiant")), "dropped devices are closed");

    // A user that needs more queues gets another device beside the one that is open.
    let device = CryptoDevice::open("crypto_aesni_mb", 1, 1).unwrap();
    let larger = CryptoDevice::open("crypto_aesni_mb", 2, 1).unwrap();
    assert_ne!(device.info().name, larger.info().name);
    drop(larger);

    // A span that does not fit into its packet is rejected before it reaches the device.
    let cbc = device.session(0, &transform(Algorithm::AesCbcHmacSha1, true)).unwrap();
    let full = device.session(0, &transform(Algorithm::AesCbcHmacSha1, true)).unwrap_err().to_string();
    assert!(full.contains("1 sessions at most"), "{full}");
    for (change, value) in [("len", 65), ("beyond", 80), ("before", 64)] {
        let (_, mut span) = packet(Algorithm::AesCbcHmacSha1, 64);
        match change {
            "before" => span.auth_offset = 32,
            _ => span.cipher_len = value,
        }
        assert!(!device.queue(0).unwrap().add(&cbc, &span, [0; 16]), "{change}");
    }
    let (mut short, span) = packet(Algorithm::AesCbcHmacSha1, 64);
    short.take(1);
    let mut run = device.queue(0).unwrap();
    assert!(run.add(&cbc, &span, [0; 16]));
    let mut batch = Batch::from(vec![short]);
    assert!(!run.process(&mut batch, &mut Vec::new()));
    assert!(batch.is_empty());
    drop(cbc);
    drop(device);

    let gcm = CryptoDevice::open("crypto_aesni_gcm", 1, 1).unwrap();
    let error = gcm.session(0, &transform(Algorithm::AesCbcHmacSha1, true)).unwrap_err().to_string();
    assert!(error.contains("crypto_aesni_mb, crypto_openssl"), "{error}");
    let error = CryptoDevice::open("crypto_nonsense", 1, 1).unwrap_err().to_string();
    assert!(error.contains("apt-get install"), "{error}");
}

/// What one device makes of packets with sessions that differ in algorithm and in the length of the key, and
/// which of them it finds forged.
fn mixed(name: &str, encrypt: bool, input: &[Vec<u8>], kinds: &[Transform<'_>]) -> (Vec<Vec<u8>>, Vec<bool>) {
    let device = CryptoDevice::open(name, 1, 16).unwrap();
    let sessions: Vec<_> =
        kinds.iter().map(|t| device.session(0, &Transform { encrypt, ..*t }).unwrap()).collect();
    let mut batch: Batch = input.iter().map(|bytes| Packet::from_bytes(bytes).unwrap()).collect();
    let mut run = device.queue(0).unwrap();
    for (i, bytes) in input.iter().enumerate() {
        // Runs of one, two and more packets of a kind.
        let kind = (i / (1 + i % 3)) % kinds.len();
        let span = packet(kinds[kind].algorithm, bytes.len() - 24 - 16).1;
        assert!(run.add(&sessions[kind], &span, [i as u8; 16]));
    }
    let mut verdicts = Vec::new();
    assert!(run.process(&mut batch, &mut verdicts));
    verdicts.resize(input.len(), Verdict::Done);
    let forged = verdicts.iter().map(|v| *v != Verdict::Done).collect();
    (batch.iter().map(|p| p.data().to_vec()).collect(), forged)
}

#[test]
fn sessions_of_all_kinds_share_a_batch() {
    let Some(_alone) = start() else { return };
    let with =
        |algorithm: Algorithm, key: usize| Transform { key: &KEY[..key], ..transform(algorithm, true) };
    let cbc: Vec<_> = [Algorithm::AesCbcHmacSha1, Algorithm::AesCbcHmacSha256]
        .into_iter()
        .flat_map(|algorithm| [16, 24, 32].map(|key| with(algorithm, key)))
        .collect();
    let gcm: Vec<_> = [16, 24, 32].map(|key| with(Algorithm::AesGcm, key)).into();
    for kinds in [&cbc, &gcm] {
        let clear: Vec<Vec<u8>> =
            (0..256).map(|i| (0..24 + 16 * (1 + i % 90) + 16).map(|b| (b ^ i) as u8).collect()).collect();
        let (secret, forged) = mixed("crypto_openssl", true, &clear, kinds);
        assert!(!forged.contains(&true));
        let mut changed = secret.clone();
        for i in [0, 77, 127, 128, 200] {
            changed[i][30] ^= 4;
        }
        let opened = mixed("crypto_openssl", false, &changed, kinds);
        for name in ["crypto_aesni_mb", "crypto_aesni_gcm"]
            .into_iter()
            .filter(|n| kinds[0].algorithm.drivers().contains(n))
        {
            assert_eq!(mixed(name, true, &clear, kinds).0, secret, "{name}");
            let (text, forged) = mixed(name, false, &changed, kinds);
            assert_eq!(forged, opened.1, "{name}");
            assert_eq!(forged.iter().filter(|forged| **forged).count(), 5, "{name}");
            for (i, (text, clear)) in text.iter().zip(&clear).enumerate() {
                let end = clear.len() - 16;
                assert!(forged[i] || text[..end] == clear[..end], "{name} {i}");
            }
        }
    }
}

#[test]
fn a_session_in_the_memory_of_another_has_its_own_keys() {
    let Some(_alone) = start() else { return };
    let device = CryptoDevice::open("crypto_aesni_mb", 1, 1).unwrap();
    let other = CryptoDevice::open("crypto_openssl", 1, 1).unwrap();
    for algorithm in [Algorithm::AesCbcHmacSha1, Algorithm::AesCbcHmacSha256, Algorithm::AesCbcHmacSha1] {
        for key in [16, 32] {
            let t = Transform { key: &KEY[..key], ..transform(algorithm, true) };
            let clear = vec![packet(algorithm, 64).0.data().to_vec(); 3];
            assert_eq!(run(&device, &t, &clear, 1), run(&other, &t, &clear, 1), "{algorithm:?} {key}");
        }
    }
}

#[test]
fn room_for_many_sessions_takes_memory_only_for_those_that_are_made() {
    let Some(_alone) = start() else { return };
    // More than there is memory for.
    let device = CryptoDevice::open("crypto_aesni_gcm", 1, 1 << 20).unwrap();
    let t = transform(Algorithm::AesGcm, true);
    let sessions: Vec<_> = (0..100).map(|_| device.session(0, &t).unwrap()).collect();
    assert_eq!(sessions.len(), 100);
}
