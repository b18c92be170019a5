//! Asking running nodes: how they are, what they send to each other, which routes they have.

use crate::args::{RouteArgs, RouteCommand, ShowArgs};
use crate::etcd::{self, Member};
use crate::file::{Cluster, Node};
use crate::outcome::{Failure, heard, say};
use crate::process::{FORBIDDEN, local};
use cluster::work::Work;
use launch::Client;
use launch::StopSignals;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a node may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// How often a signal is looked for while nothing is to be done.
const LOOK: Duration = Duration::from_millis(20);
/// How long a route may take to be on every node that answers.
const SPREAD: Duration = Duration::from_secs(3);

/// What a node said.
#[derive(Clone)]
struct Said {
    at: Instant,
    status: Value,
    /// Packets dropped, by element and reason.
    drops: Vec<(u64, String, String)>,
    /// Workers that hang, a line each: worker, seconds, element.
    stuck: Vec<String>,
}

impl Said {
    fn dropped(&self) -> u64 {
        self.drops.iter().map(|(n, ..)| n).sum()
    }
}

/// Why a node is not heard.
fn unheard(socket: &str, e: &std::io::Error) -> String {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied, TimedOut, WouldBlock};
    match e.kind() {
        NotFound | ConnectionRefused => format!("it does not run: nobody serves {socket}"),
        WouldBlock | TimedOut => format!("{socket} does not answer"),
        PermissionDenied => format!("{socket}: {FORBIDDEN}"),
        _ => format!("{socket}: {}", launch::reason(e)),
    }
}

/// Asks a node.
fn ask(node: &Node) -> Result<Said, String> {
    let socket = node.socket.display().to_string();
    let mut client = Client::connect_within(&socket, ANSWER).map_err(|e| unheard(&socket, &e))?;
    let text = client.read("cluster.status", "").map_err(|e| format!("{socket}: {e}"))?;
    let drops = client.read("drops", "").map_err(|e| format!("{socket}: {e}"))?;
    let stuck = client.read("stuck", "").unwrap_or_default().lines().map(str::to_owned).collect();
    let status = serde_json::from_str(&text).map_err(|e| format!("{socket}: cluster.status: {e}"))?;
    let drops = drops.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let n = fields.next()?.parse().ok()?;
        Some((n, fields.next()?.to_owned(), fields.next().unwrap_or_default().to_owned()))
    });
    Ok(Said { at: Instant::now(), status, drops: drops.collect(), stuck })
}

/// What a node said twice, or why it does not say anything.
type Answer = Result<(Said, Said), String>;

/// The nodes of the cluster, and what they say.
struct View<'a> {
    cluster: &'a Cluster,
    /// What etcd says, if the cluster has one and it is asked.
    etcd: Option<Result<(i64, Vec<Member>), String>>,
    nodes: Vec<(&'a Node, Answer)>,
}

/// Asks all nodes at once.
fn ask_all(cluster: &Cluster) -> Vec<Result<Said, String>> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = cluster
            .present()
            .map(|node| {
                scope.spawn(move || {
                    ask(node).map_err(|problem| match &node.host {
                        Some(host) if !local(node) => format!("it is on {host}: ask there"),
                        _ => problem,
                    })
                })
            })
            .collect();
        asked
            .into_iter()
            .map(|a| a.join().unwrap_or_else(|_| Err("it could not be asked".to_owned())))
            .collect()
    })
}

/// Waits; returns false if a signal came.
fn wait(time: Duration, stop: &StopSignals) -> bool {
    let until = Instant::now() + time;
    while !stop.wanted() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}

