//! The arguments that several device elements have.

use super::line::Fair;
use super::portrules::{Engine, Held};
use super::prefixsteer::Steer;
use super::rss::Rss;
use crate::flowrules::{Rules, from_file};
use crate::prelude::*;
use dpdk::{Method, PortSpec};
use lang::args::{ElementName, Filename};
use rebalance::Limits;
use std::sync::Arc;

/// The port that an argument names.
pub(in crate::devices) fn port(text: &str) -> Result<PortSpec, ArgError> {
    // Names of netmap's ports and switches.
    if let Some(name) = text.strip_prefix("netmap:") {
        return Err(ArgError::new(format!(
            "'{text}': netmap is not supported; '{name}' is opened without it"
        )));
    }
    if text.starts_with("vale") && text.contains(':') {
        return Err(ArgError::new(format!("'{text}': netmap is not supported, nor its switches")));
    }
    PortSpec::parse(text).map_err(|e| ArgError::new(e.to_string()))
}

/// Reads the `BURST` argument: the largest batch.
pub(in crate::devices) fn burst(args: &mut Args<'_>, cx: &ConfigCx<'_>) -> Result<usize, ArgError> {
    match args.k::<u16>("BURST")? {
        Some(0) => Err(args.error("BURST out of range")),
        burst => Ok(burst.map_or(cx.batch_size(), usize::from)),
    }
}

/// Reads the `NETNS` argument: a network namespace, none for the router's own.
pub(in crate::devices) fn namespace(args: &mut Args<'_>) -> Result<Option<String>, ArgError> {
    let Some(name) = args.k::<String>("NETNS")?.filter(|name| !name.is_empty()) else { return Ok(None) };
    netlink::Namespace::named(&name).map_err(|e| args.error(format!("NETNS: {e}")))?;
    Ok(Some(name))
}

/// Reads the `IQUEUE` argument: how many packets may wait for the device.
pub(in crate::devices) fn waiting_limit(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
) -> Result<usize, ArgError> {
    let limit = args.k::<u32>("IQUEUE")?.map(|limit| limit as usize);
    limit.into_iter().for_each(|limit| cx.holds(limit));
    Ok(limit.unwrap_or(1024))
}

/// Reads the `METHOD` argument; Click's own methods mean `AUTO`.
pub(in crate::devices) fn method(args: &mut Args<'_>) -> Result<Method, ArgError> {
    method_of(&args.k::<String>("METHOD")?.unwrap_or_default())
}

fn method_of(word: &str) -> Result<Method, ArgError> {
    match word.to_ascii_uppercase().as_str() {
        "AF_XDP" | "XDP" => Ok(Method::AfXdp),
        "AF_PACKET" => Ok(Method::AfPacket),
        "" | "AUTO" | "LINUX" | "PCAP" | "NETMAP" | "DPDK" => Ok(Method::Auto),
        other => Err(ArgError::new(format!("bad METHOD '{other}'"))),
    }
}

/// Reads the `METHOD` argument, or `CAPTURE`, and `SNIFFER` of an element that receives: how it opens an
/// interface, and whether the kernel gets the packets too. As in Click it does by default, under Click's name
/// and with Click's methods.
pub(in crate::devices) fn capture(
    args: &mut Args<'_>,
    cx: &ConfigCx<'_>,
) -> Result<(Method, Option<bool>), ArgError> {
    let word = args.k::<String>("METHOD")?.or(args.k("CAPTURE")?).unwrap_or_default();
    let as_click = match word.to_ascii_uppercase().as_str() {
        "LINUX" | "PCAP" => true,
        "" => cx.as_click(),
        _ => false,
    };
    let sniffer = args.k::<bool>("SNIFFER")?.or(as_click.then_some(true));
    Ok(match method_of(&word)? {
        Method::Auto if sniffer == Some(true) => (Method::AfPacket, sniffer),
        method => (method, sniffer),
    })
}

