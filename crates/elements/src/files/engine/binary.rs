//! Binary records of IP summary dumps: four bytes with the length of the whole record, then the fields in the
//! order of the `!data` line, all numbers in network byte order. The highest bit of the length marks a record
//! that holds a line of text.
//!
//! Three kinds of records are as Click's manual describes them and Click's reader takes them, and not as its
//! writer makes them: the length of a line counts its own four bytes, options are stored once, and the high
//! half of `ts_usec1` comes first. A field that a packet does not have is zero.

use super::fields::{Field, FieldKind, Width};
use super::fieldvalue::Value;
use md5::{Digest, Md5};

/// The length of the word at the beginning.
pub(in crate::files) const WORD: usize = 4;
/// The bit of that word that marks a line of text.
const LINE: u32 = 1 << 31;
/// The longest record that is read.
const LONGEST: usize = 1 << 20;

const NS: u64 = 1_000_000_000;

/// The length of a record and whether it is a line, from its first bytes.
///
/// # Errors
/// The reason why the record cannot be read.
pub(in crate::files) fn head(word: [u8; WORD]) -> Result<(usize, bool), String> {
    let word = u32::from_be_bytes(word);
    match (word & !LINE) as usize {
        ..WORD => Err("binary record too short".to_owned()),
        len if len > LONGEST => Err("binary record too long".to_owned()),
        len => Ok((len, word & LINE != 0)),
    }
}

/// The length of the record that begins with these bytes.
pub(in crate::files) fn record_len(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|word| (u32::from_be_bytes(*word) & !LINE) as usize)
}

/// Appends a line of text as a record.
pub(in crate::files) fn put_line(line: &str, to: &mut Vec<u8>) {
    let len = u32::try_from(WORD + line.len()).unwrap_or(LINE - 1);
    to.extend((len | LINE).to_be_bytes());
    to.extend(line.as_bytes());
}

/// Appends a record whose fields `fields` appends.
pub(in crate::files) fn put_record(to: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    let at = to.len();
    to.extend([0; WORD]);
    fields(to);
    let len = u32::try_from(to.len() - at).unwrap_or(LINE - 1);
    if let Some(word) = to.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *word = len.to_be_bytes();
    }
}

/// Appends a field.
pub(in crate::files) fn put(field: &Field, value: Option<Value<'_>>, to: &mut Vec<u8>) {
    let width = match field.width {
        Width::Bytes(width) => width,
        Width::Counted => {
            let at = to.len();
            to.push(0);
            if let Some(Value::Bytes(options)) = value {
                put_options(field.kind, options, to);
            }
            // A header has at most 40 bytes of options.
            let len = u8::try_from(to.len() - at - 1).unwrap_or(0);
            to.truncate(at + 1 + usize::from(len));
            if let Some(count) = to.get_mut(at) {
                *count = len;
            }
            return;
        }
        Width::TextOnly => return,
    };
    match value {
        Some(Value::Number(n)) => {
            let bytes = n.to_be_bytes();
            to.extend(bytes.get(bytes.len() - width.min(bytes.len())..).unwrap_or(&[]));
        }
        Some(Value::Time(ns)) => {
            let (seconds, rest) = ((ns / NS) as u32, (ns % NS) as u32);
            let words = match field.kind {
                // In Click, the nanoseconds come first.
                FieldKind::TimestampNs | FieldKind::FirstTimestampNs => [rest, seconds],
                _ => [seconds, rest / 1000],
            };
            to.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        }
        Some(Value::Address(address)) => to.extend(address.octets()),
        Some(Value::Ethernet(address)) => to.extend(address.0),
        Some(Value::Bytes(payload)) => to.extend(Md5::digest(payload)),
        None => to.extend(std::iter::repeat_n(0, width)),
    }
}

/// Appends those options that a field shows; options that cannot be read end the list.
fn put_options(kind: FieldKind, mut options: &[u8], to: &mut Vec<u8>) {
    let shows: fn(u8) -> bool = match kind {
        FieldKind::TcpNtopt => |option| !matches!(option, 0 | 1 | 8),
        FieldKind::TcpSack => |option| matches!(option, 4 | 5),
        _ => return to.extend(options),
    };
    loop {
        let len = match *options {
            [1, ..] => 1,
            [option @ 2..=255, len, ..] if len >= 2 && usize::from(len) <= options.len() => {
                if shows(option) {
                    to.extend(options.get(..len.into()).unwrap_or(&[]));
                }
                len
            }
            _ => return,
        };
        options = options.get(len.into()..).unwrap_or(&[]);
    }
}

