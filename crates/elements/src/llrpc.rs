//! LLRPCs: what clients of control sockets call by Click's numbers instead of handlers. Values are in the
//! machine's byte order.

use runtime::Caller;

/// The rate of a counter, in packets per second; given 0.
pub(crate) const GET_RATE: u32 = 0xc004_c001;
/// A count: that of packets, given 0, or that of bytes, given 1.
pub(crate) const GET_COUNT: u32 = 0xc004_c003;
/// The port that is switched to.
pub(crate) const GET_SWITCH: u32 = 0x4004_c005;
/// Switches to a port.
pub(crate) const SET_SWITCH: u32 = 0x8004_4006;
/// What a TCP flow becomes: two addresses and two ports, in network order.
pub(crate) const MAP_TCP: [u32; 2] = [0xc00c_4008, 0xc00c_c008];
/// What a UDP flow becomes. Older clients use the second number of either.
pub(crate) const MAP_UDP: [u32; 2] = [0xc00c_4009, 0xc00c_c009];

/// `EINVAL` and `EAGAIN` as the C library describes them.
const INVALID: &str = "Invalid argument";
const AGAIN: &str = "Resource temporarily unavailable";

/// The answer to a call for flows that the class never has.
pub(crate) fn no_flow(_: &mut dyn Caller, _: &str, _: &mut [u8]) -> Result<(), &'static str> {
    Err(AGAIN)
}

fn given(data: &[u8]) -> Result<i32, &'static str> {
    data.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(INVALID)
}

fn give(data: &mut [u8], value: [u8; 4]) -> Result<(), &'static str> {
    *data.first_chunk_mut().ok_or(INVALID)? = value;
    Ok(())
}

/// Reads a number from a handler.
fn number(caller: &mut dyn Caller, element: &str, handler: &str) -> Result<f64, &'static str> {
    let text = caller.read("", &format!("{element}.{handler}"), "").map_err(|_| INVALID)?;
    text.trim().parse().map_err(|_| INVALID)
}

/// [`GET_RATE`] of a class with a handler `rate`.
pub(crate) fn rate(caller: &mut dyn Caller, element: &str, data: &mut [u8]) -> Result<(), &'static str> {
    if given(data)? != 0 {
        return Err(INVALID);
    }
    let rate = number(caller, element, "rate")?;
    give(data, (rate as u32).to_ne_bytes())
}

/// [`GET_COUNT`] of a class with the handlers `count` and `byte_count`.
pub(crate) fn count(caller: &mut dyn Caller, element: &str, data: &mut [u8]) -> Result<(), &'static str> {
    let handler = match given(data)? {
        0 => "count",
        1 => "byte_count",
        _ => return Err(INVALID),
    };
    let text = caller.read("", &format!("{element}.{handler}"), "").map_err(|_| INVALID)?;
    let count: u64 = text.trim().parse().map_err(|_| INVALID)?;
    give(data, (count as u32).to_ne_bytes())
}

/// [`GET_SWITCH`] of a class with a handler `switch`.
pub(crate) fn switched(caller: &mut dyn Caller, element: &str, data: &mut [u8]) -> Result<(), &'static str> {
    let port = number(caller, element, "switch")?;
    give(data, (port as i32).to_ne_bytes())
}

/// [`SET_SWITCH`] of a class with a handler `switch`, which says -1 of what does not exist.
pub(crate) fn switch(caller: &mut dyn Caller, element: &str, data: &mut [u8]) -> Result<(), &'static str> {
    let port = given(data)?.to_string();
    caller.write("", &format!("{element}.switch"), &port).map_err(|_| INVALID)
}

/// [`SET_SWITCH`] of a class that refuses outputs which it does not have.
pub(crate) fn switch_output(
    caller: &mut dyn Caller,
    element: &str,
    data: &mut [u8],
) -> Result<(), &'static str> {
    let ports = caller.read("", &format!("{element}.ports"), "").map_err(|_| INVALID)?;
    let outputs =
        ports.lines().find_map(|line| line.strip_suffix(" outputs").or(line.strip_suffix(" output")));
    if given(data)? >= outputs.and_then(|n| n.parse().ok()).unwrap_or(0) {
        return Err(INVALID);
    }
    switch(caller, element, data)
}

/// A flow as handlers take it.
fn text(flow: &[u8; 12]) -> String {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *flow;
    let (sport, dport) = (u16::from_be_bytes([i, j]), u16::from_be_bytes([k, l]));
    format!("{a}.{b}.{c}.{d} {sport} {e}.{f}.{g}.{h} {dport}")
}

/// The flow that `handler`, which looks flows up, has for the one in `data`.
pub(crate) fn mapped(
    caller: &mut dyn Caller,
    element: &str,
    handler: &str,
    data: &mut [u8],
) -> Result<(), &'static str> {
    let flow: &mut [u8; 12] = data.first_chunk_mut().ok_or(INVALID)?;
    let found = caller.read("", &format!("{element}.{handler}"), &text(flow)).map_err(|_| INVALID)?;
    let words: Vec<&str> = found.split_whitespace().collect();
    let [src, sport, dst, dport] = words[..] else { return Err(AGAIN) };
    let address = |text: &str| text.parse().map(|a: std::net::Ipv4Addr| a.octets()).map_err(|_| INVALID);
    let port = |text: &str| text.parse().map(u16::to_be_bytes).map_err(|_| INVALID);
    let ([a, b, c, d], [e, f, g, h]) = (address(src)?, address(dst)?);
    let ([i, j], [k, l]) = (port(sport)?, port(dport)?);
    *flow = [a, b, c, d, e, f, g, h, i, j, k, l];
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `llrpc.h` of Click puts them together.
    #[test]
    fn numbers_say_what_the_data_is() {
        const OUT: u32 = 1 << 30;
        const IN: u32 = 1 << 31;
        const SAFE: u32 = 1 << 15;
        const FLAT: u32 = 1 << 14;
        let number = |flags: u32, number: u32, size: u32| flags | size << 16 | number;
        assert_eq!(GET_RATE, number(IN | OUT | SAFE | FLAT, 1, 4));
        assert_eq!(GET_COUNT, number(IN | OUT | SAFE | FLAT, 3, 4));
        assert_eq!(GET_SWITCH, number(OUT | SAFE | FLAT, 5, 4));
        assert_eq!(SET_SWITCH, number(IN | FLAT, 6, 4));
        for (of, [new, old]) in [(8, MAP_TCP), (9, MAP_UDP)] {
            assert_eq!(new, number(IN | OUT | FLAT, of, 12));
            assert_eq!(old, number(IN | OUT | SAFE | FLAT, of, 12));
        }
    }
}
