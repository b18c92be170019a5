//! The command lines of `valiant gen` and `valiant sink`.

use clap::Args;
use launch::Machine;
use launch::logging::LogArgs;
use measure::direction::Direction;
use measure::rate::Rate;
use measure::sizes::Sizes;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const GEN_EXAMPLES: &str = "\
Examples:
  valiant gen eth0 -r 1Mpps -s 60 -t 10          60-byte frames for ten seconds
  valiant gen eth0 -r 10Gbps-l1 -s imix --dst 10.0.0.0/8 --random -f 65536
  valiant gen --to eth0 --sink eth1 -r 100k -n 1M --max-loss 0     
                                                 through the device under test, and back
  valiant gen --to eth0 --to eth1 --sink eth2 --outputs 10.1.0.0/16 --sink eth3 --outputs 10.2.0.0/16 \\
      --matrix '0.9,0.1; 0.5,0.5' -r 100k -n 1M --max-misrouted 0
                                                 through a device with two outputs
  valiant gen --to eth0 --sink eth1 -r 50k --connections 20k --random
                                                 through a NAT, and back: how many connections it keeps
  valiant gen --to eth0 --sink eth1 --connections 20k --set-up 10k -r 100k -t 10 --direction both --max-loss 0
                                                 both ways over connections through a NAT that are there already
  valiant gen eth0 --pcap trace.pcap -r 50k -t 1min
  valiant gen eth0 -r 1k --print-config          print the configuration only

Exit status: 0 done (also by Ctrl-C), 1 failed, 2 wrong usage, 3 more loss or reordering than allowed.";

pub(crate) const SINK_EXAMPLES: &str = "\
Examples:
  valiant sink eth1                              until Ctrl-C
  valiant sink eth1 --idle 2s --max-loss 0.01% --json

Exit status: 0 done (also by Ctrl-C), 1 failed, 2 wrong usage, 3 not the expected frames.";