/// Asks twice and shows the difference, once or until a signal comes.
fn observe(
    args: &ShowArgs,
    with_etcd: bool,
    text: fn(&View<'_>) -> String,
    as_json: fn(&View<'_>) -> Value,
) -> Result<ExitCode, Failure> {
    let cluster = Cluster::load(&args.file)?;
    let stop = StopSignals::watch();
    let mut before = ask_all(&cluster);
    let clears = args.watch && !args.json && std::io::stdout().is_terminal();
    loop {
        if !wait(args.interval, &stop) {
            return Ok(ExitCode::SUCCESS);
        }
        let now = ask_all(&cluster);
        let last = std::mem::replace(&mut before, now.clone());
        let nodes = cluster.present().zip(last.into_iter().zip(now)).map(|(node, (before, now))| {
            // A node that has just been started has nothing to compare with.
            (
                node,
                now.and_then(|now| {
                    before.map_err(|_| "it has just been started".to_owned()).map(|b| (b, now))
                }),
            )
        });
        let view = View {
            cluster: &cluster,
            etcd: with_etcd.then(|| etcd::members(&cluster)).flatten(),
            nodes: nodes.collect(),
        };
        let all = view.nodes.iter().all(|(_, answer)| answer.is_ok());
        if args.json {
            say(&format!("{}\n", as_json(&view)));
        } else {
            // Home, and clear what is below.
            say(if clears { "\x1b[H\x1b[2J" } else { "" });
            say(&format!("{}{}", text(&view), if args.watch && !clears { "\n" } else { "" }));
        }
        if !args.watch {
            return Ok(heard(all));
        }
    }
}

/// A number in JSON; 0 if it is none.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// What becomes of a packet that may belong to a flowlet, and in words.
const FLOWLETS: [(&str, &str); 5] = [
    ("started", "began one"),
    ("kept", "kept its way"),
    ("moved", "moved it"),
    ("returned", "took it back to the straight way"),
    ("spilled", "spilled"),
];

fn flowlets_json(rates: [f64; FLOWLETS.len()]) -> Value {
    FLOWLETS.iter().zip(rates).map(|((what, _), rate)| (*what, rate)).collect()
}

/// What a node did between two answers.
struct Deed<'a> {
    before: &'a Said,
    now: &'a Said,
    seconds: f64,
}

impl<'a> Deed<'a> {
    fn new((before, now): &'a (Said, Said)) -> Self {
        Self { before, now, seconds: (now.at - before.at).as_secs_f64().max(1e-6) }
    }
    /// How much a counter has grown; a node that has been started again counts from zero.
    fn grown(&self, counter: impl Fn(&Value) -> &Value) -> u64 {
        let [before, now] = [self.before, self.now].map(|said| number(counter(&said.status)));
        if now >= before { now - before } else { now }
    }
    /// How much a counter grows in a second.
    fn rate(&self, counter: impl Fn(&Value) -> &Value) -> f64 {
        self.grown(counter) as f64 / self.seconds
    }
    /// Packets a second, by what became of them and their flowlets.
    fn flowlets(&self) -> [f64; FLOWLETS.len()] {
        FLOWLETS.map(|(what, _)| self.rate(|status| &status["flowlets"][what]))
    }
    /// Packets or bytes a second that the node took in, sent out, or carried for others.
    fn handled(&self, what: &str, unit: &str) -> f64 {
        self.rate(|status| &status["work"][what][unit])
    }
    fn drops(&self) -> f64 {
        let (before, now) = (self.before.dropped(), self.now.dropped());
        now.saturating_sub(before) as f64 / self.seconds
    }
    /// Bytes over the interval.
    fn work(&self) -> Work {
        let bytes = |what: &str| self.grown(|status| &status["work"][what]["bytes"]);
        Work { input: bytes("input"), transit: bytes("transit"), output: bytes("output") }
    }
    /// What it worked, relative to R.
    fn load(&self) -> f64 {
        let line = number(&self.now.status["rate_bps"]) as f64;
        8.0 * self.work().total() as f64 / self.seconds / line.max(1.0)
    }
    fn links(&self) -> impl Iterator<Item = Line<'_>> {
        self.now.status["links"].as_array().into_iter().flatten().map(|link| Line {
            peer: number(&link["peer"]),
            up: link["up"].as_bool().unwrap_or(false) && link["up_from"].as_bool().unwrap_or(false),
            words: link["words"].as_str().unwrap_or_default(),
        })
    }
}