/// Takes the bytes of a field from the front of a record; `None` if there are too few, and then nothing is
/// left. Counted fields come without their count.
pub(in crate::files) fn take<'a>(field: &Field, record: &mut &'a [u8]) -> Option<&'a [u8]> {
    let all = std::mem::take(record);
    let (count, rest) = match field.width {
        Width::Bytes(width) => (width, all),
        Width::Counted => all.split_first().map(|(count, rest)| (usize::from(*count), rest))?,
        Width::TextOnly => return None,
    };
    let (value, rest) = rest.split_at_checked(count)?;
    *record = rest;
    Some(value)
}

/// The number or time that the bytes of a field stand for.
pub(super) fn number(kind: FieldKind, bytes: &[u8]) -> u64 {
    let n = bytes.iter().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
    let (first, second) = (n >> 32, n & 0xffff_ffff);
    match kind {
        FieldKind::Timestamp | FieldKind::FirstTimestamp => first * NS + second * 1000,
        FieldKind::TimestampNs | FieldKind::FirstTimestampNs => second * NS + first,
        _ => n,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::find;
    use super::*;

    fn put_one(name: &str, value: Option<Value<'_>>) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&find(name).unwrap(), value, &mut bytes);
        bytes
    }

    #[test]
    fn fields_have_the_sizes_of_clicks_manual() {
        let time = Value::Time(5 * NS + 7_000);
        for (name, value, bytes) in [
            ("timestamp", time, &[0, 0, 0, 5, 0, 0, 0, 7][..]),
            ("ntimestamp", time, &[0, 0, 0x1b, 0x58, 0, 0, 0, 5]),
            ("ts_usec1", Value::Number(0x1_0000_0002), &[0, 0, 0, 1, 0, 0, 0, 2]),
            ("ip_src", Value::Address([1, 2, 3, 4].into()), &[1, 2, 3, 4]),
            ("sport", Value::Number(0x102), &[1, 2]),
            ("tcp_flags", Value::Number(0x112), &[0x12]),
            ("none", Value::Number(1), &[]),
            ("tcp_opt", Value::Bytes(&[1, 2, 4, 5, 6]), &[5, 1, 2, 4, 5, 6]),
            ("ip_opt", Value::Bytes(&[]), &[0]),
        ] {
            assert_eq!(put_one(name, Some(value)), bytes, "{name}");
        }
        for (name, len) in [("eth_src", 6), ("payload_md5", 16), ("tcp_sack", 1), ("payload", 0)] {
            assert_eq!(put_one(name, None), vec![0; len], "{name}");
        }
    }

    #[test]
    fn fields_show_their_options() {
        let all = [1, 2, 4, 5, 180, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 4, 2, 99, 3, 7, 0, 5];
        let options = Some(Value::Bytes(&all));
        assert_eq!(put_one("tcp_ntopt", options), [9, 2, 4, 5, 180, 4, 2, 99, 3, 7]);
        assert_eq!(put_one("tcp_sack", options), [2, 4, 2]);
        for wrong in [&[4][..], &[4, 1, 0], &[4, 9, 0]] {
            assert_eq!(put_one("tcp_sack", Some(Value::Bytes(wrong))), [0]);
        }
    }

    #[test]
    fn records_say_how_long_they_are() {
        let mut bytes = Vec::new();
        put_record(&mut bytes, |b| b.extend([1, 2]));
        put_line("!x\n", &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 6, 1, 2, 0x80, 0, 0, 7, b'!', b'x', b'\n']);
        assert_eq!(
            (record_len(&bytes), record_len(&bytes[6..]), record_len(&bytes[..3])),
            (Some(6), Some(7), None)
        );
        assert_eq!(head([0x80, 0, 0, 7]), Ok((7, true)));
        assert!(head([0, 0, 0, 3]).is_err() && head([0x7f; 4]).is_err());
    }

    #[test]
    fn a_record_that_is_too_short_has_no_more_fields() {
        let (sport, options) = (find("sport").unwrap(), find("tcp_opt").unwrap());
        let mut record = &[0, 7, 2, 9, 9, 0, 8][..];
        assert_eq!(take(&sport, &mut record), Some(&[0, 7][..]));
        assert_eq!(take(&options, &mut record), Some(&[9, 9][..]));
        assert_eq!(take(&sport, &mut record), Some(&[0, 8][..]));
        assert_eq!((take(&sport, &mut record), take(&options, &mut record)), (None, None));
        let mut record = &[3, 9, 9][..];
        assert_eq!((take(&options, &mut record), record), (None, &[][..]));
    }
}
