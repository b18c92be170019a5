//! The configurations of `valiant gen` and `valiant sink`, in a form that a user could write by hand.

use super::args::{GenArgs, Limits};
use lang::quote;
use measure::rate::Rate;
use std::fmt::Write;

/// How many sources and sinks a configuration has; they are called `genN`, `toN`, `fromN`, `sinkN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) sources: usize,
    pub(crate) sinks: usize,
}

/// The ports that are sent to.
pub(crate) fn targets(args: &GenArgs) -> impl Iterator<Item = &String> {
    args.ports.iter().chain(&args.to)
}

/// The configuration of a generator.
pub(crate) fn generator(args: &GenArgs) -> (String, Shape) {
    let ports: Vec<&String> = targets(args).collect();
    let mut text = String::new();
    for (i, port) in ports.iter().enumerate() {
        let mut words = vec![args.rate.to_string()];
        let mut word = |name: &str, value: Option<String>| {
            words.extend(value.map(|v| format!("{name} {v}")));
        };
        match &args.pcap {
            Some(path) => word("PCAP", Some(quote(&path.display().to_string()))),
            None => {
                let own = || dpdk::interface(port).ok().map(|i| measure::EtherAddr(i.mac));
                let src_mac = args.src_mac.clone().or_else(|| own().map(|m| format!("{m:#}")));
                word("SIZE", args.size.as_ref().map(|s| quote(&s.to_string())));
                word("FLOWS", args.flows.or(args.connections).map(|n| n.to_string()));
                word("UNIQUE", args.connections.map(|_| "true".to_owned()));
                word("SRC", args.src.as_deref().map(quote));
                word("DST", args.dst.as_deref().map(quote));
                word("SPORT", args.sport.as_deref().map(quote));
                word("DPORT", args.dport.as_deref().map(quote));
                word("RANDOM", args.random.then(|| "true".to_owned()));
                word("SKEW", args.skew.map(|skew| skew.to_string()));
                word("IPV6", args.ipv6.then(|| "true".to_owned()));
                word("SRCETH", src_mac);
                word("DSTETH", Some(args.dst_mac.clone()));
                word("TTL", (args.ttl != 64).then(|| args.ttl.to_string()));
                word("STREAM", (i > 0).then(|| i.to_string()));
                word("SEED", (args.seed != 1).then(|| args.seed.to_string()));
            }
        }
        let count = args
            .count
            .or(args.connections.map(u64::from))
            .map(|n| Rate::Packets(n).share(i, ports.len()).per_s().unwrap_or(0));
        word("LIMIT", count.map(|n| n.to_string()));
        word("DURATION", args.time.map(|t| format!("{}s", t.as_secs_f64())));
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
        text += &both_ends(args, n);
        return (text, Shape { sources: ports.len(), sinks: args.sink.len() });
    }
    // By default, a sink in the same process as the sources remembers all flows of these.
    let made = args.flows.map(|n| n.saturating_mul(ports.len() as u32));
    let more = made.filter(|n| *n as usize > measure::sink::DEFAULT_FLOWS);
    text += &listeners(&args.sink, &args.limits, args.limits.track_flows.or(more), None);
    (text, Shape { sources: ports.len(), sinks: args.sink.len() })
}

/// The configuration of a sink.
pub(crate) fn receivers(ports: &[String], limits: &Limits) -> String {
    listeners(ports, limits, limits.track_flows, None)
}

/// For connections: what the Responder learns and sends back, and what the Initiator gets.
fn both_ends(args: &GenArgs, connections: u32) -> String {
    let (to, sink): (Vec<String>, _) = (targets(args).cloned().collect(), &args.sink);
    let limits = Limits { track_flows: Some(connections), ..args.limits.clone() };
    let learn = |stream: u32| Some(format!("LEARN {connections}, STREAM {stream}"));
    let responder = listeners(sink, &limits, limits.track_flows, learn(0));
    let initiator = listeners(&to, &limits, limits.track_flows, learn(1));
    let initiator = initiator.replace("from0 ::", "from1 ::").replace("sink0 ::", "sink1 ::");
    let mut words = vec![args.answer.unwrap_or(args.rate).to_string()];
    words.extend(args.size.as_ref().map(|sizes| format!("SIZE {}", quote(&sizes.to_string()))));
    words.extend((args.ttl != 64).then(|| format!("TTL {}", args.ttl)));
    words.extend(["STREAM 1", "LIMIT 0", "ACTIVE false"].map(str::to_owned));
    let port = sink.first().map_or("", String::as_str);
    let answers =
        format!("gen1 :: MeasureSource({}) -> to1 :: ToDPDKDevice({});\n", words.join(", "), quote(port));
    responder + &answers + &initiator
}

fn listeners(ports: &[String], limits: &Limits, track_flows: Option<u32>, more: Option<String>) -> String {
    ports.iter().enumerate().fold(String::new(), |text, (i, port)| {
        let words = [
            limits.no_check.then(|| "CHECK false".to_owned()),
            (!limits.sleep).then(|| "AWAKE true".to_owned()),
            track_flows.map(|n| format!("FLOWS {n}")),
            more.clone(),
        ];
        let arguments = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
        text + &format!(
            "from{i} :: FromDPDKDevice({}, PROMISC true) -> sink{i} :: MeasureSink({arguments});\n",
            quote(port)
        )
    })
}