/// A link, as one of its ends has it.
struct Line<'a> {
    peer: u64,
    up: bool,
    words: &'a str,
}

/// A number of few digits.
fn short(n: f64) -> String {
    measure::rate::short(n).trim_end().to_owned()
}

/// Whether a node has a link to another, by the file.
fn linked(view: &View<'_>, node: &Node, peer: u64) -> bool {
    node.links.iter().any(|l| u64::from(l.to) == peer)
        && view.cluster.present().any(|n| u64::from(n.id) == peer)
}

/// What all nodes did together.
#[derive(Default)]
struct Total {
    /// Packets a second: in, out, in transit.
    rates: [f64; 3],
    work: Work,
    flowlets: [f64; FLOWLETS.len()],
    drops_pps: f64,
    dropped: u64,
}

impl Total {
    fn add(&mut self, deed: &Deed<'_>) {
        for (sum, what) in self.rates.iter_mut().zip(["input", "output", "transit"]) {
            *sum += deed.handled(what, "packets");
        }
        self.work = [self.work, deed.work()].into_iter().sum();
        self.flowlets.iter_mut().zip(deed.flowlets()).for_each(|(sum, rate)| *sum += rate);
        self.drops_pps += deed.drops();
        self.dropped += deed.now.dropped();
    }
}

/// The c of cR; nothing is to be said of a node that carries for others only.
fn c_of(work: Work) -> Option<f64> {
    Some(work.effective_c()).filter(|c| *c > 0.0)
}

fn c_text(work: Work) -> String {
    c_of(work).map_or_else(|| "-".to_owned(), |c| format!("{c:.2}"))
}

fn status_text(view: &View<'_>) -> String {
    let answering = view.nodes.iter().filter(|(_, a)| a.is_ok()).count();
    let mut text = format!("{}: {} nodes, {answering} of them answer\n", view.cluster.name, view.nodes.len());
    let _ = writeln!(
        text,
        "{:>5} {:>7} {:>9} {:>9} {:>9} {:>6} {:>6} {:>9} {:>10}",
        "node", "links", "in/s", "out/s", "transit/s", "c", "work", "drops/s", "drops"
    );
    let mut notes = String::new();
    let mut digests: Vec<&str> = Vec::new();
    let mut total = Total::default();
    for (node, answer) in &view.nodes {
        let deed = match answer {
            Ok(pair) => Deed::new(pair),
            Err(problem) => {
                let _ = writeln!(text, "{:>5}  {problem}", node.id);
                continue;
            }
        };
        for line in &deed.now.stuck {
            let mut fields =
                line.splitn(3, '\t').map(str::to_owned).chain(std::iter::repeat_with(String::new));
            let mut field = || fields.next().unwrap_or_default();
            let (worker, seconds) = (field(), field());
            let _ =
                writeln!(notes, "node {}: worker {worker} is stuck in {} for {seconds} s", node.id, field());
        }
        let (mut up, mut all) = (0, 0);
        for link in deed.links().filter(|l| linked(view, node, l.peer)) {
            all += 1;
            up += usize::from(link.up);
            if !link.up || !link.words.is_empty() {
                let down = if link.up { "" } else { " is down" };
                let why = if link.words.is_empty() { String::new() } else { format!(": {}", link.words) };
                let _ = writeln!(notes, "link {} - {}{down}{why}", node.id, link.peer);
            }
        }
        total.add(&deed);
        let _ = writeln!(
            text,
            "{:>5} {:>7} {:>9} {:>9} {:>9} {:>6} {:>6.2} {:>9} {:>10}",
            node.id,
            format!("{up}/{all}"),
            short(deed.handled("input", "packets")),
            short(deed.handled("output", "packets")),
            short(deed.handled("transit", "packets")),
            c_text(deed.work()),
            deed.load(),
            short(deed.drops()),
            deed.now.dropped()
        );
        digests.push(deed.now.status["digest"].as_str().unwrap_or_default());
    }
    let _ = writeln!(
        text,
        "{:>5} {:>7} {:>9} {:>9} {:>9} {:>6} {:>6} {:>9} {:>10}",
        "all",
        "",
        short(total.rates[0]),
        short(total.rates[1]),
        short(total.rates[2]),
        c_text(total.work),
        "",
        short(total.drops_pps),
        total.dropped
    );
    if total.flowlets.iter().any(|rate| *rate > 0.0) {
        let parts: Vec<String> = (FLOWLETS.iter().zip(total.flowlets))
            .map(|((_, words), rate)| format!("{} {words}", short(rate)))
            .collect();
        let _ = writeln!(text, "flowlets, packets a second: {}", parts.join(", "));
    }
    if digests.windows(2).any(|pair| pair[0] != pair[1]) {
        notes += "the nodes do not run the same configuration: `valiant cluster apply` brings them to the file's\n";
    }
    text + &etcd_text(view) + &notes
}

