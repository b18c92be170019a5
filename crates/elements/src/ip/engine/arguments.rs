//! Arguments that elements of both versions of IP have.

use lang::args::{FromArg, NameDb};

/// What a wrong destination of a UDP packet is called.
pub(crate) const BAD_DST: &str = "bad DST";
/// The same where any protocol may follow.
pub(crate) const BAD_DESTINATION: &str = "DST argument should be IP address or 'DST_ANNO'";

/// A destination; none if it is that in each packet's annotation.
pub(crate) fn destination<A: FromArg>(text: &str, names: &NameDb, wrong: &str) -> Result<Option<A>, String> {
    if text == "DST_ANNO" {
        return Ok(None);
    }
    A::from_arg(text, names).map(Some).map_err(|_| wrong.to_owned())
}

/// A code point of differentiated services (RFC 2474).
pub(crate) fn code_point(dscp: u32) -> Result<u8, String> {
    u8::try_from(dscp).ok().filter(|d| *d < 64).ok_or_else(|| "diffserv code point out of range".to_owned())
}

/// The two bits of explicit congestion notification (RFC 3168), by number or name.
pub(crate) fn ecn(text: &str) -> Result<u8, String> {
    match text {
        "0" | "no" | "-" => Ok(0),
        "1" | "ect1" | "ECT(1)" => Ok(1),
        "2" | "ect2" | "ECT(0)" => Ok(2),
        "3" | "ce" | "CE" => Ok(3),
        _ => Err("bad ECN argument".to_owned()),
    }
}
