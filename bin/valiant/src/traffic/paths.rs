//! Which ports of `valiant gen` send and receive, and which part each sends to which output of the device.

use super::args::GenArgs;
use measure::direction::Direction;
use measure::matrix::{Matrix, Wanted};
use measure::rate::Rate;
use measure::tag::{MAX_OUTPUTS, MAX_STREAMS};

/// A port that sends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sender {
    pub(crate) port: String,
    /// It is one of the second side: what is the source there is the destination here.
    pub(crate) reverse: bool,
    /// The destination's Ethernet address.
    pub(crate) dst_mac: String,
}

/// Who sends what to whom.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Paths {
    pub(crate) senders: Vec<Sender>,
    pub(crate) receivers: Vec<String>,
    /// The addresses behind each port that receives, if they are known.
    pub(crate) outputs: Vec<String>,
    /// The parts of the senders' rate for each port that receives, if its addresses are known.
    pub(crate) matrix: Option<Matrix>,
    /// Ports of both sides send, and nothing but the side is known of where their frames belong: so many
    /// ports are on the first one.
    pub(crate) first_side: Option<usize>,
}

impl Paths {
    /// As the options say.
    ///
    /// # Errors
    /// They do not go together; the message names them.
    pub(crate) fn new(args: &GenArgs) -> Result<Self, String> {
        let to: Vec<String> = args.ports.iter().chain(&args.to).cloned().collect();
        // Connections that are there already are set up from the first side to the second.
        let direction = if args.set_up.is_some() { Direction::Forward } else { args.direction };
        let sinks = args.sink.len();
        if direction.turns() && sinks == 0 {
            return Err("--direction: without --sink PORT there is no second side that sends".to_owned());
        }
        if direction == Direction::Both
            && let Some(port) = to.iter().find(|port| args.sink.contains(port))
        {
            return Err(format!("--direction both: {port} is on both sides, and sends and receives anyway"));
        }
        let side = |reverse: bool| {
            move |(port, mac): (String, &String)| Sender { port, reverse, dst_mac: mac.clone() }
        };
        let macs = macs(args, to.len())?;
        let first: Vec<Sender> = to.iter().cloned().zip(&macs).map(side(false)).collect();
        let second: Vec<Sender> =
            args.sink.iter().cloned().zip(macs.iter().skip(to.len())).map(side(true)).collect();
        let (senders, _) = direction.ends(&first, &second);
        let (_, receivers) = direction.ends(&to, &args.sink);
        if senders.len() > usize::from(MAX_STREAMS) {
            return Err(format!("{} ports to send to are too many, up to {MAX_STREAMS}", senders.len()));
        }
        let outputs = outputs(args, to.len())?;
        if outputs.is_empty() {
            if args.matrix.is_some() {
                return Err(
                    "--matrix: the addresses behind each --sink are needed, with --outputs ADDRESSES for each"
                        .to_owned(),
                );
            }
            let first_side = (direction == Direction::Both && args.pcap.is_none()).then_some(to.len());
            return Ok(Self { senders, receivers, outputs, matrix: None, first_side });
        }
        if receivers.len() > MAX_OUTPUTS {
            return Err(format!(
                "--outputs: {} ports to receive from are too many, up to {MAX_OUTPUTS}",
                receivers.len()
            ));
        }
        let read = |path: &str| launch::read_text(std::path::Path::new(path));
        let text = args.matrix.as_deref().unwrap_or("uniform");
        let matrix = Wanted::load(text, read)
            .and_then(|wanted| direction.matrix(&wanted, to.len(), sinks, args.seed))
            .map_err(|bad| format!("--matrix: {bad}"))?;
        if args.rate == Rate::Unlimited
            && let Some(row) = (0..matrix.inputs()).find(|row| is_part(matrix.from(*row)))
        {
            return Err(format!(
                "--matrix: row {} adds up to {}, and a part of the rate is known only with --rate RATE",
                row + 1,
                matrix.from(row)
            ));
        }
        Ok(Self { senders, receivers, outputs, matrix: Some(matrix), first_side: None })
    }

    /// The part of the rate that a port sends.
    pub(crate) fn part(&self, sender: usize) -> f64 {
        self.matrix.as_ref().map_or(1.0, |matrix| matrix.from(sender))
    }

    /// The rate of all that send together, in parts of the rate of one.
    pub(crate) fn load(&self) -> f64 {
        self.matrix.as_ref().map_or(self.senders.len() as f64, measure::direction::load)
    }

    /// How many of `count` frames a port sends.
    pub(crate) fn share(&self, count: u64, sender: usize) -> u64 {
        let Some(matrix) = &self.matrix else {
            return Rate::Packets(count).share(sender, self.senders.len()).per_s().unwrap_or(0);
        };
        let before = |n: usize| (0..n).map(|one| matrix.from(one)).sum::<f64>();
        let until = |n: usize| (count as f64 * (before(n) / self.load())).round() as u64;
        until(sender + 1).min(count) - until(sender).min(count)
    }

    /// The parts of a sender's frames for each output, as text.
    pub(crate) fn parts(&self, sender: usize) -> Option<String> {
        // Parts are differences of sums, which are not exact.
        let text = |part: f64| ((part * 1e12).round() / 1e12).to_string();
        let parts = self.matrix.as_ref()?.parts(sender);
        Some(parts.into_iter().map(text).collect::<Vec<_>>().join(" "))
    }
}

/// Whether a port sends something, but less than all its rate.
pub(crate) fn is_part(part: f64) -> bool {
    part > 0.0 && (part - 1.0).abs() > 1e-6
}

/// The Ethernet address of the next hop at each port that may send: one for all, or one for each.
fn macs(args: &GenArgs, to: usize) -> Result<Vec<String>, String> {
    let all = to + args.sink.len();
    let given = &args.dst_mac;
    let enough = if args.direction.turns() { given.len() == all } else { [to, all].contains(&given.len()) };
    match given.as_slice() {
        [one] => Ok(vec![one.clone(); all]),
        many if enough => Ok(many.to_vec()),
        many => Err(format!(
            "--dst-mac: {} addresses, for {to} ports to send to and {} sinks: one for all, or one for each",
            many.len(),
            args.sink.len()
        )),
    }
}

/// The addresses behind each port that receives; none if they are not given.
fn outputs(args: &GenArgs, to: usize) -> Result<Vec<String>, String> {
    let (there, back, sinks) = (&args.outputs, &args.reverse_outputs, args.sink.len());
    if there.is_empty() && back.is_empty() {
        return Ok(Vec::new());
    }
    if there.len() != sinks {
        return Err(format!("--outputs is given {} times, for {sinks} sinks: once for each", there.len()));
    }
    match (args.direction.turns(), back.len()) {
        (false, 0) => {}
        (false, _) => {
            return Err("--reverse-outputs: only --direction reverse and both send there".to_owned());
        }
        (true, n) if n == to => {}
        (true, n) => {
            return Err(format!(
                "--reverse-outputs is given {n} times, for {to} ports that --direction makes receive: once for each"
            ));
        }
    }
    Ok(args.direction.ends(back, there).1)
}
