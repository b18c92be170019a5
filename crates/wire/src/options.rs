//! Type-length-value options as IPv4 (RFC 791 §3.1) and TCP (RFC 9293 §3.2) share them.

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// Option type.
    pub kind: u8,
    /// Offset of the option from the start of the header that holds it, in bytes.
    pub offset: usize,
    /// The whole option: type, length (absent for No Operation) and data.
    pub bytes: &'a [u8],
}

impl<'a> RawOption<'a> {
    /// What follows type and length.
    pub fn data(&self) -> &'a [u8] {
        self.bytes.get(2..).unwrap_or(&[])
    }
}

/// An option whose length is missing, below two, or beyond the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// Offset of the bad option from the start of the header, in bytes: what an ICMP parameter problem points
    /// at.
    pub offset: usize,
}

/// Iterates over options until End of Option List, the end of the header, or the first bad option.
///
/// End of Option List (type 0) is not returned, No Operation (type 1) is.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Options<'a> {
    /// Options in `bytes`, which start `offset` bytes into the header.
    #[inline]
    pub fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<RawOption<'a>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        let len = match *self.rest {
            [] | [0, ..] => return None,
            [1, ..] => 1,
            [_, len, ..] if len >= 2 => usize::from(len),
            _ => usize::MAX,
        };
        let offset = self.offset;
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            self.rest = &[];
            return Some(Err(BadOption { offset }));
        };
        self.rest = rest;
        self.offset += len;
        Some(Ok(RawOption { kind: bytes[0], offset, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_and_stops() {
        let bytes = [1, 7, 7, 4, 0, 0, 0, 0, 68, 4, 5, 0, 0, 99];
        let all: Vec<_> = Options::new(&bytes, 20).collect::<Result<_, _>>().unwrap();
        assert_eq!(all.iter().map(|o| (o.kind, o.offset)).collect::<Vec<_>>(), [(1, 20), (7, 21), (68, 28)]);
        assert_eq!(all[1].data(), [4, 0, 0, 0, 0]);
        assert_eq!(all[0].data(), []);
    }

    #[test]
    fn bad_lengths() {
        for bytes in [&[7][..], &[7, 0], &[7, 1, 1], &[1, 7, 4, 0]] {
            let mut it = Options::new(bytes, 20);
            let bad = it.by_ref().find_map(Result::err).unwrap();
            assert_eq!(bad.offset, if bytes[0] == 1 { 21 } else { 20 });
            assert!(it.next().is_none());
        }
    }
}