/// What etcd says, in lines.
fn etcd_text(view: &View<'_>) -> String {
    let (revision, members) = match &view.etcd {
        None => return String::new(),
        Some(Err(problem)) => return format!("{problem}\n"),
        Some(Ok(there)) => there,
    };
    let mut text = match revision {
        0 => "etcd: no configuration".to_owned(),
        revision => format!("etcd: configuration of revision {revision}"),
    };
    let present: Vec<String> = members.iter().map(|m| format!("{} ({})", m.node, m.host)).collect();
    let missing: Vec<String> = (view.cluster.present().map(|node| node.id))
        .filter(|id| members.iter().all(|m| m.node != *id))
        .map(|id| id.to_string())
        .collect();
    for (what, list) in [("present", present), ("missing", missing)] {
        if !list.is_empty() {
            let _ = write!(text, "; {what}: {}", list.join(", "));
        }
    }
    text.push('\n');
    for member in members.iter().filter(|m| m.revision != *revision) {
        let has = match member.revision {
            0 => "the configuration of its file".to_owned(),
            revision => format!("revision {revision}"),
        };
        let _ = writeln!(text, "etcd: node {} on {} has {has}", member.node, member.host);
    }
    for pair in members.windows(2).filter(|pair| pair[0].node == pair[1].node) {
        let _ = writeln!(
            text,
            "etcd: two processes say that they are node {}, on {} and on {}; one that died is listed for some seconds",
            pair[0].node, pair[0].host, pair[1].host
        );
    }
    text
}

fn etcd_json(view: &View<'_>) -> Value {
    match &view.etcd {
        None => Value::Null,
        Some(Err(problem)) => json!({"problem": problem}),
        Some(Ok((revision, members))) => {
            let members: Vec<Value> = members
                .iter()
                .map(
                    |m| json!({"node": m.node, "host": m.host, "session": m.session, "revision": m.revision}),
                )
                .collect();
            json!({"revision": revision, "members": members})
        }
    }
}

fn status_json(view: &View<'_>) -> Value {
    let nodes: Vec<Value> = view
        .nodes
        .iter()
        .map(|(node, answer)| match answer {
            Err(problem) => json!({"node": node.id, "up": false, "problem": problem}),
            Ok(pair) => {
                let deed = Deed::new(pair);
                let links: Vec<Value> = deed
                    .links()
                    .filter(|l| linked(view, node, l.peer))
                    .map(|l| json!({"peer": l.peer, "up": l.up, "words": l.words}))
                    .collect();
                let drops: Vec<Value> = deed
                    .now
                    .drops
                    .iter()
                    .map(|(n, element, reason)| json!({"packets": n, "element": element, "reason": reason}))
                    .collect();
                json!({"node": node.id, "up": true, "links": links,
                    "in_pps": deed.handled("input", "packets"), "in_bps": 8.0 * deed.handled("input", "bytes"),
                    "out_pps": deed.handled("output", "packets"), "out_bps": 8.0 * deed.handled("output", "bytes"),
                    "transit_pps": deed.handled("transit", "packets"), "transit_bps": 8.0 * deed.handled("transit", "bytes"),
                    "c": c_of(deed.work()), "work": deed.load(), "flowlets_pps": flowlets_json(deed.flowlets()),
                    "drops_pps": deed.drops(), "dropped": deed.now.dropped(), "drops": drops, "stuck": deed.now.stuck, "status": deed.now.status})
            }
        })
        .collect();
    let mut total = Total::default();
    view.nodes.iter().flat_map(|(_, answer)| answer).for_each(|pair| total.add(&Deed::new(pair)));
    let all = json!({"in_pps": total.rates[0], "out_pps": total.rates[1], "transit_pps": total.rates[2],
        "c": c_of(total.work), "flowlets_pps": flowlets_json(total.flowlets), "drops_pps": total.drops_pps, "dropped": total.dropped});
    json!({"name": view.cluster.name, "nodes": nodes, "all": all, "etcd": etcd_json(view)})
}

