//! Published test vectors, for encryption and decryption, on every crypto driver that is installed.

#[path = "../../../tests/skip.rs"]
mod skip;

use dpdk::crypto::{Aad, Algorithm, CryptoDevice, Span, Transform, Verdict};
use dpdk::{Batch, Eal, EalOptions, Packet};
use std::sync::Arc;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// One packet for a device: the bytes before the text, the text, the tag.
struct Case<'a> {
    name: String,
    algorithm: Algorithm,
    key: &'a [u8],
    auth_key: &'a [u8],
    aad: Aad,
    iv: [u8; 16],
    head: &'a [u8],
    clear: &'a [u8],
    secret: &'a [u8],
    /// Authenticated and not encrypted, after the text.
    tail: &'a [u8],
    tag: &'a [u8],
}

impl Case<'_> {
    fn bytes(&self, text: &[u8], tag: &[u8]) -> Vec<u8> {
        [self.head, text, self.tail, tag].concat()
    }

    /// Several packets at once, with one session and with several in turn, which use different code paths of
    /// a driver.
    fn run(&self, device: &Arc<CryptoDevice>, encrypt: bool, input: &[u8]) -> (Vec<u8>, Verdict) {
        let Case { algorithm, key, auth_key, aad, .. } = *self;
        let transform = Transform { algorithm, encrypt, key, auth_key, aad };
        let (head, text, tail) = (self.head.len() as u16, self.clear.len() as u16, self.tail.len() as u16);
        let span = Span {
            cipher_offset: head,
            cipher_len: text,
            auth_offset: 0,
            auth_len: head + text + tail,
            tag_offset: head + text + tail,
        };
        let mut result = None;
        for (sessions, packets) in [(1, 1), (1, 20), (5, 20)] {
            let sessions: Vec<_> =
                (0..sessions).map(|_| device.session(0, &transform).expect("a session")).collect();
            let mut batch: Batch = (0..packets).map(|_| Packet::from_bytes(input).unwrap()).collect();
            let mut run = device.queue(0).unwrap();
            for i in 0..packets {
                assert!(run.add(&sessions[i % sessions.len()], &span, self.iv), "{}", self.name);
            }
            let mut verdicts = Vec::new();
            assert!(run.process(&mut batch, &mut verdicts), "{}", self.name);
            verdicts.resize(packets, Verdict::Done);
            for (packet, verdict) in batch.iter().zip(verdicts) {
                let this = (packet.data().to_vec(), verdict);
                assert_eq!(*result.get_or_insert_with(|| this.clone()), this, "{}", self.name);
            }
        }
        result.unwrap()
    }

    fn check(&self, device: &Arc<CryptoDevice>) {
        let name = &self.name;
        let (clear, secret) =
            (self.bytes(self.clear, &vec![0; self.tag.len()]), self.bytes(self.secret, self.tag));
        assert_eq!(self.run(device, true, &clear), (secret.clone(), Verdict::Done), "{name}");
        let (text, verdict) = self.run(device, false, &secret);
        let end = text.len() - self.tag.len();
        assert_eq!((&text[..end], verdict), (&clear[..end], Verdict::Done), "{name}");
        // Every byte that is authenticated is checked.
        for at in 0..secret.len() {
            let mut forged = secret.clone();
            forged[at] ^= 0x10;
            assert_eq!(self.run(device, false, &forged).1, Verdict::Forged, "{name}: byte {at} changed");
        }
    }
}

/// GCM with the bytes before the text, the plain text and the cipher text.
fn gcm(device: &Arc<CryptoDevice>, name: String, key: &[u8], nonce: &str, aad: Aad, texts: [&str; 3]) {
    let [head, clear, sealed] = texts.map(hex);
    let (secret, tag) = sealed.split_at(clear.len());
    let mut iv = [0; 16];
    let nonce = hex(nonce);
    iv[..nonce.len()].copy_from_slice(&nonce);
    let case = Case {
        name,
        algorithm: Algorithm::AesGcm,
        key,
        auth_key: &[],
        aad,
        iv,
        head: &head,
        clear: &clear,
        secret,
        tail: &[],
        tag,
    };
    case.check(device);
}

/// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B: test cases 1 to 4, 7 to 10 and 13 to
/// 16, whose vectors have 96 bits.
fn mcgrew_viega(device: &Arc<CryptoDevice>) {
    const TEXT: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
    const AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
    const KEY: &str = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
    // For each length of the key: the tag of nothing, a block of zeros, the text, and the tag of a part of
    // the text with additional bytes.
    const CASES: [(usize, &str, &str, &str, &str, &str); 3] = [
        (
            16,
            "58e2fccefa7e3061367f1d57a4e7455a",
            "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
            "4d5c2af327cd64a62cf35abd2ba6fab4",
            "5bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            24,
            "cd33b28ac773f74ba00ed1f312572435",
            "98e7247c07f0fe411c267e4384b0f6002ff58d80033927ab8ef4d4587514f0fb",
            "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c
             7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710acade256",
            "9924a7c8587336bfb118024db8674a14",
            "2519498e80f1478f37ba55bd6d27618c",
        ),
        (
            32,
            "530f8afbc74536b9a963b4f1c4cb738b",
            "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
            "b094dac5d93471bdec1a502270e3cc6c",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ];
    let (text, key) = (hex(TEXT), hex(KEY));
    let shown = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    for (len, empty, zeros, secret, tag, tag_of_part) in CASES {
        let name = |n: usize| format!("{} GCM {} bits, case {n} of four", device.name(), len * 8);
        let none = Aad::Packet(0);
        gcm(device, name(1), &vec![0; len], "", none, ["", "", empty]);
        gcm(device, name(2), &vec![0; len], "", none, ["", &"00".repeat(16), zeros]);
        let nonce = "cafebabefacedbaddecaf888";
        gcm(device, name(3), &key[..len], nonce, none, ["", TEXT, &format!("{secret}{tag}")]);
        let part = shown(&hex(secret)[..60]) + tag_of_part;
        gcm(device, name(4), &key[..len], nonce, Aad::Packet(20), [AAD, &shown(&text[..60]), &part]);
    }
}

/// Payloads of ESP packets from draft-mcgrew-gcm-test-01: SPI, sequence number (if it has 64 bits, only the
/// low half is in the packet), key, nonce, plain text, cipher text. All packets of the draft go through
/// ESPDecap in a golden test.
fn esp(device: &Arc<CryptoDevice>) {
    for (spi, sequence, key, nonce, clear, sealed) in [
        (
            "4a2cbfe3",
            "00000002",
            "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
            "112233440102030405060708",
            "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee0000000007002400020bf0000020405b40101040201020201",
            "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763748a637985771d347f0545659f14e99d
             ef842d8eb335f4eecfdbf831824b4c4915956c96",
        ),
        (
            "00004321",
            "8765432100000000",
            "4c80cdefbb5d10da906ac73c3613a634",
            "2e443b684956ed7e3b244cfe",
            "45000048699a000080114db7c0a80102c0a801010a9bf15638d301000001000000000000045f736970045f75647003736970
             0963796265726369747902646b000021000101020201",
            "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34cfa2436f14a3f3cf65925bf1f4a13c5d
             15b21e1884f5ff6247aeabb786b93bce61bc17d768fd9732459018148f6cbe722fd04796562dfdb4",
        ),
        (
            "17405e67",
            "156f3126dd0db99b",
            "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
            "73616c74616e640169766563",
            "45080028732c00004006e9f90a0106120a01038f06b88023dd6bafbecb71260250101f646d540001",
            "f2d69ecdbd5a0d5b8d5ef38bad4da58d1f278fde98ef67549d524a3018d9a57ff4d3a31ce673119e451626c2415771e3
             b7eebca614c89b35",
        ),
    ] {
        let key = hex(key);
        let (head, aad, nonce) = match sequence.split_at(sequence.len() - 8) {
            ("", low) => (format!("{spi}{low}"), Aad::ESP, nonce.to_owned()),
            (high, low) => (format!("{spi}{low}"), Aad::Extended, format!("{nonce}{high}")),
        };
        gcm(device, format!("{} ESP {spi}", device.name()), &key, &nonce, aad, [&head, clear, sealed]);
    }
}

/// RFC 3602 section 4, cases 1 to 4: cipher texts. They have no tags, so each device must accept the tag that
/// it computes itself.
fn cbc(device: &Arc<CryptoDevice>, algorithm: Algorithm) {
    let counting = |from: u8, to: u8| (from..=to).collect::<Vec<u8>>();
    for (i, (key, iv, clear, secret)) in [
        (
            "06a9214036b8a15b512e03d534120006",
            "3dafba429d9eb430b422da802c9fac41",
            b"Single block msg".to_vec(),
            "e353779c1079aeb82708942dbe77181a",
        ),
        (
            "c286696d887c9aa0611bbb3e2025a45a",
            "562e17996d093d28ddb3ba695a2e6f58",
            counting(0, 0x1f),
            "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
        ),
        (
            "6c3ea0477630ce21a2ce334aa746c2cd",
            "c782dc4c098c66cbd9cd27d825682c81",
            b"This is a 48-byte message (exactly 3 AES blocks)".to_vec(),
            "d0a02b3836451753d493665d33f0e8862dea54cdb293abc7506939276772f8d5021c19216bad525c8579695d83ba2684",
        ),
        (
            "56e47a38c5598974bc46903dba290349",
            "8ce82eefbea0da3c44699ed7db51b7d9",
            counting(0xa0, 0xdf),
            "c30e32ffedc0774e6aff6af0869f71aa0f3af07a9a31a9c684db207eb0ef8e4e
             35907aa632c3ffdf868bb7b29d3d46ad83ce9f9a102ee99d49a53e87f4c3da55",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut case = Case {
            name: format!("{} RFC 3602 case {}", device.name(), i + 1),
            algorithm,
            key: &hex(key),
            auth_key: &vec![7; algorithm.auth_key_len()],
            aad: Aad::ESP,
            iv: hex(iv).try_into().unwrap(),
            head: &[0, 0, 0x43, 0x21, 0, 0, 0, 1],
            clear: &clear,
            secret: &hex(secret),
            tail: &[],
            tag: &vec![0; algorithm.tag_len()],
        };
        let out = case.run(device, true, &case.bytes(&clear, case.tag)).0;
        let tag = out[8 + clear.len()..].to_vec();
        assert!(tag.iter().any(|b| *b != 0), "{}", case.name);
        case.tag = &tag;
        case.check(device);
    }
}

/// The device's HMAC: RFC 2202 section 3 (the keys of 20 bytes, truncated to 96 bits as in RFC 2404), RFC
/// 4868 section 2.7 (keys of 32 bytes, truncated to 128 bits). The device authenticates the cipher text, so
/// the test first computes a plain text whose cipher text is that of the vector.
fn hmac(device: &Arc<CryptoDevice>, algorithm: Algorithm) {
    let sha1 = [
        (vec![0xaa; 20], vec![0xdd; 50], "125d7342b9ac11cd91a39af4"),
        (vec![0x0c; 20], b"Test With Truncation".to_vec(), "4c1a03424b55e07fe7f27be1"),
    ];
    let sha256 = [
        (b"Jefe".repeat(8), b"what do ya want for nothing?".to_vec(), "167f928588c5cc2eef8e3093caa0e87c"),
        (vec![0xaa; 32], vec![0xdd; 50], "cdcb1220d1ecccea91e53aba3092f962"),
        ((1..=32).collect(), vec![0xcd; 50], "372efcf9b40b35c2115b1346903d2ef4"),
    ];
    let cases = if algorithm == Algorithm::AesCbcHmacSha1 { &sha1[..] } else { &sha256[..] };
    for (auth_key, data, tag) in cases {
        // The device decrypts the first whole blocks; the rest is only authenticated.
        let (secret, tail) = data.split_at(data.len() / 16 * 16);
        let mut case = Case {
            name: format!("{} {} of {} bytes", device.name(), algorithm.name(), data.len()),
            algorithm,
            key: &[0x2b; 16],
            auth_key,
            aad: Aad::ESP,
            iv: [0x5a; 16],
            head: &[],
            clear: secret,
            secret,
            tail,
            tag: &hex(tag),
        };
        let (text, verdict) = case.run(device, false, &case.bytes(secret, case.tag));
        assert_eq!(verdict, Verdict::Done, "{}", case.name);
        let clear = text[..secret.len()].to_vec();
        assert_ne!(clear, secret, "{}", case.name);
        case.clear = &clear;
        case.check(device);
    }
}

#[test]
fn published_vectors() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip::skip("it needs root");
        return;
    }
    Eal::init(&EalOptions::default()).expect("DPDK starts");
    for algorithm in [Algorithm::AesGcm, Algorithm::AesCbcHmacSha1, Algorithm::AesCbcHmacSha256] {
        let mut devices = 0;
        for name in algorithm.drivers() {
            let device = match CryptoDevice::open(name, 1, 8) {
                Ok(device) => device,
                Err(error) => {
                    skip::skip(&format!("{} on {name}: {error}", algorithm.name()));
                    continue;
                }
            };
            devices += 1;
            if algorithm == Algorithm::AesGcm {
                mcgrew_viega(&device);
                esp(&device);
            } else {
                cbc(&device, algorithm);
                hmac(&device, algorithm);
            }
        }
        assert!(devices > 0, "no device has {}", algorithm.name());
    }
}
