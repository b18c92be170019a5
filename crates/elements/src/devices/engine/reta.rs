//! Indirection tables as text: printed as by `ethtool -x`, and changed in the words of `ethtool -X` or in the
//! form of testpmd's `port config rss reta`.

use std::fmt::Write;

/// Entries in a line.
const COLUMNS: usize = 8;
/// The longest key that is accepted: that of Intel's cards.
const LONGEST_KEY: usize = 52;
/// The shortest key: IPv6 addresses and ports need all of it.
const SHORTEST_KEY: usize = 40;

/// Prints a table: after the number of its first bucket, the workers or queues of eight buckets in each line.
pub(super) fn print(entries: &[usize]) -> String {
    let mut text = String::new();
    for (line, entries) in entries.chunks(COLUMNS).enumerate() {
        let _ = write!(text, "{:5}: ", line * COLUMNS);
        entries.iter().for_each(|entry| {
            let _ = write!(text, "{entry:6}");
        });
        text.push('\n');
    }
    text
}

/// Reads a change of a table with so many buckets: `default` or `equal N` (the first N of `places`, which are
/// workers or queues, in turn), `weight W0 W1 ...` (buckets in proportion, a weight for each place), or pairs
/// `(BUCKET,PLACE)`, also as `BUCKET PLACE`. Returns buckets and the indexes of their places.
pub(super) fn parse(
    text: &str,
    buckets: usize,
    what: &str,
    places: &[usize],
) -> Result<Vec<(usize, usize)>, String> {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || "(),".contains(c)).filter(|w| !w.is_empty()).collect();
    let in_turn = |n: usize| (0..buckets).map(|bucket| (bucket, bucket % n.max(1))).collect();
    match words.split_first() {
        Some((&"default", [])) => Ok(in_turn(places.len())),
        Some((&"equal", [n])) => match n.parse() {
            Ok(n) if (1..=places.len()).contains(&n) => Ok(in_turn(n)),
            _ => Err(format!("equal takes the number of {what}s to use, 1 to {}, not '{n}'", places.len())),
        },
        Some((&"weight", weights)) => weighted(weights, buckets, what, places.len()),
        Some((first, _)) if first.starts_with(|c: char| c.is_ascii_digit()) => {
            pairs(&words, buckets, what, places)
        }
        _ => Err(format!(
            "expected 'default', 'equal N', 'weight W0 W1 ...' with a weight for each {what}, or pairs (BUCKET,{})",
            what.to_uppercase()
        )),
    }
}

fn weighted(weights: &[&str], buckets: usize, what: &str, n: usize) -> Result<Vec<(usize, usize)>, String> {
    let numbers: Option<Vec<u32>> = weights.iter().map(|weight| weight.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == n && numbers.iter().any(|weight| *weight > 0));
    let Some(numbers) = numbers else {
        return Err(format!("weight takes {n} numbers, one for each {what}, not all of them 0"));
    };
    let sum: u64 = numbers.iter().map(|weight| u64::from(*weight)).sum();
    let (mut place, mut before) = (0, 0u64);
    let mut entries = Vec::new();
    for bucket in 0..buckets {
        // The place whose part of the sum this bucket lies in.
        while (before + u64::from(numbers[place])) * buckets as u64 <= bucket as u64 * sum {
            before += u64::from(numbers[place]);
            place += 1;
        }
        entries.push((bucket, place));
    }
    Ok(entries)
}

fn pairs(
    words: &[&str],
    buckets: usize,
    what: &str,
    places: &[usize],
) -> Result<Vec<(usize, usize)>, String> {
    let pair = |pair: &[&str]| {
        let [bucket, place] = pair else { return Err(format!("bucket {} has no {what}", pair.concat())) };
        let bucket = bucket.parse().ok().filter(|n| *n < buckets).ok_or_else(|| {
            format!("'{bucket}' is no bucket: the table has {buckets} (0 to {})", buckets - 1)
        })?;
        let at = place.parse().ok().and_then(|n: usize| places.iter().position(|one| *one == n));
        let at = at.ok_or_else(|| {
            format!("'{place}' is no {what} here: there are {}", runtime::placement::listed(places))
        })?;
        Ok((bucket, at))
    };
    words.chunks(2).map(pair).collect()
}

