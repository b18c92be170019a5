//! # IPsecSAD
//! Holds IPsec security associations: tunnels, algorithms, keys, selectors.
//!
//! ## Synopsis
//! `IPsecSAD([FILE, DEVICE, CAPACITY])`
//!
//! ## Arguments
//! - `FILE` (*filename*, keyword): a file with associations, one on each line; empty lines and everything
//!   after a `#` are ignored. Keys must not be in a configuration, because everybody who can read a router's
//!   handlers can read the configuration. If users other than the owner can read the file, a warning is
//!   printed (not under the name `click`). The file's contents are overwritten in memory as soon as the
//!   crypto devices have the keys.
//! - `DEVICE` (*string*, keyword): the crypto device: `crypto_aesni_gcm`, `crypto_aesni_mb`,
//!   `crypto_openssl`, with arguments after a comma, or the name of a device that DPDK has found. By default
//!   each association gets the fastest of these three that supports its algorithm.
//! - `CAPACITY` (*int*, keyword, default 1024): how many associations there may be.
//!
//! ## Associations
//! A line is `in|out SPI SRC DST ALGORITHM KEY [AUTH_KEY] [NAME VALUE]...`.
//!
//! - `out` encrypts, `in` decrypts. `SRC` and `DST` are the ends of the tunnel, both of IPv4 or both of
//!   IPv6, or their names (see AddressInfo); for `in`, 0.0.0.0 or `::` means any address.
//! - `SPI`: at least 256.
//! - `aes-gcm` (RFC 4106): a key of 16, 24 or 32 bytes followed by 4 bytes of salt, in hexadecimal digits. No
//!   nonce is repeated while the router runs, also over hot swaps, and a router that is started again begins
//!   with a different nonce. Nevertheless, keys that a key exchange renews are safer than keys in files.
//! - `aes-cbc-hmac-sha1` (RFC 3602, RFC 2404) and `aes-cbc-hmac-sha256` (RFC 4868): a key of 16, 24 or 32
//!   bytes and an authentication key of 20 or 32.
//! - `window N` (in, default 1024, at most 65536): the size of the anti-replay window, in packets. 0 accepts
//!   all packets, also replayed ones.
//! - `esn`: extended sequence numbers of 64 bits (RFC 4303 section 2.2.1), of which packets carry the lower
//!   half. Both ends must use the same setting. With `aes-cbc-...` it needs a crypto device in software.
//! - `packets N`, `bytes N`: the association ends after this many packets, or once this many bytes of inner
//!   packets have passed.
//! - `paint N`: for `out`, the paint of the packets that use this association (see ESPEncap); for `in`, the
//!   paint that its packets get once they are authenticated (see ESPDecap).
//! - `from NETS`, `to NETS`, `proto PROTOCOLS`, `sport PORTS`, `dport PORTS` (in, default anything): the
//!   selectors, which specify the packets that are accepted from the tunnel (RFC 4301 section 4.4.1.1): their
//!   source and destination networks, `ADDRESS/LENGTH` of IPv4 or IPv6, or names of AddressInfo (a name alone
//!   is the address, `NAME:net` its network; of a name with both versions of IP, that of IPv4); protocols, as
//!   numbers or `icmp`, `tcp`, `udp`; and ports, `PORT` or `FIRST-LAST`. Several values are separated by
//!   commas without spaces. A packet must match all selectors that are given. Other packets are dropped as
//!   `outside the selectors`, and so are packets that do not have the field, such as a later fragment if
//!   ports are given. If there is more than one peer, every inbound association needs `from`: otherwise one
//!   peer can use source addresses of another.
//! - `first N` (default 1): the first sequence number; `in` refuses lower ones. Without `esn`, a sequence
//!   number has 32 bits; after the last one, packets are refused. Numbers never start again (RFC 4303 section
//!   3.3.3).
//! - `ttl N` (out, default 64), `dscp copy|N` (out, default copy), `df copy|set|clear` (out, default copy;
//!   not with IPv6): these fields of the outer header. With IPv6, `ttl` is the hop limit.
//! - `ecn copy|none` (default copy): whether congestion marks are copied between inner and outer header (RFC
//!   6040).
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `table` (read): every association on a line, with its counters and without its keys.
//! - `count` (read): the number of associations.
//! - `devices` (read): the crypto devices in use.
//! - `add` (write): adds associations, one on each line. If one line is wrong, none is added. It is meant for
//!   control sockets: an association that a Script adds is in the configuration. Error messages name the SPI
//!   and never show the line. The buffers that the line passes through are not overwritten; only the contents
//!   of `FILE` are.
//! - `remove` (write): removes `in SPI` or `out SPI`. The association's keys are overwritten as soon as no
//!   packet that uses them is being processed.
//! - `flush` (write): removes all.
//!
//! ## Threads
//! All workers share the associations and read the list without a lock. Each has its own crypto queue and its
//! own copy of every key schedule. Outbound sequence numbers are taken for a whole batch with one atomic
//! addition, so all workers can use an association at once. Packets are then reordered between workers. The
//! other end therefore needs a window of at least one batch (`--burst`) for each worker, and of thousands of
//! packets if workers share processors; otherwise it drops late packets as `behind the window`. This is not
//! necessary if each worker has its own association, or if one worker handles all flows of a tunnel. An
//! inbound window is locked for each run of consecutive packets of one association; there is no contention as
//! long as RSS gives a tunnel to one worker. A hot swap keeps sequence numbers, windows and counters of
//! associations with the same SPI and keys, also when their other words, `DEVICE` or `CAPACITY` change. It
//! also keeps the associations that handlers have added, on their device. With a larger `window`, numbers
//! that the smaller one does not cover count as received; a lower `first` has no effect; `packets` and
//! `bytes` continue to count.
//!
//! ## Example
//! ```click
//! sad :: IPsecSAD(CAPACITY 16);
//! FromDevice(net_null0) -> Strip(14) -> CheckIPHeader
//!   -> ESPEncap(sad, 0x1001)
//!   -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(net_null1);
//! ```
//!
//! ## See also
//! ESPEncap, ESPDecap