#[derive(Args)]
pub(crate) struct GenArgs {
    /// Ports to send to; each is sent the full rate and count that the other options give.
    #[arg(value_name = "PORT", required_unless_present = "to")]
    pub(crate) ports: Vec<String>,
    /// A port to send to; may be given several times.
    #[arg(long, value_name = "PORT")]
    pub(crate) to: Vec<String>,
    /// A port where the frames return from the device under test: loss, order and latency are reported too.
    /// May be given several times.
    #[arg(long, value_name = "PORT")]
    pub(crate) sink: Vec<String>,
    /// Destination addresses that the device sends to a sink: for each --sink, in their order. Frames that
    /// come out at another one are counted.
    #[arg(long, value_name = "ADDRESSES", conflicts_with_all = ["dst", "pcap"])]
    pub(crate) outputs: Vec<String>,
    /// With --outputs: which part of the rate of each port to send to goes to each sink. One of `uniform`,
    /// `permutation` (all to the next), `hot-spot`, `pair`, `overload` and the others of `valiant sim`, a
    /// file, or the numbers: a row for each port, separated by semicolons, as in "0.9,0.1; 0.5,0.5"
    /// [default: uniform].
    #[arg(long, value_name = "NAME|FILE|NUMBERS")]
    pub(crate) matrix: Option<String>,
    /// `forward` sends to the ports that are given with --to, `reverse` to those of --sink, and the others
    /// receive; `both` at the same time. Source and destination addresses change places in reverse.
    #[arg(long, value_name = "NAME", default_value = "forward", value_parser = direction)]
    pub(crate) direction: Direction,
    /// The same as --outputs for each port to send to, which receives with --direction reverse or both.
    #[arg(long, value_name = "ADDRESSES", requires = "outputs")]
    pub(crate) reverse_outputs: Vec<String>,
    /// Fail (exit status 3) if more than this many frames come out at another sink than --outputs says, or
    /// with --direction both on the side that they left.
    #[arg(long, value_name = "N")]
    pub(crate) max_misrouted: Option<u64>,
    /// Rate: 1M or 14.88Mpps (packets), 10Gbps (bits of frames), 10Gbps-l1 (bits on the wire: with 24 bytes a
    /// frame for preamble, FCS and gap), max.
    #[arg(short, long, value_name = "RATE", default_value = "max", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Frame size in bytes, without FCS: 60, 60-1514 (at random), imix, imix-csit, or sizes and weights as in
    /// 60:7,1514:1 [default: the shortest].
    #[arg(short, long, value_name = "SIZE", value_parser = sizes)]
    pub(crate) size: Option<Sizes>,
    /// How many frames, as in 1000, 1.5M; divided among all ports and workers [default: no limit].
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub(crate) count: Option<u64>,
    /// How long, in seconds or as in 500ms, 2min [default: until Ctrl-C].
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) time: Option<Duration>,
    /// Number of flows, sent in turn [default: one for each combination of the addresses given].
    #[arg(short, long, value_name = "N")]
    pub(crate) flows: Option<u32>,
    /// Source addresses: single ones, prefixes and ranges separated by commas, or @FILE [default: 198.18.0.1
    /// or 2001:2::1].
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) src: Option<String>,
    /// Destination addresses [default: 198.19.0.1 or 2001:2:0:1::1].
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) dst: Option<String>,
    /// UDP source ports, as in 1024-2047,5000 [default: from 1024 on, as many as the flows need].
    #[arg(long, value_name = "PORTS")]
    pub(crate) sport: Option<String>,
    /// UDP destination ports [default: 9].
    #[arg(long, value_name = "PORTS")]
    pub(crate) dport: Option<String>,
    /// Choose addresses and ports of flows at random from those given, not in order.
    #[arg(long)]
    pub(crate) random: bool,
    /// Draw flows by Zipf's law with this exponent rather than in turn: few large ones, many small ones.
    #[arg(long, value_name = "EXPONENT", value_parser = skew)]
    pub(crate) skew: Option<f64>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// IPv6 rather than IPv4.
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// Ethernet source address [default: that of the port if it is a Linux interface, else
    /// 02:00:00:00:00:01].
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub(crate) src_mac: Option<String>,
    /// Ethernet destination address: that of the next hop. One for all ports, or one for each of --to and
    /// then of --sink, separated by commas.
    #[arg(long, value_name = "MAC", value_parser = mac, value_delimiter = ',', default_value = "02:00:00:00:00:02")]
    pub(crate) dst_mac: Vec<String>,
    /// Time to live or hop limit.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) ttl: u8,
    /// Set so many connections up through a device that keeps state of them (RFC 9693): one frame each, all
    /// with other addresses and ports, from --to to --sink, where it is learned with which ones they arrive;
    /// if all do, one frame of each goes back, and those that arrive where they belong are counted.
    #[arg(long, value_name = "N", value_parser = connections, requires = "sink",
        conflicts_with_all = ["flows", "count", "skew", "pcap", "outputs", "matrix"])]
    pub(crate) connections: Option<u32>,
    /// With --connections: set them up at this rate, and then send over them at --rate for --time (RFC 9693,
    /// test phase 2): with --direction forward as they were set up, with reverse to where they came from,
    /// with both at the same time. What arrives with the addresses or ports of another connection is lost; if
    /// anything is, one frame of each goes back, which shows whether connections were forgotten.
    #[arg(long, value_name = "RATE", value_parser = rate, requires_all = ["connections", "time"])]
    pub(crate) set_up: Option<Rate>,
    /// With --connections: the rate at which one frame of each goes back [default: --set-up, or --rate].
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "connections")]
    pub(crate) answer: Option<Rate>,
    /// Send the frames of a capture file as they are: once, or over and over for --count frames or --time.
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["size", "flows", "src", "dst", "sport", "dport", "random", "skew", "ipv6", "src_mac", "dst_mac", "ttl"])]
    pub(crate) pcap: Option<PathBuf>,
    /// If sending falls behind the rate, catch up for this long a delay at most; what is older is counted as
    /// missed.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = time)]
    pub(crate) catch_up: Duration,
    /// With --sink, after the last frame: wait until none has come for this long, and ten times this long at
    /// most.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = time)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) machine: Machine,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Args)]