/// Reads keywords of FastClick that say how its threads find processors and buffers, and what it prints: none
/// has an effect here.
pub(in crate::devices) fn without_effect(args: &mut Args<'_>, names: &[&str]) -> Result<(), ArgError> {
    names.iter().try_for_each(|name| args.k::<String>(name).map(drop))
}

/// Reads keywords of FastClick that ask the device for something; `refused` has them, and why they cannot be
/// true.
pub(in crate::devices) fn refused(args: &mut Args<'_>, refused: &[(&str, &str)]) -> Result<(), ArgError> {
    for (name, why) in refused {
        if args.k_or(name, false)? {
            return Err(args.error(format!("{name}: {why}")));
        }
    }
    Ok(())
}

/// Reads FastClick's `MODE`: which queue a packet comes to.
pub(in crate::devices) fn mode(args: &mut Args<'_>) -> Result<(), ArgError> {
    let mode = args.k_or("MODE", String::new())?;
    match mode.to_ascii_lowercase().as_str() {
        "" | "none" | "rss" => Ok(()),
        _ => {
            Err(args
                .error(format!("MODE {mode}: packets come to queues by the hash of their flow (rss) only")))
        }
    }
}

/// Reads FastClick's `SCALE`, which has no effect: each worker has its queue in any case.
pub(in crate::devices) fn scale(args: &mut Args<'_>) -> Result<(), ArgError> {
    let scale = args.k_or("SCALE", String::new())?;
    match scale.to_ascii_lowercase().as_str() {
        "" | "parallel" | "share" => Ok(()),
        _ => Err(args.error(format!("Unknown scaling mode {scale} !"))),
    }
}

