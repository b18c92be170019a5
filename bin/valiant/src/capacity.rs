//! `valiant plan`: which servers and links a cluster of N ports takes.

use crate::predicted::Program;
use capacity::{
    Binding, CONFIGURATIONS, Configuration, Curve, FIGURE_RATE_BPS, Matrix, Nic, Plan, Server, Switch,
    Topology, Wanted, figure3, plan,
};
use chart::{Axis, Chart, Line};
use clap::Args;
use launch::logging::error;
use launch::output::print;
use measure::bps::{Bps, bps};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
The rule (RouteBricks, section 3.3): a server gets as many external ports as it can process at cR each, where c is 3 for any traffic matrix and 2 for uniform traffic. If its other NIC ports reach all other servers, the servers are a full mesh; else they are a k-ary n-fly with n = log_k M stages of servers between inputs and outputs, where M is the number of servers with external ports and k the number of links of a server.

Examples:
  valiant plan --ports 32                        32 ports of 10 Gbps, the paper's servers
  valiant plan --ports 1024 --server more-nics   20 NICs for each server instead of 5
  valiant plan --ports 64 --rate 100G --server-rate 600G --nic-slots 8 --nic-ports 2x100G,4x25G
  valiant plan --plot fig3.svg                   number of servers over number of ports: the paper's Fig. 3
  valiant check --predict conf/ip-router.click --traffic capture.pcap --json > router.json
  valiant plan --ports 16 --rate 1G --programs router.json --processors 8 --nic-slots 4 --nic-ports 4x1G
                                                 servers that run this program

Exit status: 0 done, 1 no such cluster can be built (the failing assumption is named), 2 wrong usage.";

/// `valiant plan`.
#[derive(Args)]
pub(crate) struct CapacityArgs {
    /// External ports, N.
    #[arg(short = 'n', long, value_name = "N", required_unless_present_any = ["figure3", "plot"])]
    pub(crate) ports: Option<u64>,
    /// The rate of an external port, R.
    #[arg(short, long, value_name = "RATE", default_value = "10G", value_parser = bps)]
    pub(crate) rate: u64,
    /// The paper's servers, with NICs of 2x10G or 8x1G: `current` processes 30G (one port of 10G) and has 5
    /// NICs, `more-nics` has 20 NICs, `faster` has 20 and processes 60G. The options below override single
    /// values.
    #[arg(long, value_name = "NAME", default_value = "current", value_parser = ["current", "more-nics", "faster"])]
    pub(crate) server: String,
    /// The rate that a server can process.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    pub(crate) server_rate: Option<u64>,
    /// The rate that a server can forward, where it does not look up routes, if that is another: a packet is
    /// routed once, where it comes in. `valiant bench program` measures both.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    pub(crate) forward_rate: Option<u64>,
    /// Both rates from what `valiant check --predict --json` or `valiant bench program --json` says of the
    /// program that routes a packet where it comes in, and, after a comma, of the one that forwards it
    /// afterwards.
    #[arg(long, value_name = "FILE[,FILE]", value_delimiter = ',', num_args = 1,
        conflicts_with_all = ["server_rate", "forward_rate"])]
    pub(crate) programs: Vec<String>,
    /// Processors of a server, for --programs.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "programs", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) processors: u32,
    /// Frame size in bytes, without FCS, for --programs.
    #[arg(long, value_name = "BYTES", default_value_t = 60, requires = "programs", value_parser = clap::value_parser!(u32).range(60..=16384))]
    pub(crate) frame: u32,
    /// Number of NIC slots of a server.
    #[arg(long, value_name = "N")]
    pub(crate) nic_slots: Option<u32>,
    /// The types of NIC, as PORTSxRATE: each slot takes any one of them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = nic)]
    pub(crate) nic_ports: Option<Vec<capacity::Nic>>,
    /// The traffic matrix that the router must carry: `worst` (any that overloads no output) or `uniform`.
    #[arg(long, value_name = "NAME", default_value = "worst", value_parser = ["worst", "uniform"])]
    pub(crate) matrix: String,
    /// Latency of a server, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 24.0, value_parser = amount)]
    pub(crate) server_latency: f64,
    /// Rack units of a server.
    #[arg(long, value_name = "U", default_value_t = 1.0, value_parser = amount)]
    pub(crate) server_units: f64,
    /// Power of a server, in watts.
    #[arg(long, value_name = "W", default_value_t = 650.0, value_parser = amount)]
    pub(crate) server_watts: f64,
    /// Price of a server, in dollars.
    #[arg(long, value_name = "$", default_value_t = 2000.0, value_parser = amount)]
    pub(crate) server_price: f64,
    /// Ports of a switch, for the cluster with switches.
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub(crate) switch_ports: u32,
    /// The rate of a switch's port.
    #[arg(long, value_name = "RATE", default_value = "10G", value_parser = bps)]
    pub(crate) switch_rate: u64,
    /// Price of a port of a switch, in dollars.
    #[arg(long, value_name = "$", default_value_t = 500.0, value_parser = amount)]
    pub(crate) switch_port_price: f64,
    /// Rack units of a switch.
    #[arg(long, value_name = "U", default_value_t = 1.0, value_parser = amount)]
    pub(crate) switch_units: f64,
    /// Power of a switch, in watts; the paper gives none.
    #[arg(long, value_name = "W", value_parser = amount)]
    pub(crate) switch_watts: Option<f64>,
    /// Print the four curves of the paper's Fig. 3: number of servers over number of external ports of 10
    /// Gbps.
    #[arg(long)]
    pub(crate) figure3: bool,
    /// Draw these curves as SVG into a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A type of NIC: `2x10G`.
