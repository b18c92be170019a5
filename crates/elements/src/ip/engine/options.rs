//! Processing of the Record Route and Timestamp options in a gateway (RFC 791 §3.1, RFC 1812 §5.2.4).

use std::net::Ipv4Addr;
use wire::ipv4::{OPT_EOL, OPT_NOP, OPT_RR, OPT_TS};

const HEADER_LEN: usize = wire::ipv4::HEADER_LEN;

/// Writes this router's address and the time into the options of `header`, which contains the header and its
/// options.
///
/// `mine` are the addresses for which pre-specified timestamps are filled in; `ms` are milliseconds since
/// midnight UT. Returns whether something changed; the checksum is then wrong.
///
/// # Errors
/// For an ICMP parameter problem: the offset of the wrong byte from the start of the header. Options before
/// it may have been filled in.
pub(crate) fn fill(header: &mut [u8], my_address: Ipv4Addr, mine: &[Ipv4Addr], ms: u32) -> Result<bool, u8> {
    let mut at = HEADER_LEN;
    let mut changed = false;
    while let Some(&kind) = header.get(at) {
        match kind {
            OPT_EOL => break,
            OPT_NOP => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some(len) = header.get(at + 1).map(|l| usize::from(*l)).filter(|l| *l >= 2) else {
            return Err(place(at + 1));
        };
        let Some(option) = header.get_mut(at..at + len) else { return Err(place(at + 1)) };
        let done = match kind {
            OPT_RR => record_route(option, my_address),
            OPT_TS => timestamp(option, my_address, mine, ms),
            _ => Ok(false),
        };
        changed |= done.map_err(|byte| place(at + byte))?;
        at += len;
    }
    Ok(changed)
}

fn place(at: usize) -> u8 {
    at as u8 // a header has 60 bytes at most
}

/// The pointer, which counts from one, as an offset into the option, with the bytes of the option from there.
fn slot(option: &mut [u8]) -> Option<(usize, &mut [u8])> {
    let at = usize::from(*option.get(2)?).checked_sub(1)?;
    Some((at, option.get_mut(at..).unwrap_or(&mut [])))
}

fn advance(option: &mut [u8], by: u8) {
    if let Some(pointer) = option.get_mut(2) {
        *pointer = pointer.wrapping_add(by);
    }
}

fn record_route(option: &mut [u8], my_address: Ipv4Addr) -> Result<bool, usize> {
    let len = option.len();
    let (at, free) = slot(option).ok_or(2usize)?;
    match free.first_chunk_mut::<4>() {
        Some(place) if at >= 3 => {
            *place = my_address.octets();
            advance(option, 4);
            Ok(true)
        }
        _ if at == len => Ok(false), // full
        _ => Err(2),
    }
}

fn timestamp(option: &mut [u8], my_address: Ipv4Addr, mine: &[Ipv4Addr], ms: u32) -> Result<bool, usize> {
    let Some(&status) = option.get(3) else { return Err(2) };
    let (at, free) = slot(option).ok_or(2usize)?;
    if at < 4 {
        return Err(2);
    }
    let ms = ms.to_be_bytes();
    match status & 15 {
        0 => {
            if let Some(place) = free.first_chunk_mut::<4>() {
                *place = ms;
                advance(option, 4);
                return Ok(true);
            }
        }
        1 => {
            if let Some(place) = free.first_chunk_mut::<8>() {
                let (address, time) = place.split_at_mut(4);
                address.copy_from_slice(&my_address.octets());
                time.copy_from_slice(&ms);
                advance(option, 8);
                return Ok(true);
            }
        }
        3 => {
            let Some(place) = free.first_chunk_mut::<8>() else { return Err(3) };
            let (address, time) = place.split_at_mut(4);
            let asked = mine.iter().any(|a| a.octets() == *address);
            if asked {
                time.copy_from_slice(&ms);
                advance(option, 8);
            }
            return Ok(asked);
        }
        _ => return Err(3),
    }
    // The option is full: increase the overflow counter, which has four bits.
    match (status >> 4, option.get_mut(3)) {
        (overflow @ 0..15, Some(byte)) => {
            *byte = (overflow + 1) << 4 | status & 15;
            Ok(true)
        }
        _ => Err(3),
    }
}

/// Milliseconds since midnight UT.
pub(crate) fn ms_of_day(now_ns: u64) -> u32 {
    (now_ns / 1_000_000 % 86_400_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Ipv4Addr = Ipv4Addr::new(1, 2, 3, 4);

    fn run(options: &[u8]) -> (Result<bool, u8>, Vec<u8>) {
        let mut header = vec![0; 20];
        header.extend_from_slice(options);
        let done = fill(&mut header, ME, &[ME], 0x0102_0304);
        (done, header.split_off(20))
    }

    #[test]
    fn records_the_route() {
        assert_eq!(run(&[1, 7, 7, 4, 0, 0, 0, 0]), (Ok(true), vec![1, 7, 7, 8, 1, 2, 3, 4]));
        assert_eq!(run(&[1, 7, 7, 8, 9, 9, 9, 9]), (Ok(false), vec![1, 7, 7, 8, 9, 9, 9, 9]));
        assert_eq!(run(&[1, 7, 7, 3, 0, 0, 0, 0]).0, Err(20 + 1 + 2));
        assert_eq!(run(&[1, 7, 7, 6, 0, 0, 0, 0]).0, Err(20 + 1 + 2));
        assert_eq!(run(&[7, 2, 1, 0]).0, Err(22));
    }

    #[test]
    fn stamps_the_time() {
        assert_eq!(run(&[68, 8, 5, 0, 0, 0, 0, 0]), (Ok(true), vec![68, 8, 9, 0, 1, 2, 3, 4]));
        assert_eq!(run(&[68, 8, 9, 0x10, 0, 0, 0, 0]), (Ok(true), vec![68, 8, 9, 0x20, 0, 0, 0, 0]));
        assert_eq!(run(&[68, 8, 9, 0xf0, 0, 0, 0, 0]).0, Err(23));
        assert_eq!(
            run(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            (Ok(true), vec![68, 12, 13, 1, 1, 2, 3, 4, 1, 2, 3, 4])
        );
        assert_eq!(
            run(&[68, 12, 5, 3, 1, 2, 3, 4, 0, 0, 0, 0]),
            (Ok(true), vec![68, 12, 13, 3, 1, 2, 3, 4, 1, 2, 3, 4])
        );
        assert_eq!(
            run(&[68, 12, 5, 3, 1, 2, 3, 5, 0, 0, 0, 0]),
            (Ok(false), vec![68, 12, 5, 3, 1, 2, 3, 5, 0, 0, 0, 0])
        );
        assert_eq!(run(&[68, 8, 4, 0, 0, 0, 0, 0]).0, Err(22));
        assert_eq!(run(&[68, 8, 5, 2, 0, 0, 0, 0]).0, Err(23));
    }

    #[test]
    fn points_at_a_bad_length() {
        assert_eq!(run(&[130, 1, 0, 0]).0, Err(21));
        assert_eq!(run(&[130, 5, 0, 0]).0, Err(21));
        assert_eq!(run(&[1, 1, 1, 130]).0, Err(24));
        assert_eq!(run(&[0, 130, 99, 0]), (Ok(false), vec![0, 130, 99, 0]));
    }

    #[test]
    fn survives_any_bytes() {
        let mut x = 1u32;
        for _ in 0..20_000 {
            let options: Vec<u8> = (0..40)
                .map(|_| {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    [7, 68, 1, 4, 5, 8, 12, (x >> 20) as u8][(x >> 28) as usize % 8]
                })
                .collect();
            let _ = run(&options);
        }
    }
}