/// Reads FastClick's `PAUSE`: the device's pause frames, which stay as they are.
pub(in crate::devices) fn pause_frames(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<(), ArgError> {
    let pause = args.k_or("PAUSE", String::new())?;
    match pause.to_ascii_lowercase().as_str() {
        "" | "unset" => Ok(()),
        "none" | "off" | "rx" | "tx" | "full" => {
            cx.warn(format!("PAUSE {pause} has no effect: the device's pause frames stay as they are set"));
            Ok(())
        }
        _ => Err(args.error(format!("bad PAUSE '{pause}', expected unset, none, rx, tx or full"))),
    }
}

/// Reads the `RSS` argument.
pub(in crate::devices) fn rss(args: &mut Args<'_>) -> Result<Rss, ArgError> {
    let word = args.k::<String>("RSS")?.unwrap_or_default();
    let bad = || ArgError::new(format!("bad RSS '{word}', expected AUTO, SYMMETRIC or NONE"));
    Rss::from_word(&word).ok_or_else(bad)
}

/// Reads the `STEER` argument: by the routes of which table packets are steered.
pub(in crate::devices) fn steer(
    args: &mut Args<'_>,
    rss: Rss,
    cx: &ConfigCx<'_>,
) -> Result<Option<Steer>, ArgError> {
    let Some(ElementName(table)) = args.k::<ElementName>("STEER")? else { return Ok(None) };
    if rss == Rss::None {
        return Err(args.error("STEER spreads packets over workers, RSS NONE does not"));
    }
    Steer::new(&table, cx).map(Some).map_err(|e| args.error(format!("STEER: {e}")))
}

/// Reads the `REBALANCE` argument: by default it is on, except under the name `click`.
pub(in crate::devices) fn rebalance(args: &mut Args<'_>, cx: &ConfigCx<'_>) -> Result<bool, ArgError> {
    Ok(args.k("REBALANCE")?.unwrap_or(!cx.as_click()))
}

/// Reads the arguments of parking: whether workers are parked at low load, and when.
pub(in crate::devices) fn parking(args: &mut Args<'_>) -> Result<(bool, Limits), ArgError> {
    let on = args.k("PARK")?.unwrap_or(false);
    let mut limits = Limits::default();
    limits.below = share(args, "PARK_BELOW", limits.below)?;
    limits.above = share(args, "WAKE_ABOVE", limits.above)?;
    limits.after_ns = nanoseconds(args, "PARK_AFTER", "0 to park at once")?.unwrap_or(limits.after_ns);
    limits.wake_after_ns =
        nanoseconds(args, "WAKE_AFTER", "0 to wake at once")?.unwrap_or(limits.wake_after_ns);
    if limits.below >= limits.above {
        return Err(ArgError::new("PARK_BELOW must be less than WAKE_ABOVE"));
    }
    Ok((on, limits))
}

/// A share of the time in percent.
fn share(args: &mut Args<'_>, name: &str, or: f64) -> Result<f64, ArgError> {
    let percent = args.k::<u32>(name)?;
    match percent {
        None => Ok(or),
        Some(percent @ 1..=100) => Ok(f64::from(percent) / 100.0),
        Some(percent) => Err(ArgError::new(format!("bad {name} '{percent}', expected percent, 1 to 100"))),
    }
}

/// Reads the `RULES` and `RULES_ENGINE` arguments: rules for the workers of a port.
pub(in crate::devices) fn rules(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Arc<Held>, ArgError> {
    let file = args.k::<Filename>("RULES")?;
    let word = args.k::<String>("RULES_ENGINE")?.unwrap_or_default();
    let bad = || ArgError::new(format!("bad RULES_ENGINE '{word}', expected AUTO or SOFTWARE"));
    let engine = Engine::from_word(&word).ok_or_else(bad)?;
    file.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
    let workers = cx.workers();
    let held = cx.shared(|| Held::new(engine));
    if let Some(Filename(path)) = file.filter(|_| held.get().is_none()) {
        let said = |workers| format!("packets go to {workers} workers, counted from 0");
        let rules = Rules::new(workers, said).map_err(|e| args.error(e))?;
        let read = from_file(&rules, &path, args, cx)?;
        rules.change(&[], read).map_err(|e| args.error(format!("{path}: {e}")))?;
        held.fill(rules);
    }
    Ok(held)
}

/// Reads the `FAIR` argument.
pub(in crate::devices) fn fair(args: &mut Args<'_>) -> Result<Fair, ArgError> {
    match args.k::<String>("FAIR")?.unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "PACKETS" => Ok(Fair::Packets),
        "BYTES" => Ok(Fair::Bytes),
        other => Err(ArgError::new(format!("bad FAIR '{other}', expected PACKETS or BYTES"))),
    }
}

/// The default time that packets wait for a batch to fill.
const FLUSH_AFTER_NS: u64 = 20_000;

/// Reads the `TIMEOUT` argument, in nanoseconds. A number without a unit is milliseconds, as in FastClick.
pub(in crate::devices) fn timeout(args: &mut Args<'_>) -> Result<u64, ArgError> {
    Ok(nanoseconds(args, "TIMEOUT", "0 to send at once")?.unwrap_or(FLUSH_AFTER_NS))
}

/// Reads the `POLL_INTERVAL` argument in the same way.
pub(in crate::devices) fn poll_interval(args: &mut Args<'_>) -> Result<u64, ArgError> {
    Ok(nanoseconds(args, "POLL_INTERVAL", "0 to poll all the time")?.unwrap_or(0))
}

fn nanoseconds(args: &mut Args<'_>, name: &str, or: &str) -> Result<Option<u64>, ArgError> {
    let Some(text) = args.k::<String>(name)? else { return Ok(None) };
    let ms = text.bytes().all(|c| c.is_ascii_digit()).then(|| format!("{text}ms"));
    let time = lang::args::parse::<std::time::Duration>(ms.as_deref().unwrap_or(&text));
    let bad = |_| ArgError::new(format!("bad {name} '{text}', expected a time (20us), or {or}"));
    time.map(|time| Some(time.as_nanos().try_into().unwrap_or(u64::MAX))).map_err(bad)
}