/// `valiant cluster status`.
pub(crate) fn status(args: &ShowArgs) -> Result<ExitCode, Failure> {
    observe(args, true, status_text, status_json)
}

/// Packets a second from a node to another: straight, over a third one; and carried there for others.
struct Flow {
    direct: f64,
    balanced: f64,
    transit: f64,
    direct_bps: f64,
    balanced_bps: f64,
}

fn flow(deed: &Deed<'_>, to: u16) -> Flow {
    let rate =
        |what: &str, unit: &str| deed.rate(|status| &status["matrix"]["to"][usize::from(to)][what][unit]);
    Flow {
        direct: rate("direct", "packets"),
        balanced: rate("balanced", "packets"),
        transit: rate("transit", "packets"),
        direct_bps: 8.0 * rate("direct", "bytes"),
        balanced_bps: 8.0 * rate("balanced", "bytes"),
    }
}

/// What is wanted of the external ports of a node, and what leaves by them, in bits a second by input node.
struct Output {
    node: u16,
    wanted_bps: Vec<f64>,
    left_pps: Vec<f64>,
    left_bps: Vec<f64>,
}

/// An output is short of room where less than this part of what is wanted leaves.
const CARRIED: f64 = 0.98;

impl Output {
    /// Of each node that answers.
    fn all(view: &View<'_>) -> Vec<Self> {
        let deeds: Vec<Option<Deed<'_>>> =
            view.nodes.iter().map(|(_, answer)| answer.as_ref().ok().map(Deed::new)).collect();
        let output = |(node, deed): (&Node, &Deed<'_>)| {
            let left = |unit: &str| -> Vec<f64> {
                let of = |id: u16| deed.rate(|status| &status["matrix"]["to"][usize::from(id)]["left"][unit]);
                view.nodes.iter().map(|(from, _)| of(from.id)).collect()
            };
            let left_bps: Vec<f64> = left("bytes").into_iter().map(|bytes| 8.0 * bytes).collect();
            let wanted = deeds.iter().zip(&left_bps).map(|(from, left)| {
                let flow = from.as_ref().map(|from| flow(from, node.id));
                // What comes in and goes out at one node may not pass its switch.
                flow.map_or(0.0, |f| f.direct_bps + f.balanced_bps).max(*left)
            });
            Self { node: node.id, wanted_bps: wanted.collect(), left_pps: left("packets"), left_bps }
        };
        let both = view.nodes.iter().zip(&deeds);
        both.filter_map(|((node, _), deed)| Some((*node, deed.as_ref()?))).map(output).collect()
    }
    /// Jain's index of what each input got of its max-min fair share, if more is wanted than leaves: 1 is fair.
    fn jain(&self) -> Option<f64> {
        let sum = |all: &[f64]| all.iter().sum::<f64>();
        let room = sum(&self.left_bps);
        if room <= 0.0 || room >= CARRIED * sum(&self.wanted_bps) {
            return None;
        }
        let of_share: Vec<f64> = (max_min(&self.wanted_bps, room).iter().zip(&self.left_bps))
            .filter(|(share, _)| **share > 0.0)
            .map(|(share, left)| left / share)
            .collect();
        let squares: f64 = of_share.iter().map(|part| part * part).sum();
        Some(sum(&of_share).powi(2) / (of_share.len() as f64 * squares))
    }
}

