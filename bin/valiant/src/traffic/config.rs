//! The configurations of `valiant gen` and `valiant sink`, in a form that a user could write by hand.

use super::args::{GenArgs, Limits};
use super::paths::{Paths, is_part};
use lang::quote;
use std::fmt::Write;

/// How many sources and sinks a configuration has; they are called `genN`, `toN`, `fromN`, `sinkN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The number of the first one of each.
    pub(crate) first: usize,
    pub(crate) sources: usize,
    pub(crate) sinks: usize,
}

/// The configuration of a generator.
pub(crate) fn generator(args: &GenArgs, paths: &Paths) -> (String, Shape) {
    let mut text = String::new();
    let outputs = (!paths.outputs.is_empty()).then(|| quote(&paths.outputs.join("; ")));
    for (i, sender) in paths.senders.iter().enumerate() {
        let (port, part) = (&sender.port, paths.part(i));
        let all = args.set_up.unwrap_or(args.rate);
        let rate = if is_part(part) { all.part(part) } else { all };
        let mut words = vec![rate.to_string()];
        let mut word = |name: &str, value: Option<String>| {
            words.extend(value.map(|v| format!("{name} {v}")));
        };
        let (src, dst) = if sender.reverse && outputs.is_none() {
            let default = measure::flows::default_addresses(args.ipv6);
            (args.dst.as_deref().or(Some(default.1)), args.src.as_deref().or(Some(default.0)))
        } else {
            (args.src.as_deref(), args.dst.as_deref())
        };
        match &args.pcap {
            Some(path) => word("PCAP", Some(quote(&path.display().to_string()))),
            None => {
                let own = || dpdk::interface(port).ok().map(|i| measure::EtherAddr(i.mac));
                let src_mac = args.src_mac.clone().or_else(|| own().map(|m| format!("{m:#}")));
                word("SIZE", args.size.as_ref().map(|s| quote(&s.to_string())));
                word("FLOWS", args.flows.or(args.connections).map(|n| n.to_string()));
                word("UNIQUE", args.connections.map(|_| "true".to_owned()));
                word("SRC", src.map(quote));
                word("DST", dst.map(quote));
                word("OUTPUTS", outputs.clone());
                // Without any part nothing is sent.
                word("PARTS", paths.parts(i).filter(|_| part > 0.0).map(|parts| quote(&parts)));
                word("SPORT", args.sport.as_deref().map(quote));
                word("DPORT", args.dport.as_deref().map(quote));
                word("RANDOM", args.random.then(|| "true".to_owned()));
                word("SKEW", args.skew.map(|skew| skew.to_string()));
                word("IPV6", args.ipv6.then(|| "true".to_owned()));
                word("SRCETH", src_mac);
                word("DSTETH", Some(sender.dst_mac.clone()));
                word("TTL", (args.ttl != 64).then(|| args.ttl.to_string()));
                word("STREAM", (i > 0).then(|| i.to_string()));
                word("SEED", (args.seed != 1).then(|| args.seed.to_string()));
            }
        }
        let connections = args.connections.map(u64::from);
        let count = args.count.or(connections).map(|n| paths.share(n, i)).or((part <= 0.0).then_some(0));
        word("LIMIT", count.map(|n| n.to_string()));
        word(
            "DURATION",
            args.time.filter(|_| args.set_up.is_none()).map(|t| format!("{}s", t.as_secs_f64())),
        );
        let catch_up = args.catch_up.as_secs_f64();
        word("CATCHUP", (catch_up != 0.01).then(|| format!("{catch_up}s")));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "gen{i} :: MeasureSource({}) -> to{i} :: ToDPDKDevice({});",
            words.join(", "),
            quote(port)
        );
    }
    if let Some(n) = args.connections {
        text += &both_ends(args, paths, n);
        return (text, Shape { first: 0, sources: paths.senders.len(), sinks: paths.receivers.len() });
    }
    // By default, a sink in the same process as the sources remembers all flows of these.
    let made = args.flows.map(|n| n.saturating_mul(paths.senders.len() as u32));
    let most = made.filter(|n| *n as usize > measure::sink::DEFAULT_FLOWS);
    let outputs = paths.outputs.len();
    let more = |i: usize| match paths.first_side {
        // All are for one output: whose frames come is what counts.
        Some(_) => Some("OUTPUTS 1".to_owned()),
        None => (outputs > 0).then(|| format!("OUTPUTS {outputs}, OUTPUT {i}")),
    };
    text += &listeners(&paths.receivers, &args.limits, args.limits.track_flows.or(most), more);
    (text, Shape { first: 0, sources: paths.senders.len(), sinks: paths.receivers.len() })
}

/// The configuration of a sink.
pub(crate) fn receivers(ports: &[String], limits: &Limits) -> String {
    listeners(ports, limits, limits.track_flows, |_| None)
}

/// For connections: what the Responder learns and sends back, and what the Initiator gets.
fn both_ends(args: &GenArgs, paths: &Paths, connections: u32) -> String {
    let to: Vec<String> = paths.senders.iter().map(|sender| sender.port.clone()).collect();
    let sink = &paths.receivers;
    let limits = Limits { track_flows: Some(connections), ..args.limits.clone() };
    let learn = |stream: u32| move |_| Some(format!("LEARN {connections}, STREAM {stream}"));
    let responder = listeners(sink, &limits, limits.track_flows, learn(0));
    let initiator = listeners(&to, &limits, limits.track_flows, learn(1));
    let initiator = initiator.replace("from0 ::", "from1 ::").replace("sink0 ::", "sink1 ::");
    let mut words = vec![args.answer.or(args.set_up).unwrap_or(args.rate).to_string()];
    words.extend(args.size.as_ref().map(|sizes| format!("SIZE {}", quote(&sizes.to_string()))));
    words.extend((args.ttl != 64).then(|| format!("TTL {}", args.ttl)));
    words.extend(["STREAM 1", "LIMIT 0", "ACTIVE false"].map(str::to_owned));
    let port = sink.first().map_or("", String::as_str);
    let answers =
        format!("gen1 :: MeasureSource({}) -> to1 :: ToDPDKDevice({});\n", words.join(", "), quote(port));
    responder + &answers + &initiator
}

fn listeners(
    ports: &[String],
    limits: &Limits,
    track_flows: Option<u32>,
    more: impl Fn(usize) -> Option<String>,
) -> String {
    ports.iter().enumerate().fold(String::new(), |text, (i, port)| {
        let words = [
            limits.no_check.then(|| "CHECK false".to_owned()),
            (!limits.sleep).then(|| "AWAKE true".to_owned()),
            track_flows.map(|n| format!("FLOWS {n}")),
            more(i),
        ];
        let arguments = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
        text + &format!(
            "from{i} :: FromDPDKDevice({}, PROMISC true) -> sink{i} :: MeasureSink({arguments});\n",
            quote(port)
        )
    })
}