pub(crate) fn nic(text: &str) -> Result<Nic, String> {
    let wrong = || "a type of NIC is PORTSxRATE, as in 2x10G".to_owned();
    let (ports, rate) = text.split_once('x').ok_or_else(wrong)?;
    Ok(Nic { ports: ports.trim().parse().map_err(|_| wrong())?, port_bps: bps(rate)? })
}

/// A price, a power, a time.
pub(crate) fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("a number from 0 to 1000000000 is needed".to_owned()),
    }
}

/// The requirements that the arguments describe; the paper's configuration, if the arguments change none of
/// its values.
fn wanted(args: &CapacityArgs, ports: u64, programs: &[Program]) -> (Wanted, Option<&'static Configuration>) {
    let preset = CONFIGURATIONS.iter().find(|one| one.name == args.server).unwrap_or(&CONFIGURATIONS[0]);
    let theirs = preset.server();
    let rate = |at: usize| programs.get(at).map(|program| program.bps(args.processors, args.frame));
    let server = Server {
        rate_bps: rate(0).or(args.server_rate).unwrap_or(theirs.rate_bps),
        forward_bps: rate(1).or(args.forward_rate),
        slots: args.nic_slots.unwrap_or(theirs.slots),
        nics: args.nic_ports.clone().unwrap_or_else(|| theirs.nics.clone()),
        units: args.server_units,
        watts: args.server_watts,
        dollars: args.server_price,
        latency_ns: (args.server_latency * 1e3).round() as u64,
    };
    let matrix = if args.matrix == "uniform" { Matrix::Uniform } else { Matrix::Worst };
    let numbers = |one: &Server| (one.rate_bps, one.forward_bps, one.slots);
    let same = numbers(&server) == numbers(&theirs) && server.nics == theirs.nics;
    let cited = same && args.rate == FIGURE_RATE_BPS && matrix == Matrix::Worst;
    (Wanted { ports, rate_bps: args.rate, matrix, server, switch: switch(args) }, cited.then_some(preset))
}

fn switch(args: &CapacityArgs) -> Switch {
    Switch {
        ports: args.switch_ports,
        port_bps: args.switch_rate,
        dollars_per_port: args.switch_port_price,
        units: args.switch_units,
        watts: args.switch_watts,
    }
}