/// Who wants less than an even part gets that, and the others share what is left.
fn max_min(wanted: &[f64], room: f64) -> Vec<f64> {
    let mut order: Vec<f64> = wanted.iter().copied().filter(|bps| *bps > 0.0).collect();
    order.sort_by(f64::total_cmp);
    let (mut room, mut left) = (room, order.len());
    for bps in order {
        if bps * left as f64 >= room {
            break;
        }
        (room, left) = (room - bps, left - 1);
    }
    let even = if left > 0 { room / left as f64 } else { f64::INFINITY };
    wanted.iter().map(|bps| bps.min(even)).collect()
}

/// What left, by input and output node, with a line about those outputs of which more is wanted.
fn outputs_text(view: &View<'_>, outer: u16) -> String {
    let outputs: Vec<Output> = Output::all(view).into_iter().filter(|o| o.node < outer).collect();
    if outputs.iter().all(|o| o.left_pps.iter().all(|pps| *pps == 0.0)) {
        return String::new();
    }
    let mut text =
        String::from("packets a second that came in by node (row) and left by node (column)\n     ");
    for output in &outputs {
        let _ = write!(text, " {:>9}", output.node);
    }
    text.push('\n');
    for (i, (from, _)) in view.nodes.iter().enumerate().filter(|(_, (from, _))| from.id < outer) {
        let _ = write!(text, "{:>5}", from.id);
        for output in &outputs {
            let pps = output.left_pps.get(i).copied().unwrap_or(0.0);
            let cell = if pps == 0.0 { ".".to_owned() } else { short(pps) };
            let _ = write!(text, " {cell:>9}");
        }
        text.push('\n');
    }
    let jains: Vec<Option<f64>> = outputs.iter().map(Output::jain).collect();
    if jains.iter().any(Option::is_some) {
        text += " Jain";
        for jain in jains {
            let cell = jain.map_or_else(|| "-".to_owned(), |jain| format!("{jain:.4}"));
            let _ = write!(text, " {cell:>9}");
        }
        text += "  where more is wanted than leaves: 1 if each node has its fair share\n";
    }
    text
}

fn matrix_text(view: &View<'_>) -> String {
    const WIDTH: usize = 15;
    let mut text = format!(
        "{}: packets a second from node (row) to node (column), direct+balanced\n     ",
        view.cluster.name
    );
    // No packet is for a server between the stages of a fly.
    let outer = view.cluster.joined().map_or(u16::MAX, |topology| topology.externals());
    for (node, _) in view.nodes.iter().filter(|(node, _)| node.id < outer) {
        let _ = write!(text, " {:>WIDTH$}", node.id);
    }
    let _ = writeln!(text, " {:>9}", "transit");
    for (from, answer) in &view.nodes {
        let _ = write!(text, "{:>5}", from.id);
        let deed = match answer {
            Ok(pair) => Deed::new(pair),
            Err(problem) => {
                let _ = writeln!(text, "  {problem}");
                continue;
            }
        };
        let mut transit = 0.0;
        for (to, _) in &view.nodes {
            let flow = flow(&deed, to.id);
            transit += flow.transit;
            if to.id >= outer {
                continue;
            }
            let cell = match (flow.direct, flow.balanced) {
                (0.0, 0.0) => ".".to_owned(),
                (direct, balanced) => format!("{}+{}", short(direct), short(balanced)),
            };
            let _ = write!(text, " {cell:>WIDTH$}");
        }
        let _ = writeln!(text, " {:>9}", short(transit));
    }
    text + &outputs_text(view, outer)
}

