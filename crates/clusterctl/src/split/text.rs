//! Words, times and addresses in the syntax of configurations.

use lang::args::EtherAddr;
use std::time::Duration;

/// A word of a configuration string, quoted if it has to be.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/=".contains(c);
    if text.chars().all(plain) && !text.is_empty() && !text.contains("//") {
        text.to_owned()
    } else {
        lang::quote(text)
    }
}

/// A time in the syntax of element arguments.
pub(super) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

/// Click's way to write an address.
pub(super) fn ether(mac: EtherAddr) -> String {
    mac.to_string().replace('-', ":").to_lowercase()
}

/// A placeholder for the device of a port until each node's own is known. The letters after the number
/// prevent that 1 is found in 10.
pub(super) fn stand_in(port: usize) -> String {
    format!("CLUSTER_PORT_{port}_DEVICE")
}
