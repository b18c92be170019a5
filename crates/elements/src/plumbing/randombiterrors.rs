//! # RandomBitErrors
//! Changes bits of packets at random.
//!
//! ## Synopsis
//! `RandomBitErrors(P [, KIND, ACTIVE])`
//!
//! ## Arguments
//! - `P` (*real*, 0 to 1): the probability with which each bit is changed, independently of all others. It is
//!   kept in units of 2^-28.
//! - `KIND` (`flip`, `set` or `clear`, default `flip`): what happens to such a bit: it is inverted, becomes
//!   1, or becomes 0.
//! - `ACTIVE` (*bool*, default true): whether to change packets.
//!
//! ## Ports
//! One input, one output; agnostic. Checksums are not updated. The time that a packet takes depends on the
//! number of bits that change, not on its length.
//!
//! ## Handlers
//! - `p_bit_error` (read/write): the `P` argument.
//! - `error_kind` (read/write): the `KIND` argument.
//! - `active` (read/write): the `ACTIVE` argument.
//!
//! ## Threads
//! Each worker has its own random numbers; a write changes all instances.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> RandomBitErrors(0.001) -> Print -> Discard;
//! ```
//!
//! ## See also
//! RandomSample, RandomSeed, SetCRC32

use super::engine::text;
use crate::prelude::*;
use lang::args::Real2;

const BITS: u32 = 28;
const ONE: u32 = 1 << BITS;

#[derive(Clone, Copy)]
enum Kind {
    Flip,
    Set,
    Clear,
}

/// The `RandomBitErrors` element.
pub struct RandomBitErrors {
    /// In units of 2^-28.
    p: u32,
    kind: Kind,
    active: bool,
}

fn kind(text: &str) -> Result<Kind, String> {
    match text {
        "flip" | "" => Ok(Kind::Flip),
        "set" => Ok(Kind::Set),
        "clear" => Ok(Kind::Clear),
        _ => Err(format!("bad action '{text}' (must be 'set', 'clear', or 'flip')")),
    }
}

fn probability(p: Real2<BITS>) -> Result<u32, String> {
    if p.0 <= ONE { Ok(p.0) } else { Err("drop probability must be between 0 and 1".to_owned()) }
}

impl Element for RandomBitErrors {
    const CLASS: &'static str = "RandomBitErrors";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const MANUAL: &'static str = manual!("plumbing/randombiterrors");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let p = args.mp("P")?;
        let text = args.p_or("KIND", String::new())?;
        let active = args.p_or("ACTIVE", true)?;
        let kind = kind(&text).map_err(|e| args.error(e))?;
        let p = probability(p).map_err(|e| args.error(e))?;
        if p == 0 {
            cx.warn("zero bit error probability (underflow?)");
        }
        Ok(Self { p, kind, active })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("p_bit_error", |e| text::real2(e.p.into(), BITS));
        h.write("p_bit_error", |e, v, _| {
            e.p = probability(text::value(v, "P: expected a real number")?)?;
            Ok(())
        });
        h.read("error_kind", |e| {
            match e.kind {
                Kind::Flip => "flip",
                Kind::Set => "set",
                Kind::Clear => "clear",
            }
            .to_owned()
        });
        h.write("error_kind", |e, v, _| kind(v.trim()).map(|k| e.kind = k));
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| text::value(v, "syntax error").map(|on| e.active = on));
    }
}

impl RandomBitErrors {
    /// The number of bits up to the next one that changes, which has a geometric distribution.
    fn gap(&self, cx: &mut Cx<'_>) -> u64 {
        // Above 0, at most 1.
        let uniform = ((cx.random() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let log = (-f64::from(self.p) / f64::from(ONE)).ln_1p();
        (uniform.ln() / log) as u64
    }
}

impl Simple for RandomBitErrors {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.active || self.p == 0 {
            return Some(packet);
        }
        let bytes = packet.data_mut();
        let mut at = self.gap(cx);
        while let Some(byte) = usize::try_from(at / 8).ok().and_then(|n| bytes.get_mut(n)) {
            let bit = 1 << (at % 8);
            match self.kind {
                Kind::Flip => *byte ^= bit,
                Kind::Set => *byte |= bit,
                Kind::Clear => *byte &= !bit,
            }
            at = at.saturating_add(1).saturating_add(self.gap(cx));
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// How often each of 256 bits of a packet that is all zeros or ones is the other.
    fn changed(config: &str, zeros: bool, packets: usize) -> Vec<usize> {
        let mut bench = Bench::new(config);
        let byte = if zeros { 0 } else { 0xff };
        let mut counts = vec![0; 256];
        for _ in 0..packets {
            let out = bench.push(0, &[byte; 32]).remove(0).1;
            for (n, count) in counts.iter_mut().enumerate() {
                *count += usize::from((out[n / 8] ^ byte) >> (n % 8) & 1);
            }
        }
        counts
    }

    #[test]
    fn each_bit_changes_with_the_probability() {
        for p in [0.02, 0.25, 0.5, 0.9] {
            let packets = 4000;
            let counts = changed(&format!("RandomBitErrors({p})"), true, packets);
            let want = p * packets as f64;
            let deviation = (want * (1.0 - p)).sqrt();
            // Five deviations: less than one in a million.
            for (n, count) in counts.iter().enumerate() {
                assert!((*count as f64 - want).abs() < 5.5 * deviation, "{p}: bit {n} {count} times");
            }
        }
        assert_eq!(changed("RandomBitErrors(1)", true, 3), [3; 256]);
        assert_eq!(changed("RandomBitErrors(0)", true, 3), [0; 256]);
    }

    #[test]
    fn bits_are_set_or_cleared() {
        assert_eq!(changed("RandomBitErrors(1, set)", true, 1), [1; 256]);
        assert_eq!(changed("RandomBitErrors(1, set)", false, 1), [0; 256]);
        assert_eq!(changed("RandomBitErrors(1, KIND clear)", true, 1), [0; 256]);
        assert_eq!(changed("RandomBitErrors(1, clear)", false, 1), [1; 256]);
        assert_eq!(changed("RandomBitErrors(1, flip, false)", false, 1), [0; 256]);
    }

    #[test]
    fn handlers_and_errors() {
        let mut bench = Bench::new("RandomBitErrors(0.5)");
        assert_eq!(
            (bench.read("p_bit_error"), bench.read("error_kind"), bench.read("active")),
            ("0.5".into(), "flip".into(), "true".into())
        );
        bench.write("p_bit_error", "1");
        bench.write("error_kind", "set");
        assert_eq!(bench.push(0, &[0x0f]), [(0, vec![0xff])]);
        bench.write("active", "false");
        assert_eq!(bench.push(0, &[0x0f]), [(0, vec![0x0f])]);
        assert!(
            bench.try_write("p_bit_error", "1.5").is_err() && bench.try_write("error_kind", "x").is_err()
        );
        assert!(Bench::error("RandomBitErrors(2)").contains("drop probability must be between 0 and 1"));
        assert!(
            Bench::error("RandomBitErrors(0.5, bend)")
                .contains("bad action 'bend' (must be 'set', 'clear', or 'flip')")
        );
    }
}