fn matrix_json(view: &View<'_>) -> Value {
    let mut missing = Vec::new();
    let mut rows = Vec::new();
    for (from, answer) in &view.nodes {
        match answer {
            Err(problem) => missing.push(json!({"node": from.id, "problem": problem})),
            Ok(pair) => {
                let deed = Deed::new(pair);
                let to: Vec<Value> = view
                    .nodes
                    .iter()
                    .map(|(to, _)| {
                        let f = flow(&deed, to.id);
                        json!({"node": to.id, "direct_pps": f.direct, "balanced_pps": f.balanced, "transit_pps": f.transit,
                            "direct_bps": f.direct_bps, "balanced_bps": f.balanced_bps})
                    })
                    .collect();
                rows.push(json!({"node": from.id, "seconds": deed.seconds, "to": to}));
            }
        }
    }
    let outputs: Vec<Value> = Output::all(view)
        .iter()
        .map(|o| {
            let ids = view.nodes.iter().map(|(node, _)| node.id);
            let from: Vec<Value> = (ids.zip(&o.wanted_bps).zip(o.left_pps.iter().zip(&o.left_bps)))
                .map(|((id, wanted), (pps, bps))| json!({"node": id, "wanted_bps": wanted, "left_pps": pps, "left_bps": bps}))
                .collect();
            json!({"node": o.node, "from": from, "jain": o.jain()})
        })
        .collect();
    json!({"name": view.cluster.name, "from": rows, "outputs": outputs, "missing": missing})
}

/// `valiant cluster matrix`.
pub(crate) fn matrix(args: &ShowArgs) -> Result<ExitCode, Failure> {
    observe(args, false, matrix_text, matrix_json)
}

/// Connections to the nodes that answer, and the others with what is the matter.
type Answering<'a> = (Vec<(u16, Client)>, Vec<(&'a Node, std::io::Error)>);

fn answering(cluster: &Cluster) -> Answering<'_> {
    let mut clients = Vec::new();
    let mut silent = Vec::new();
    for node in cluster.present() {
        match Client::connect_within(&node.socket.display().to_string(), ANSWER) {
            Ok(client) => clients.push((node.id, client)),
            Err(e) => silent.push((node, e)),
        }
    }
    (clients, silent)
}

/// Why nothing can be asked of any node.
fn nobody_answers(file: &Path, cluster: &Cluster, silent: &[(&Node, std::io::Error)]) -> String {
    // That one may not is worth more than that others do not run.
    match silent.iter().find(|(_, e)| e.kind() == std::io::ErrorKind::PermissionDenied) {
        Some((node, e)) => format!("node {}: {}", node.id, unheard(&node.socket.display().to_string(), e)),
        None => format!(
            "no node of {} answers: `valiant cluster up {}` starts them",
            cluster.name,
            file.display()
        ),
    }
}

/// What a node's ClusterRoutes says, without what the control socket says around it.
fn refusal(id: u16, said: &str) -> String {
    if said.contains("No element named 'cluster_routes'") {
        return "the program has no routing table of its own, or several: then name one, table = \"rt\", in the cluster file"
            .to_owned();
    }
    let reason =
        said.strip_prefix("Write handler 'cluster_routes.").and_then(|rest| rest.split_once(" error\n"));
    match reason {
        Some((_, reason)) => reason.to_owned(),
        None => format!("node {id}: {said}"),
    }
}

/// A change of the routes.
struct Change<'a> {
    handler: &'static str,
    prefix: &'a str,
    /// Where to from now on.
    via: Option<Ipv4Addr>,
}