/// Prints a key as by `ethtool -x`: bytes in hexadecimal with colons.
pub(super) fn print_key(key: &[u8]) -> String {
    let bytes: Vec<String> = key.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

/// Reads a key in this form, with or without colons.
pub(super) fn parse_key(text: &str) -> Result<Vec<u8>, String> {
    let bad = || {
        format!(
            "expected a key of {SHORTEST_KEY} to {LONGEST_KEY} bytes in hexadecimal, such as 6d:5a:56:..."
        )
    };
    let digits: Vec<u8> = text.trim().bytes().filter(|c| *c != b':').collect();
    let byte = |two: &[u8]| {
        let text = std::str::from_utf8(two).ok().filter(|two| two.len() == 2)?;
        if text.starts_with('+') { None } else { u8::from_str_radix(text, 16).ok() }
    };
    let key: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    key.filter(|key| (SHORTEST_KEY..=LONGEST_KEY).contains(&key.len())).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str, workers: &[usize]) -> Vec<usize> {
        parse(text, 8, "worker", workers).unwrap().into_iter().map(|(_, place)| place).collect()
    }

    #[test]
    fn tables_are_changed_in_the_words_of_ethtool_and_of_testpmd() {
        assert_eq!(places("default", &[0, 4, 6]), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(places("equal 2", &[0, 4, 6]), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(places("weight 6 0 2", &[0, 4, 6]), [0, 0, 0, 0, 0, 0, 2, 2]);
        assert_eq!(places("weight 1 1 1", &[0, 4, 6]), [0, 0, 0, 1, 1, 1, 2, 2]);
        for text in ["(7,4),(0,6)", "7 4\n0 6", " 7,4 , 0,6 "] {
            assert_eq!(parse(text, 8, "worker", &[0, 4, 6]).unwrap(), [(7, 1), (0, 2)], "{text}");
        }
    }

    #[test]
    fn a_bad_change_says_what_is_wrong() {
        for (text, wrong) in [
            ("", "expected 'default', 'equal N', 'weight"),
            ("even", "or pairs (BUCKET,WORKER)"),
            ("equal", "expected 'default'"),
            ("equal 3", "equal takes the number of workers to use, 1 to 2, not '3'"),
            ("equal 0", "1 to 2, not '0'"),
            ("weight 1", "weight takes 2 numbers, one for each worker"),
            ("weight 0 0", "not all of them 0"),
            ("(8,0)", "'8' is no bucket: the table has 8 (0 to 7)"),
            ("(1,2)", "'2' is no worker here: there are 0 and 1"),
            ("(1,0),(2)", "bucket 2 has no worker"),
        ] {
            let error = parse(text, 8, "worker", &[0, 1]).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn tables_and_keys_are_printed_as_by_ethtool() {
        let table: Vec<usize> = (0..10).map(|n| n % 2).collect();
        let line = "    0:      0     1     0     1     0     1     0     1\n";
        assert_eq!(print(&table), format!("{line}    8:      0     1\n"));
        let key: Vec<u8> = (0..40).collect();
        let text = print_key(&key);
        assert!(text.starts_with("00:01:02:") && text.ends_with(":27"));
        assert_eq!(parse_key(&text), Ok(key.clone()));
        assert_eq!(parse_key(&text.replace(':', "")), Ok(key));
        for bad in ["", "6d:5a", "xx", &"6d:".repeat(53), &"6".repeat(81), &"+6".repeat(40)] {
            assert!(parse_key(bad).unwrap_err().contains("40 to 52 bytes"), "{bad}");
        }
    }
}
