//! Devices: DPDK ports and Linux interfaces.

mod batches;
mod exchange;
mod fromdevice;
mod fromdpdkdevice;
mod fromhost;
mod host;
mod kernel;
mod kerneltap;
mod kerneltun;
mod pause;
pub(crate) mod rss;
mod rx;
mod spread;
mod todevice;
mod todpdkdevice;
mod tohost;
mod tx;

use crate::prelude::*;
use dpdk::Method;
use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<fromdevice::FromDevice>());
    r.add(vector::<fromdpdkdevice::FromDpdkDevice>());
    r.add(vector::<fromhost::FromHost>());
    r.add(vector::<kerneltap::KernelTap>());
    r.add(vector::<kerneltun::KernelTun>());
    r.add(vector::<todevice::ToDevice>());
    r.add(vector::<tohost::ToHost>());
    r.add(vector::<todpdkdevice::ToDpdkDevice>());
}

/// Reads the `METHOD` argument; Click's own methods mean that we choose.
fn method(args: &mut Args<'_>) -> Result<Method, ArgError> {
    match args.k::<String>("METHOD")?.unwrap_or_default().to_ascii_uppercase().as_str() {
        "AF_XDP" | "XDP" => Ok(Method::AfXdp),
        "AF_PACKET" => Ok(Method::AfPacket),
        "" | "AUTO" | "LINUX" | "PCAP" | "NETMAP" | "DPDK" => Ok(Method::Auto),
        other => Err(ArgError::new(format!("bad METHOD '{other}'"))),
    }
}

/// Reads the `RSS` argument.
fn rss(args: &mut Args<'_>) -> Result<rss::Rss, ArgError> {
    let word = args.k::<String>("RSS")?.unwrap_or_default();
    let bad = || ArgError::new(format!("bad RSS '{word}', expected AUTO, SYMMETRIC or NONE"));
    rss::Rss::from_word(&word).ok_or_else(bad)
}

/// Reads the `FAIR` argument.
fn fair(args: &mut Args<'_>) -> Result<tx::Fair, ArgError> {
    match args.k::<String>("FAIR")?.unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "PACKETS" => Ok(tx::Fair::Packets),
        "BYTES" => Ok(tx::Fair::Bytes),
        other => Err(ArgError::new(format!("bad FAIR '{other}', expected PACKETS or BYTES"))),
    }
}

/// How long packets wait for a burst to fill, unless the configuration says it.
const FLUSH_AFTER_NS: u64 = 20_000;

/// Reads the `TIMEOUT` argument, in nanoseconds. A number without a unit is milliseconds, as FastClick has
/// it.
fn timeout(args: &mut Args<'_>) -> Result<u64, ArgError> {
    let Some(text) = args.k::<String>("TIMEOUT")? else { return Ok(FLUSH_AFTER_NS) };
    let ms = text.bytes().all(|c| c.is_ascii_digit()).then(|| format!("{text}ms"));
    let time = lang::args::parse::<std::time::Duration>(ms.as_deref().unwrap_or(&text));
    let bad =
        |_| ArgError::new(format!("bad TIMEOUT '{text}', expected a time (20us), or 0 to send at once"));
    time.map(|time| time.as_nanos().try_into().unwrap_or(u64::MAX)).map_err(bad)
}

/// A port in words, for the `port` handlers.
fn describe(port: &std::sync::Arc<dpdk::Port>) -> String {
    let mut text = format!(
        "{}\ndriver {}\nrx_queues {}\ntx_queues {}\nmac {}\nmtu {}\n",
        port.name(),
        port.driver(),
        port.rx_queues(),
        port.tx_queues(),
        lang::args::EtherAddr(port.mac()),
        port.mtu()
    );
    for note in std::iter::once(port.choice())
        .chain(port.notes().iter().map(String::as_str))
        .filter(|n| !n.is_empty())
    {
        text += &format!("note {note}\n");
    }
    text
}

/// The driver's own counters, one to a line.
fn xstats(port: &std::sync::Arc<dpdk::Port>) -> String {
    port.xstats().iter().fold(String::new(), |t, (name, n)| t + &format!("{name}: {n}\n"))
}
