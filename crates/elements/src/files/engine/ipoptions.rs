//! Reads the IP options of a summary: words such as `nop`, `rr{1.0.0.1,^1.0.0.2}`, `ts.ip{1.0.0.1=5}+2` and
//! `148=0:0`, separated by semicolons or commas.

use std::net::Ipv4Addr;
use wire::ipv4;

/// The text that has not been read yet.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn take(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
    fn begins_with_digit(&self) -> bool {
        self.0.starts_with(|c: char| c.is_ascii_digit())
    }
    /// The characters that the function wants.
    fn while_any(&mut self, wanted: impl Fn(char) -> bool) -> &str {
        let (taken, rest) = self.0.split_at(self.0.find(|c| !wanted(c)).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }
    /// A number, which may be hexadecimal (`0x`) or octal (`0`), as in Click.
    fn number<T: TryFrom<u32>>(&mut self) -> Option<T> {
        let (base, digits) = match self.0.as_bytes() {
            [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, self.0.get(2..)?),
            [b'0', ..] => (8, self.0),
            _ => (10, self.0),
        };
        self.0 = digits;
        let digits = self.while_any(|c| c.is_digit(base));
        T::try_from(u32::from_str_radix(digits, base).ok()?).ok()
    }
    fn address(&mut self) -> Option<[u8; 4]> {
        let text = self.while_any(|c| c.is_ascii_digit() || c == '.');
        text.parse().ok().map(|address: Ipv4Addr| address.octets())
    }
}

/// The most records of four bytes that fit.
const MOST_RECORDS: usize = 9;

/// Appends an option whose length, pointer and data are these; the pointer counts from the option's first
/// byte, beginning with 1.
fn put(kind: u8, pointer: usize, data: &[u8], to: &mut Vec<u8>) -> Option<()> {
    to.extend([kind, u8::try_from(data.len() + 3).ok()?, u8::try_from(pointer).ok()?]);
    to.extend(data);
    Some(())
}

/// Room for this many further records, written `+N`.
fn room(rest: &mut Rest<'_>, size: usize, data: &mut Vec<u8>) -> Option<()> {
    let follows = rest.0.strip_prefix('+').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
    if follows && rest.take("+") {
        let records = (rest.number::<u32>()? as usize).min(MOST_RECORDS + 1);
        data.resize(data.len() + records * size, 0);
    }
    Some(())
}

/// A route, after its opening brace.
fn route(kind: u8, rest: &mut Rest<'_>, to: &mut Vec<u8>) -> Option<()> {
    let (mut data, mut pointer) = (Vec::new(), None);
    loop {
        if pointer.is_none() && rest.take("^") {
            pointer = Some(data.len() + 4);
        }
        if !rest.begins_with_digit() {
            break;
        }
        data.extend(rest.address()?);
        rest.take(",");
    }
    rest.take("}").then_some(())?;
    let pointer = pointer.unwrap_or(data.len() + 4);
    room(rest, 4, &mut data)?;
    put(kind, pointer, &data, to)
}

/// Timestamps, after `ts`.
fn timestamps(rest: &mut Rest<'_>, to: &mut Vec<u8>) -> Option<()> {
    // Without a word, addresses in the records say which kind it is.
    let mut flag = match () {
        () if rest.take(".ip") => Some(1),
        () if rest.take(".preip") => Some(3),
        () if rest.take(".") => Some(rest.number::<u8>().filter(|flag| *flag <= 15)?),
        () => None,
    };
    rest.take("{").then_some(())?;
    let (mut data, mut pointer) = (Vec::new(), None);
    loop {
        if pointer.is_none() && rest.take("^") {
            pointer = Some(data.len() + 5);
        }
        if !rest.begins_with_digit() && !rest.0.starts_with('!') {
            break;
        }
        let dotted = rest.0.split([',', '}', '=']).next().is_some_and(|word| word.contains('.'));
        let addresses = flag.map_or(dotted, |flag| matches!(flag, 1 | 3));
        if flag.is_none() {
            flag = Some(if !addresses {
                0
            } else if pointer.is_some() {
                3
            } else {
                1
            });
        }
        let mut value = true;
        if addresses {
            data.extend(rest.address()?);
            // Those that have no time yet are behind the pointer.
            value = rest.take("=") && !(pointer.is_some() && rest.take("?"));
            if !value && pointer.is_none() {
                return None;
            }
        }
        let mut time = 0;
        if value {
            let top = if rest.take("!") { 1 << 31 } else { 0 };
            time = rest.number::<u32>()? | top;
        }
        data.extend(time.to_be_bytes());
        rest.take(",");
        if pointer.is_some() && addresses {
            flag = Some(3);
        }
    }
    rest.take("}").then_some(())?;
    let flag = flag.unwrap_or(0);
    let pointer = pointer.unwrap_or(data.len() + 5);
    room(rest, if matches!(flag, 1 | 3) { 8 } else { 4 }, &mut data)?;
    let overflow = if rest.take("++") { rest.number::<u8>().filter(|n| *n < 16)? } else { 0 };
    data.insert(0, overflow << 4 | flag);
    put(ipv4::OPT_TS, pointer, &data, to)
}