impl<'a> Change<'a> {
    fn wanted(what: &'a RouteCommand) -> Option<Self> {
        let (handler, prefix, via) = match what {
            RouteCommand::List { .. } => return None,
            RouteCommand::Add { prefix, via } => ("add", prefix, Some(*via)),
            RouteCommand::Set { prefix, via } => ("set", prefix, Some(*via)),
            RouteCommand::Remove { prefix } => ("remove", prefix, None),
        };
        Some(Self { handler, prefix, via })
    }
    /// Enters it in etcd, if the cluster has one: the nodes have it from there, wherever they are.
    fn in_etcd(&self, cluster: &Cluster) -> Result<bool, Failure> {
        match self.via {
            Some(via) if cluster.ports().all(|(_, _, port)| !port.net.contains(via)) => {
                Err(format!("{via} is in the network of no external port of {}", cluster.name).into())
            }
            Some(via) => etcd::add_route(cluster, self.prefix, &via.to_string(), self.handler == "set"),
            None => etcd::remove_route(cluster, self.prefix),
        }
    }
    /// Enters it at a node.
    fn enter(&self, client: &mut Client) -> std::io::Result<String> {
        let via = self.via.map_or_else(String::new, |via| format!(" {via}"));
        let value = format!("{}{via}", self.prefix);
        client.write(&format!("cluster_routes.{}", self.handler), value.as_bytes())
    }
    /// Whether a node's routes have it.
    fn is_in(&self, table: &str) -> bool {
        let mut lines = table.lines().map(str::split_whitespace);
        let found = lines.find_map(|mut words| (words.next()? == self.prefix).then(|| words.next()));
        found.flatten().map(str::parse).and_then(Result::ok) == self.via
    }
}

/// `valiant cluster route`.
pub(crate) fn route(args: &RouteArgs) -> Result<ExitCode, Failure> {
    let cluster = Cluster::load(&args.file)?;
    let (mut clients, silent) = answering(&cluster);
    let Some(change) = Change::wanted(&args.what) else {
        let Some((id, first)) = clients.first_mut() else {
            return Err(nobody_answers(&args.file, &cluster, &silent).into());
        };
        let text = first.read("cluster_routes.table", "").map_err(|e| refusal(*id, &e.to_string()))?;
        let json = matches!(args.what, RouteCommand::List { json: true });
        say(&if json { format!("{}\n", routes_json(&text)) } else { text });
        return Ok(heard(silent.is_empty()));
    };
    let in_etcd = change.in_etcd(&cluster)?;
    if !in_etcd {
        let Some((id, first)) = clients.first_mut() else {
            return Err(nobody_answers(&args.file, &cluster, &silent).into());
        };
        change.enter(first).map_err(|e| refusal(*id, &e.to_string()))?;
    }
    let until = Instant::now() + SPREAD;
    let mut late: Vec<u16> = silent.iter().map(|(node, _)| node.id).collect();
    for (id, client) in &mut clients {
        while !change.is_in(&client.read("cluster_routes.table", "").unwrap_or_default()) {
            if Instant::now() > until {
                late.push(*id);
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    for id in &late {
        eprintln!(
            "node {id} does not know it yet: it learns it from {} when it can",
            if in_etcd { "etcd" } else { "its neighbours" }
        );
    }
    Ok(heard(late.is_empty()))
}

fn routes_json(text: &str) -> Value {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (prefix, via) = (words.next()?, words.next()?);
            let node = words.next().and_then(|node| node.parse::<u16>().ok());
            Some(json!({"prefix": prefix, "via": via, "node": node}))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(wanted: &[f64], left: &[f64]) -> Output {
        Output { node: 0, wanted_bps: wanted.to_vec(), left_pps: left.to_vec(), left_bps: left.to_vec() }
    }

    #[test]
    fn shares_are_max_min_fair() {
        assert_eq!(max_min(&[1.0, 5.0, 9.0, 0.0], 9.0), [1.0, 4.0, 4.0, 0.0]);
        assert_eq!(max_min(&[1.0, 2.0], 9.0), [1.0, 2.0]);
        assert_eq!(max_min(&[], 9.0), [0.0; 0]);
    }

    #[test]
    fn the_index_is_about_outputs_that_are_short_of_room() {
        assert_eq!(output(&[5.0, 3.0], &[5.0, 3.0]).jain(), None);
        assert_eq!(output(&[0.0, 0.0], &[0.0, 0.0]).jain(), None);
        assert_eq!(output(&[1.0, 5.0, 9.0, 0.0], &[1.0, 4.0, 4.0, 0.0]).jain(), Some(1.0));
        // As much of what is wanted for each, as a queue for all gives.
        let fifo = output(&[2.5, 6.0, 10.0], &[1.35, 3.24, 5.41]).jain().unwrap();
        assert!((fifo - 0.866).abs() < 0.002, "{fifo}");
    }
}