use super::engine::database::Database;
use super::engine::spec::{Direction, Spec};
use crate::infile::MAX_FILE;
use crate::prelude::*;
use crate::secret::Secret;
use lang::args::{Filename, NameDb};
use runtime::Hub;
use std::sync::Arc;

/// The `IPsecSAD` element.
pub struct IPsecSAD {
    database: Arc<Database>,
}

/// The associations of a file, and whether users other than its owner can read it.
fn read(hub: &Hub, path: &str, names: &NameDb) -> Result<(Vec<Spec>, bool), Vec<String>> {
    let (bytes, open) = Secret::read(hub, path, MAX_FILE).map_err(|e| vec![format!("{path}: {e}")])?;
    let text = std::str::from_utf8(&bytes).map_err(|_| vec![format!("{path}: no text in UTF-8")])?;
    let (mut specs, mut errors) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        match Spec::parse(line, names) {
            Ok(spec) => specs.push(spec),
            Err(error) => errors.push(format!("{path}:{}: {error}", i + 1)),
        }
    }
    if errors.is_empty() { Ok((specs, open)) } else { Err(errors) }
}

/// A line that is written to a handler. An error names the SPI, because the line itself is never printed.
fn added(line: &str) -> Result<Spec, String> {
    let spi = line.split_whitespace().nth(1).and_then(|word| lang::args::parse::<u32>(word).ok());
    Spec::parse(line, &runtime::handler_names()).map_err(|error| match spi {
        Some(spi) => format!("security association {spi:#x}: {error}"),
        None => error,
    })
}