/// Runs the command.
pub(crate) fn plan_cluster(args: &CapacityArgs) -> ExitCode {
    match answer(args) {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            error(&format!("valiant plan: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn answer(args: &CapacityArgs) -> Result<String, String> {
    let mut text = String::new();
    let mut all = json!({});
    if args.programs.len() > 2 {
        return Err("--programs takes the program that routes, and the one that forwards: two files at most"
            .to_owned());
    }
    let programs = args.programs.iter().map(|path| Program::load(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(ports) = args.ports {
        let (wanted, preset) = wanted(args, ports, &programs);
        let planned = plan(&wanted).map_err(|e| {
            let uniform = Wanted { matrix: Matrix::Uniform, ..wanted.clone() };
            let hint = match plan(&uniform) {
                Ok(_) if wanted.matrix == Matrix::Worst => {
                    "; for uniform traffic it can be built (--matrix uniform)"
                }
                _ => "",
            };
            format!("{e}{hint}")
        })?;
        text += &plan_text(&wanted, &planned, preset);
        for program in &programs {
            let _ = writeln!(text, "{:<14}{}", "program", program.text(args.processors, args.frame));
        }
        all = plan_json(&wanted, &planned, preset);
        all["programs"] = programs.iter().map(|program| program.json(args.processors, args.frame)).collect();
    }
    if args.figure3 || args.plot.is_some() {
        let curves = figure3(&switch(args)).map_err(|e| e.to_string())?;
        if let Some(path) = &args.plot {
            std::fs::write(path, svg(&curves)).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        if args.figure3 {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{gap}{}", curves_text(&curves));
        }
        all["figure3"] = curves.iter().map(curve_json).collect();
    }
    Ok(if args.json { format!("{all:#}\n") } else { text })
}

fn times(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

fn span(low: f64, high: f64) -> String {
    if low == high { format!("{low}") } else { format!("{low}-{high}") }
}

fn money(dollars: f64) -> String {
    let digits = format!("{dollars:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("${grouped}")
}

/// What a server forwards, where that is another rate than it routes.
fn forwards(server: &Server) -> String {
    server
        .forward_bps
        .map_or_else(String::new, |rate| format!(" with look-up of routes and forwards {}", Bps(rate)))
}

/// The most external ports of a cluster whose nodes tell them by MAC addresses that NICs steer into queues
/// (RouteBricks, section 6.1).
const STEERED_PORTS: u64 = 64;
/// The small ports by which the paper says what a server is worth (section 9).
const SMALL_PORT_BPS: u64 = 1_000_000_000;

/// Why the cluster is not smaller.
fn limited_by(wanted: &Wanted, p: &Plan) -> String {
    let s = p.ports_per_server;
    let (c, rate) = (wanted.matrix.c(), Bps(wanted.rate_bps));
    let link = Bps(p.link_bps);
    match p.binding {
        Binding::Nothing => "nothing: one server has all ports".to_owned(),
        Binding::Processing => format!(
            "processing: a server processes {}{}, enough for {} of {rate} whose traffic is processed {c} times",
            Bps(wanted.server.rate_bps),
            forwards(&wanted.server),
            times(s, "port")
        ),
        Binding::Slots => {
            format!(
                "slots: a server could process {}, its NICs have room for {s}",
                times(p.ports_processed, "port")
            )
        }
        Binding::FanOut if matches!(p.topology, Topology::Fly { .. }) => format!(
            "fan-out: a mesh needs {} for each server, its NICs have room for {} of {link}",
            times(p.io_servers - 1, "link"),
            p.fan_out
        ),
        Binding::FanOut => format!(
            "fan-out: a server could process {}, but has NIC ports left for links only with {s}",
            times(p.ports_processed, "port")
        ),
        Binding::LinkRate => format!(
            "link rate: the links of a mesh of {} are faster than its NICs allow; with {} more, {link} per link is enough",
            times(p.io_servers, "server"),
            p.intermediate_servers
        ),
    }
}

/// The paper's results for the same inputs, for comparison.
fn cited(p: &Plan, preset: Option<&Configuration>, ports: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(one) = preset {
        let why = match one.name {
            "faster" => {
                "20 NICs hold 2 ports and 19 x 8 links, which is a mesh of 153 servers; 2048 ports would take 1024"
            }
            _ => "the paper stops at a power of two",
        };
        lines.push(format!(
            "full mesh up to {} ports; these inputs give {} ({why})",
            one.cited_mesh_ports, p.mesh_ports
        ));
        if (one.name, ports) == ("current", 1024) {
            lines.push("2 intermediate servers for each of 1024 ports, 96 us".to_owned());
        }
        if (one.name, ports) == ("current", 4) {
            lines.push(
                "47.6-66.4 us for RB4 at 2-3 servers; its own sum 4 x 2.56 + 12.8 + 0.8 = 23.84 us gives 47.7 and 71.5"
                    .to_owned(),
            );
            lines.push(
                "RB4 cost $14,500 and took 2.6 kW in 4U; the model's $2000 for a server is that of section 3.3".to_owned(),
            );
        }
    }
    if ports > STEERED_PORTS {
        lines.push(format!(
            "at most {STEERED_PORTS} external ports, as NICs steer frames by MAC address into one queue for each; these nodes do it in software, without that limit"
        ));
    }
    if p.ports_per_server > 1 && p.topology == Topology::Mesh {
        lines.push(
            "links of 2sR/N; but M = N/s servers spread sR each, twice: 2sR/M, s times as much".to_owned(),
        );
    }
    if let Topology::Fly { k, n } = p.topology {
        lines.push(format!(
            "{}, crossed once by uniform traffic; a butterfly cannot carry every permutation that way: other traffic goes via an intermediate node, and crosses them twice",
            times(n.into(), "stage")
        ));
        lines.push(format!(
            "k is the fan-out of a server ({k}); the paper does not say how the stages are cabled: with half of the links towards each side, k would be {}",
            k / 2
        ));
        if p.switched.as_ref().is_some_and(|other| other.dollars < p.dollars) {
            lines.push("a cluster with switches costs more; with whole stages and shared switches it costs less here".to_owned());
        }
    }
    lines
}

fn plan_text(wanted: &Wanted, p: &Plan, preset: Option<&Configuration>) -> String {
    let mut t = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(t, "{name:<14}{value}");
    };
    let server = &wanted.server;
    let nics: Vec<String> =
        server.nics.iter().map(|nic| format!("{} x {}", nic.ports, Bps(nic.port_bps))).collect();
    let traffic = if wanted.matrix == Matrix::Worst { "whatever the traffic" } else { "for uniform traffic" };
    line("wanted", format!("{} of {}, {traffic}", times(wanted.ports, "port"), Bps(wanted.rate_bps)));
    line(
        "server",
        format!(
            "processes {}{}, {} of {}",
            Bps(server.rate_bps),
            forwards(server),
            times(server.slots.into(), "NIC"),
            nics.join(" or ")
        ),
    );
    line("topology", p.topology.to_string());
    line("limited by", limited_by(wanted, p));
    line(
        "servers",
        format!(
            "{} = {} with {} + {} without",
            p.servers(),
            p.io_servers,
            times(p.ports_per_server, "external port"),
            p.intermediate_servers
        ),
    );
    if p.links > 0 {
        let side = if p.ports_per_link > 1 {
            format!(", {} NIC ports side by side", p.ports_per_link)
        } else {
            String::new()
        };
        line(
            "links",
            format!(
                "{}, {} at each server (its NICs give {}), {} each way{side}",
                p.links,
                p.degree,
                p.fan_out,
                Bps(p.link_bps)
            ),
        );
    }
    // How often a server processes what one of its ports receives, at worst.
    let times_processed = p.node_worst_bps / (p.ports_per_server * wanted.rate_bps).max(1);
    line(
        "node",
        format!(
            "{} for uniform traffic, {} at worst{}; one output for each input: c = {:.2}",
            Bps(p.node_uniform_bps),
            Bps(p.node_worst_bps),
            if p.ports_per_server > server.processes(wanted.rate_bps, times_processed) {
                " (more than it can process)"
            } else {
                ""
            },
            p.c_permutation
        ),
    );
    line(
        "latency",
        format!(
            "{} us, {} server{} of {} us",
            span(p.latency_ns.0 as f64 / 1e3, p.latency_ns.1 as f64 / 1e3),
            span(p.hops.0.into(), p.hops.1.into()),
            if p.hops.1 == 1 { "" } else { "s" },
            server.latency_ns as f64 / 1e3
        ),
    );
    line("mesh limit", times(p.mesh_ports, "port"));
    let small = server.processes(SMALL_PORT_BPS, wanted.matrix.c());
    line("1 Gbps ports", format!("a server processes {small} of them"));
    let size = |units: f64, watts: Option<f64>, dollars: f64| {
        let power =
            watts.map_or("power unknown (--switch-watts)".to_owned(), |w| format!("{:.1} kW", w / 1e3));
        format!("{units:.0}U, {power}, {}", money(dollars))
    };
    line("size", size(p.units, Some(p.watts), p.dollars));
    match &p.switched {
        Some(other) => line(
            "with switches",
            format!(
                "{} + {} of {} ports, {} = {:.0} servers",
                times(other.servers, "server"),
                if other.switches == 1 {
                    "1 switch".to_owned()
                } else {
                    format!("{} switches", other.switches)
                },
                wanted.switch.ports,
                size(other.units, other.watts, other.dollars),
                other.server_equivalents
            ),
        ),
        None => line("with switches", "not with these servers, or these switches".to_owned()),
    }
    if let Some(torus) = &p.torus {
        line(
            "as a torus",
            format!(
                "{} servers, a {}-ary {}-torus: {:.1} links to a random server",
                torus.servers, torus.k, torus.n, torus.hops
            ),
        );
    }
    for text in cited(p, preset, wanted.ports) {
        line("the paper", text);
    }
    t
}

fn plan_json(wanted: &Wanted, p: &Plan, preset: Option<&Configuration>) -> Value {
    let (kind, k, n) = match p.topology {
        Topology::Single => ("single", None, None),
        Topology::Mesh => ("mesh", None, None),
        Topology::Fly { k, n } => ("fly", Some(k), Some(n)),
    };
    let switched = p.switched.as_ref().map(|other| {
        json!({"servers": other.servers, "switches": other.switches, "rack_units": other.units, "watts": other.watts,
            "dollars": other.dollars, "server_equivalents": other.server_equivalents})
    });
    let torus = p.torus.map(|torus| {
        json!({"k": torus.k, "n": torus.n, "servers": torus.servers, "hops": torus.hops,
            "times_servers": torus.servers as f64 / p.servers() as f64})
    });
    json!({
        "ports": wanted.ports, "rate_bps": wanted.rate_bps, "c": wanted.matrix.c(),
        "topology": {"kind": kind, "k": k, "n": n},
        "binds": {"assumption": p.binding.name(), "why": limited_by(wanted, p)},
        "ports_per_server": p.ports_per_server,
        "servers": p.servers(), "io_servers": p.io_servers, "intermediate_servers": p.intermediate_servers,
        "links": p.links, "links_per_server": p.degree, "fan_out": p.fan_out, "nic_ports_per_link": p.ports_per_link,
        "link_bps": p.link_bps, "node_uniform_bps": p.node_uniform_bps, "node_worst_bps": p.node_worst_bps,
        "c_permutation": p.c_permutation, "hops": [p.hops.0, p.hops.1], "latency_ns": [p.latency_ns.0, p.latency_ns.1],
        "mesh_limit_ports": p.mesh_ports, "one_gigabit_ports": wanted.server.processes(SMALL_PORT_BPS, wanted.matrix.c()), "rack_units": p.units, "watts": p.watts, "dollars": p.dollars,
        "switched": switched, "torus": torus, "paper": cited(p, preset, wanted.ports),
    })
}

fn curves_text(curves: &[Curve]) -> String {
    let mut t = format!("{:>6}", "ports");
    for curve in curves {
        let _ = write!(t, "{:>18}", curve.name);
    }
    t.push('\n');
    for (row, first) in curves.first().map_or(&[][..], |c| &c.points).iter().enumerate() {
        let _ = write!(t, "{:>6}", first.ports);
        for curve in curves {
            let cell = curve.points.get(row).map_or("-".to_owned(), |point| {
                let mark = if point.topology == Some(Topology::Mesh) { "mesh " } else { "" };
                format!("{mark}{:.0}", point.servers)
            });
            let _ = write!(t, "{cell:>18}");
        }
        t.push('\n');
    }
    t
}

fn curve_json(curve: &Curve) -> Value {
    let points: Vec<Value> = (curve.points.iter())
        .map(|p| json!({"ports": p.ports, "servers": p.servers, "topology": p.topology.map(|t| t.to_string())}))
        .collect();
    json!({"name": curve.name, "points": points})
}

/// Both axes are logarithmic, as in the paper; a filled mark is a full mesh.
fn svg(curves: &[Curve]) -> String {
    let most = curves.iter().flat_map(|c| &c.points).map(|p| p.servers).fold(4.0, f64::max);
    let drawn = |curve: &Curve| {
        let point = |p: &capacity::Point| chart::Point {
            x: p.ports as f64,
            y: p.servers,
            spread: None,
            filled: p.topology == Some(Topology::Mesh),
            title: format!("{}: {} ports, {:.0} servers", curve.name, p.ports, p.servers),
        };
        let switched = curve.points.iter().all(|p| p.topology.is_none());
        chart::Curve {
            name: curve.name.clone(),
            line: if switched { Line::Dashed } else { Line::Solid },
            color: None,
            points: curve.points.iter().map(point).collect(),
        }
    };
    let chart = Chart {
        title: "Servers over external ports of 10 Gbps".to_owned(),
        x: Axis::powers("external ports of 10 Gbps", 4, 2048),
        y: Axis::decades("servers, or the price in servers", 1.0, most),
        curves: curves.iter().map(drawn).collect(),
        note: "filled: full mesh".to_owned(),
    };
    chart.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nics_are_read() {
        assert_eq!(nic("2x10G"), Ok(Nic { ports: 2, port_bps: 10_000_000_000 }));
        assert!(nic("10G").is_err() && nic("x10G").is_err() && nic("2x").is_err());
        assert_eq!(money(1_234_567.0), "$1,234,567");
    }

    #[test]
    fn the_drawing_has_four_curves_within_its_frame() {
        let text = svg(&figure3(&Switch::default()).unwrap());
        assert_eq!(text.matches("<polyline").count(), 4);
        assert_eq!(text.matches("<circle").count(), 40);
        for part in text.split("cy=\"").skip(1) {
            let at: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((20.0..=380.0).contains(&at), "{at}");
        }
    }
}