pub(crate) struct SinkArgs {
    /// Ports to receive from.
    #[arg(value_name = "PORT", required = true)]
    pub(crate) ports: Vec<String>,
    /// How long, in seconds or as in 500ms, 2min [default: until Ctrl-C].
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) time: Option<Duration>,
    /// End after this many frames of `valiant gen`.
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub(crate) count: Option<u64>,
    /// End when no frame of `valiant gen` has arrived for this long, once there was a first one.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(crate) idle: Option<Duration>,
    /// Fail (exit status 3) unless exactly this many frames of `valiant gen` have arrived, not counting
    /// duplicates.
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) expect_count: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) machine: Machine,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// What must hold at the sink.
#[derive(Args, Clone)]
pub(crate) struct Limits {
    /// Fail (exit status 3) if more than this is lost: a number of frames, or a percentage as in 0.1%.
    #[arg(long, value_name = "LOSS", value_parser = loss)]
    pub(crate) max_loss: Option<Loss>,
    /// Fail (exit status 3) if more than this many packets are reordered.
    #[arg(long, value_name = "N")]
    pub(crate) max_reordered: Option<u64>,
    /// Do not verify checksums of received frames: faster, but corruption is not noticed.
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Let idle workers sleep: saves CPU time, but measured latency can be up to half a millisecond too long.
    #[arg(long)]
    pub(crate) sleep: bool,
    /// Number of flows for which a worker checks the order; 80 to 340 bytes of memory each [default: 65536].
    #[arg(long, value_name = "N")]
    pub(crate) track_flows: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Output {
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Report each flow too.
    #[arg(long)]
    pub(crate) per_flow: bool,
    /// Report the whole latency histogram too.
    #[arg(long)]
    pub(crate) histogram: bool,
    /// Do not print progress and ports.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print the configuration that would run, and do not run it.
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// A bound on loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    /// Frames.
    Frames(u64),
    /// A share of what was sent.
    Share(f64),
}

impl Loss {
    /// Whether so many lost of so many sent are too many.
    pub(crate) fn exceeded(self, lost: u64, sent: u64) -> bool {
        match self {
            Self::Frames(most) => lost > most,
            Self::Share(most) => lost as f64 > most * sent as f64,
        }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Frames(n) => write!(f, "{n}"),
            Self::Share(share) => write!(f, "{} %", share * 100.0),
        }
    }
}

fn loss(text: &str) -> Result<Loss, String> {
    let wrong = || format!("'{text}' is not a loss: use a number of frames (0) or a share (0.1%)");
    match text.trim().strip_suffix('%') {
        None => text.trim().parse().map(Loss::Frames).map_err(|_| wrong()),
        Some(share) => share
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|s| (0.0..=100.0).contains(s))
            .map(|s| Loss::Share(s / 100.0))
            .ok_or_else(wrong),
    }
}

fn direction(text: &str) -> Result<Direction, String> {
    Direction::parse(text).map_err(|e| e.to_string())
}

fn rate(text: &str) -> Result<Rate, String> {
    Rate::parse(text).map_err(|e| e.to_string())
}

fn count(text: &str) -> Result<u64, String> {
    measure::rate::number(text).ok_or_else(|| format!("'{text}' is not a number such as 1000, 20k or 1.5M"))
}

fn connections(text: &str) -> Result<u32, String> {
    let most = measure::tag::MAX_FLOWS;
    let number = count(text)?;
    (u32::try_from(number).ok().filter(|n| (1..=most).contains(n)))
        .ok_or_else(|| format!("{number} connections cannot be set up: 1 to {most}"))
}

fn sizes(text: &str) -> Result<Sizes, String> {
    Sizes::parse(text).map_err(|e| e.to_string())
}

fn skew(text: &str) -> Result<f64, String> {
    measure::zipf::skew(text).map_err(|e| e.to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    lang::args::parse::<Duration>(text)
        .ok()
        .filter(|t| !t.is_zero())
        .ok_or_else(|| format!("'{text}' is not a time: use seconds (10, 0.5) or a unit (500ms, 2min)"))
}

fn mac(text: &str) -> Result<String, String> {
    match text.parse::<measure::EtherAddr>() {
        Ok(mac) => Ok(format!("{mac:#}")),
        Err(_) => Err(format!("'{text}' is not an Ethernet address such as 02:00:00:00:00:02")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses() {
        assert_eq!(loss("5"), Ok(Loss::Frames(5)));
        assert_eq!(loss("0.5 %"), Ok(Loss::Share(0.005)));
        assert!(loss("x").is_err() && loss("-1").is_err() && loss("101%").is_err() && loss("").is_err());
        assert!(!Loss::Frames(0).exceeded(0, 10) && Loss::Frames(0).exceeded(1, 10));
        assert!(!Loss::Share(0.1).exceeded(1, 10) && Loss::Share(0.1).exceeded(2, 10));
    }

    #[test]
    fn times_and_addresses() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert!(time("0").is_err() && time("-1").is_err() && time("soon").is_err());
        assert_eq!(mac("2:0:0:0:0:a").as_deref(), Ok("02:00:00:00:00:0A"));
        assert!(mac("2:0:0").is_err());
    }
}