impl Element for IPsecSAD {
    const CLASS: &'static str = "IPsecSAD";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const OPENS: Option<Opens> = Some(Opens::Crypto);
    const MANUAL: &'static str = manual!("ipsec/ipsecsad");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let file = args.k::<Filename>("FILE")?;
        file.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
        let device = args.k::<String>("DEVICE")?;
        device.iter().try_for_each(|device| cx.permits(Outside::Crypto(device), args))?;
        let capacity = args.k::<usize>("CAPACITY")?.unwrap_or(1024);
        let (workers, eal) = (cx.workers(), cx.environment().clone());
        let mut made = false;
        let database = cx.shared(|| {
            made = true;
            Database::new(device, workers, capacity, eal)
        });
        if made && let Some(Filename(path)) = file {
            match read(cx.hub(), &path, args.names()) {
                Ok((specs, open)) => {
                    if open && !cx.as_click() {
                        cx.warn(format!("{path} can be read by others than its owner: chmod 600 {path}"));
                    }
                    database.later(specs);
                }
                Err(errors) => {
                    let errors: Vec<ArgError> = errors.into_iter().map(|e| args.error(e)).collect();
                    return Err(errors.into_iter().next().unwrap_or_else(|| ArgError::new("bad FILE")));
                }
            }
        }
        if made {
            let starting = Arc::clone(&database);
            cx.before_start(move || starting.start());
        }
        Ok(Self { database })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Database>("table", |d, _| Ok(d.table()));
        h.shared_read::<Database>("count", |d, _| Ok(d.len().to_string()));
        h.shared_read::<Database>("devices", |d, _| Ok(d.devices()));
        h.shared_write::<Database>("add", |d, text| {
            let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
            d.add(&lines.map(added).collect::<Result<Vec<_>, _>>()?, true)
        });
        h.secret("add");
        h.shared_write::<Database>("remove", |d, text| {
            let wrong = || "should be 'in SPI' or 'out SPI'".to_owned();
            let (direction, spi) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
            let spi = lang::args::parse::<u32>(spi.trim()).map_err(|_| wrong())?;
            match direction {
                "in" => d.remove(Direction::In, spi),
                "out" => d.remove(Direction::Out, spi),
                _ => Err(wrong()),
            }
        });
        h.shared_write::<Database>("flush", |d, _| {
            d.flush();
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.database.adopt(&old.database);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use std::fs::{File, Permissions};
    use std::io::{Read, Seek, SeekFrom};
    use std::os::unix::fs::PermissionsExt;

    fn path(name: &str) -> String {
        let path = std::env::temp_dir().join(format!("valiant-{name}-{}", std::process::id()));
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_file_that_others_can_read_is_warned_of() {
        let path = path("open");
        std::fs::write(&path, "# no associations yet\n").unwrap();
        for (mode, click, warned) in [
            (0o600, false, false),
            (0o400, false, false),
            (0o640, false, true),
            (0o604, false, true),
            (0o644, true, false),
        ] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let options = runtime::Options { click, ..runtime::Options::default() };
            let mut bench = Bench::with_options(&format!("sad :: IPsecSAD(FILE {path});"), options);
            let warnings: Vec<String> = bench.router().warnings().iter().map(|w| w.message.clone()).collect();
            let expected = format!("{path} can be read by others than its owner: chmod 600 {path}");
            assert_eq!(warnings.contains(&expected), warned, "{mode:o} {click}: {warnings:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// How often a secret is found in this process's memory. The secret is passed in masked form, so that the
    /// argument itself is not found.
    fn found(masked: &[u8]) -> usize {
        const MASK: u8 = 0x5a;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut memory = File::open("/proc/self/mem").unwrap();
        let mut count = 0;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let (range, rights) = (words.next().unwrap(), words.next().unwrap());
            let (from, to) = range.split_once('-').unwrap();
            let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
            if !rights.starts_with("rw") || to - from > 1 << 28 || memory.seek(SeekFrom::Start(from)).is_err()
            {
                continue;
            }
            // This function must not leave a copy of the secret in memory.
            let mut chunk = vec![0; 1 << 16];
            let mut matched = 0;
            let mut left = to - from;
            while left > 0 {
                let want = chunk.len().min(left as usize);
                let Ok(n @ 1..) = memory.read(&mut chunk[..want]) else { break };
                left -= n as u64;
                for block in chunk[..n].chunks_mut(64) {
                    if matched == 0 && !block.contains(&(masked[0] ^ MASK)) {
                        continue;
                    }
                    for byte in block {
                        let b = std::mem::take(byte) ^ MASK;
                        matched =
                            if b == masked[matched] { matched + 1 } else { usize::from(b == masked[0]) };
                        if matched == masked.len() {
                            (count, matched) = (count + 1, 0);
                        }
                    }
                }
            }
        }
        count
    }

    #[test]
    fn keys_do_not_stay_in_memory() {
        const MASK: u8 = 0x5a;
        let path = path("keys");
        let mut urandom = File::open("/dev/urandom").unwrap();
        let mut key = [0; 32];
        urandom.read_exact(&mut key).unwrap();
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        let digits: Vec<u8> = key.iter().flat_map(|b| [digit(b >> 4) ^ MASK, digit(b & 15) ^ MASK]).collect();
        key.iter_mut().for_each(|b| *b ^= MASK);
        // A file in which the key is one of several, written without a copy left in memory.
        let mut text = vec![0; 4096];
        text.clear();
        for line in 0..20u32 {
            text.extend(format!("in {} 1.0.0.1 1.0.0.2 aes-gcm ", 256 + line).as_bytes());
            text.extend(digits.iter().map(|d| d ^ MASK));
            text.extend(b"00112233 from 10.0.0.0/8\n");
        }
        std::fs::write(&path, &text).unwrap();
        text.fill(0);
        std::hint::black_box(&mut text);
        assert_eq!(found(&digits), 0, "the test itself shows the key");
        let (specs, _) = read(&Hub::default(), &path, &NameDb::default()).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(found(&key) >= specs.len(), "the search finds what is there");
        drop(specs);
        assert_eq!((found(&digits), found(&key)), (0, 0), "digits and bytes of the keys");
        // The same for a file with a wrong line.
        let file = std::fs::OpenOptions::new().append(true).open(&path);
        std::io::Write::write_all(&mut file.unwrap(), b" in 1 2 3\nin 999 1.0.0.1 1.0.0.2 aes-gcm ").unwrap();
        assert!(read(&Hub::default(), &path, &NameDb::default()).is_err());
        assert_eq!((found(&digits), found(&key)), (0, 0));
        std::fs::remove_file(&path).unwrap();
    }
}