/// An option of another kind: its number and its bytes.
fn plain(rest: &mut Rest<'_>, to: &mut Vec<u8>) -> Option<()> {
    let kind: u8 = rest.number()?;
    let mut data = Vec::new();
    if rest.take("=") {
        data.push(rest.number::<u8>()?);
        while rest.take(":") {
            data.push(rest.number::<u8>()?);
        }
        to.extend([kind, u8::try_from(data.len() + 2).ok()?]);
    } else {
        to.extend([kind, 2]);
    }
    to.extend(data);
    Some(())
}

/// The bytes of options; `None` if they cannot be read.
pub(super) fn read(text: &str) -> Option<Vec<u8>> {
    let (mut rest, mut to) = (Rest(text), Vec::new());
    if text == "." {
        return Some(to);
    }
    loop {
        match () {
            () if rest.take("rr{") => route(ipv4::OPT_RR, &mut rest, &mut to)?,
            () if rest.take("ssrr{") => route(ipv4::OPT_SSRR, &mut rest, &mut to)?,
            () if rest.take("lsrr{") => route(ipv4::OPT_LSRR, &mut rest, &mut to)?,
            () if rest.take("ts") => timestamps(&mut rest, &mut to)?,
            () if rest.take("nop") => to.push(1),
            () if rest.take("eol") => to.push(0),
            () => plain(&mut rest, &mut to)?,
        }
        match () {
            () if rest.0.is_empty() => return Some(to),
            () if rest.take(";") || rest.take(",") => {}
            () => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn options_are_read() {
        for (text, bytes) in [
            (".", &[][..]),
            ("nop;eol", &[1, 0]),
            ("rr{1.0.0.1,1.0.0.2}", &[7, 11, 12, 1, 0, 0, 1, 1, 0, 0, 2]),
            ("rr{}+2", &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("rr{1.0.0.1}+1,nop", &[7, 11, 8, 1, 0, 0, 1, 0, 0, 0, 0, 1]),
            ("ssrr{1.0.0.1,^1.0.0.2}", &[137, 11, 8, 1, 0, 0, 1, 1, 0, 0, 2]),
            ("lsrr{^}", &[131, 3, 4]),
            ("ts{5,!6}+1", &[68, 16, 13, 0, 0, 0, 0, 5, 128, 0, 0, 6, 0, 0, 0, 0]),
            ("ts.ip{1.0.0.1=5}++3", &[68, 12, 13, 0x31, 1, 0, 0, 1, 0, 0, 0, 5]),
            ("ts{1.0.0.1=5}", &[68, 12, 13, 1, 1, 0, 0, 1, 0, 0, 0, 5]),
            ("ts.preip{^1.0.0.1}", &[68, 12, 5, 3, 1, 0, 0, 1, 0, 0, 0, 0]),
            ("ts{1.0.0.1=5,^1.0.0.2=?}", &[68, 20, 13, 3, 1, 0, 0, 1, 0, 0, 0, 5, 1, 0, 0, 2, 0, 0, 0, 0]),
            ("148=0:7", &[148, 4, 0, 7]),
            ("ts{0x10,010,!0X1f}+0x1", &[68, 20, 17, 0, 0, 0, 0, 16, 0, 0, 0, 8, 128, 0, 0, 31, 0, 0, 0, 0]),
            ("0x94=00:0x7", &[148, 4, 0, 7]),
        ] {
            assert_eq!(read(text).as_deref(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for text in [
            "",
            "x",
            "rr{",
            "rr{1.0.0}",
            "rr{1.0.0.1",
            "ts{x}",
            "ts.ip{1.0.0.1}",
            "ts.16{5}",
            "ts{0x}",
            "ts{4294967296}",
            "256",
            "nop nop",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
