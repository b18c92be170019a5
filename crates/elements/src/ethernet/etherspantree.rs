//! # EtherSpanTree
//! Keeps the frames of Ethernet switches that are connected in loops from circling (IEEE 802.1D).
//!
//! Switches tell each other by bridge messages which of them is the root of a tree, and how far it is. A port
//! that is not part of the tree lets no frames through; it does again when the tree has changed. So a loop
//! needs other switches with the protocol, such as those of Linux with `stp_state 1`.
//!
//! A port that becomes part of the tree passes no frames for 15 seconds, and for 15 more only learns
//! addresses; the root's messages can set other times, of 4 to 30 seconds. When a port or another switch
//! reports a change, SWITCH forgets addresses after that time. When messages stay out for 20 seconds (6 to
//! 40), the other switch is given up.
//!
//! As in Click, the priority is 0xdead, so that hardly any other switch is further from being the root; each
//! port costs 1; and an identifier ends with the bytes of ADDR in reverse order.
//!
//! ## Synopsis
//! `EtherSpanTree(ADDR, INPUT_SUPPRESSOR, OUTPUT_SUPPRESSOR, SWITCH)`
//!
//! ## Arguments
//! - `ADDR` (*Ethernet address*): the switch's address.
//! - `INPUT_SUPPRESSOR`, `OUTPUT_SUPPRESSOR` (*element*): a Suppressor in front of SWITCH, and one behind it.
//! - `SWITCH` (*element*): the EtherSwitch.
//!
//! All four elements have as many inputs and outputs as the switch has ports.
//!
//! ## Ports
//! Any number of push inputs and as many push outputs. Input N: bridge messages that port N has received,
//! frames with 0x4242 behind the length. Output N: those that it sends, past the suppressors.
//!
//! ## Handlers
//! - `msgs` (read): a line for the last message of each port, then one for the best: who has sent it, its
//!   port, `TC` if the topology changes, the distance of the root, and which it is; the times in seconds.
//! - `ports` (read): a line for each port: `block`, `listen`, `learn` or `forward`.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! tree :: EtherSpanTree(00-1f-29-4d-f8-31, in, out, switch);
//! in, out :: Suppressor;
//! switch :: EtherSwitch;
//! Idle -> c0 :: Classifier(14/4242, -) -> tree -> Discard;
//! Idle -> c1 :: Classifier(14/4242, -) -> [1] tree [1] -> Discard;
//! c0 [1] -> in -> switch -> out -> Discard;
//! c1 [1] -> [1] in [1] -> [1] switch [1] -> [1] out [1] -> Discard;
//! ```
//!
//! ## See also
//! EtherSwitch, Suppressor

use super::etherswitch::{EtherSwitch, Shared};
use crate::plumbing::engine::gates::Gates;
use crate::plumbing::suppressor::Suppressor;
use crate::prelude::*;
use lang::args::{ElementName, EtherAddr};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

const NOT_A_MESSAGE: DropReason = DropReason::new("not a bridge message");
const TOO_OLD: DropReason = DropReason::new("bridge message too old");

const SECOND_NS: u64 = 1_000_000_000;
/// A time in a message counts 256ths of a second.
const TICK_NS: u64 = SECOND_NS / 256;
const PRIORITY: u64 = 0xdead << 48;
/// What going through a switch costs.
const COST: u32 = 1;
const HELLO: u32 = 0;

/// The group address of all bridges.
const ALL_BRIDGES: [u8; 6] = [1, 0x80, 0xc2, 0, 0, 0];
/// A message with its frame, and padding.
const LENGTH: usize = 60;
/// The bytes of a message that is a notification of a change.
const NOTIFICATION: usize = 21;
/// The bytes of a message with a configuration.
const CONFIGURATION: usize = 52;
const OF_CONFIGURATION: u8 = 0;
const OF_NOTIFICATION: u8 = 0x80;
const CHANGE: u8 = 1;
const ACKNOWLEDGED: u8 = 0x80;

/// What a bridge message says, or what this switch would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    root: u64,
    cost: u32,
    bridge: u64,
    port: u16,
    change: bool,
    /// When the root sent it, in nanoseconds. `None`: it does not age.
    at_ns: Option<u64>,
    /// In seconds.
    max_age: u16,
    hello: u16,
    forward_delay: u16,
}

impl Message {
    /// That of a root.
    fn of_root(id: u64) -> Self {
        let (max_age, hello, forward_delay) = (20, 2, 15);
        Self {
            root: id,
            cost: 0,
            bridge: id,
            port: 0,
            change: false,
            at_ns: None,
            max_age,
            hello,
            forward_delay,
        }
    }
    /// The worst, which stands for none.
    fn none() -> Self {
        Self { cost: u32::from(u16::MAX), port: u16::MAX, ..Self::of_root(u64::MAX) }
    }
    /// The lower, the better.
    fn rank(&self) -> (u64, u32, u64, u16) {
        (self.root, self.cost, self.bridge, self.port)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A message that has come in.
enum Received {
    Configuration { message: Message, age_ns: u64, acknowledged: bool },
    Notification,
}

/// Reads a frame.
fn read(frame: &[u8], now_ns: u64) -> Option<Received> {
    // Bridges do not forward what is sent to this address: whoever sends to another one may be a host
    // far away.
    if field::<6>(frame, 0)? != ALL_BRIDGES {
        return None;
    }
    let len = usize::from(u16::from_be_bytes(field(frame, 12)?));
    let frame = frame.get(..14 + len)?;
    // LLC, and protocol 0. Later versions of the protocol begin with what version 0 has.
    if field::<5>(frame, 14)? != [0x42, 0x42, 3, 0, 0] || frame.len() < NOTIFICATION {
        return None;
    }
    let number = |at: usize| field(frame, at).map(u16::from_be_bytes);
    match field::<1>(frame, 20)?[0] {
        OF_NOTIFICATION => Some(Received::Notification),
        OF_CONFIGURATION if frame.len() >= CONFIGURATION => {
            let flags = field::<1>(frame, 21)?[0];
            let age_ns = u64::from(number(44)?) * TICK_NS;
            let message = Message {
                root: u64::from_be_bytes(field(frame, 22)?),
                cost: u32::from_be_bytes(field(frame, 30)?),
                bridge: u64::from_be_bytes(field(frame, 34)?),
                port: number(42)?,
                change: flags & CHANGE != 0,
                at_ns: Some(now_ns.saturating_sub(age_ns)),
                // The limits of 802.1D: others would have this switch work without end.
                max_age: (number(46)? / 256).clamp(6, 40),
                hello: (number(48)? / 256).clamp(1, 10),
                forward_delay: (number(50)? / 256).clamp(4, 30),
            };
            Some(Received::Configuration { message, age_ns, acknowledged: flags & ACKNOWLEDGED != 0 })
        }
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Block,
    Listen,
    Learn,
    Forward,
}

#[derive(Clone)]
struct Port {
    state: State,
    since_ns: u64,
    /// The last message.
    message: Message,
    /// Whether a notification is to be acknowledged.
    acknowledge: bool,
}

type Found<S> = Box<dyn Fn() -> Option<Arc<S>> + Send>;

/// The `EtherSpanTree` element.
pub struct EtherSpanTree {
    address: [u8; 6],
    id: u64,
    find_gates: [Found<Gates>; 2],
    find_switch: Found<Shared>,
    gates: [Arc<Gates>; 2],
    switch: Option<Arc<Shared>>,
    ports: Vec<Port>,
    best: Message,
    root_port: Option<usize>,
    /// Whether the root is to hear of a change.
    notify: bool,
    /// Until when this switch, as the root, tells others of a change.
    change_until_ns: u64,
}

/// Reads the name of an element of a class.
fn element<S: Send + Sync + 'static>(
    args: &mut Args<'_>,
    cx: &ConfigCx<'_>,
    argument: &str,
    class: &str,
) -> Result<Found<S>, ArgError> {
    let ElementName(name) = args.mp(argument)?;
    match cx.find(&name).filter(|id| cx.class_of(*id).name == class) {
        Some(id) => Ok(Box::new(cx.shared_later::<S>(id))),
        None => Err(args.error(format!("{argument}: element type mismatch, expected {class}"))),
    }
}

impl EtherSpanTree {
    fn say(cx: &Cx<'_>, what: &str) {
        cx.log(Level::INFO, what);
    }

    /// What a port lets through.
    fn apply(&self, port: usize) {
        let Some(state) = self.ports.get(port).map(|p| p.state) else { return };
        self.gates[0].set(port, state >= State::Learn);
        self.gates[1].set(port, state == State::Forward);
    }

    /// Brings a port one step nearer to forwarding, or blocks it.
    fn set_state(&mut self, index: usize, forward: bool, cx: &Cx<'_>) {
        let Some(port) = self.ports.get_mut(index) else { return };
        let next = match (forward, port.state) {
            (true, State::Block) => {
                Self::say(cx, &format!("Setting send_tc_msg: BLOCK -> FORWARD on {index}"));
                self.notify = true;
                State::Listen
            }
            (true, State::Listen) => State::Learn,
            (true, State::Learn | State::Forward) => State::Forward,
            (false, _) => State::Block,
        };
        if next == port.state {
            return;
        }
        if next == State::Block {
            Self::say(cx, &format!("Setting send_tc_msg: FORWARD -> BLOCK on {index}"));
            self.notify = true;
        }
        Self::say(cx, &format!("Changing port {index} from {} to {}", port.state as u8, next as u8));
        port.state = next;
        port.since_ns = cx.now_ns();
        self.apply(index);
    }

    /// What this switch would say on a port.
    fn own(&self, port: usize) -> Message {
        Message { bridge: self.id, port: u16::try_from(port).unwrap_or(u16::MAX), ..self.best }
    }

    /// Whether this switch speaks on a port: it has something better to say than others.
    fn is_designated(&self, index: usize) -> bool {
        let own = self.own(index).rank();
        self.root_port != Some(index) && self.ports.get(index).is_some_and(|p| own <= p.message.rank())
    }

    fn find_tree(&mut self, cx: &Cx<'_>) {
        (self.best, self.root_port) = (Message::of_root(self.id), None);
        for (index, port) in self.ports.iter().enumerate() {
            let through = Message { cost: port.message.cost.saturating_add(COST), ..port.message };
            if through.rank() < self.best.rank() {
                (self.best, self.root_port) = (through, Some(index));
            }
        }
        for index in 0..self.ports.len() {
            let state = self.ports.get(index).map(|p| p.state);
            if self.root_port != Some(index) && !self.is_designated(index) {
                self.set_state(index, false, cx);
            } else if state == Some(State::Block) {
                self.set_state(index, true, cx);
            }
        }
        if self.notify && self.root_port.is_none() {
            self.notify = false;
            let seconds = u64::from(self.best.forward_delay) + u64::from(self.best.max_age);
            self.change_until_ns = cx.now_ns() + seconds * SECOND_NS;
        }
        let changes = self.best.change || self.changes(cx.now_ns());
        if let Some(switch) = &self.switch {
            switch.forget_after(changes.then_some(u32::from(self.best.forward_delay)));
        }
    }

    /// Whether this switch is the root and tells others of a change.
    fn changes(&self, now_ns: u64) -> bool {
        self.root_port.is_none() && now_ns < self.change_until_ns
    }

    /// The frame that a port sends now, if any.
    fn frame(&mut self, index: usize, now_ns: u64) -> Option<Packet> {
        let notifies = self.root_port == Some(index) && self.notify;
        if !notifies && !self.is_designated(index) {
            return None;
        }
        let mut bytes = [0; LENGTH];
        let mut put = |at: usize, value: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + value.len()) {
                place.copy_from_slice(value);
            }
        };
        put(0, &ALL_BRIDGES);
        put(6, &self.address);
        put(14, &[0x42, 0x42, 3]);
        if notifies {
            put(12, &7u16.to_be_bytes());
            put(20, &[OF_NOTIFICATION]);
            return Packet::from_bytes(&bytes);
        }
        let own = self.own(index);
        let port = self.ports.get_mut(index)?;
        let acknowledge = std::mem::take(&mut port.acknowledge);
        let change = own.change || self.changes(now_ns);
        let flags = (u8::from(change) * CHANGE) | (u8::from(acknowledge) * ACKNOWLEDGED);
        // Older by one tick than it is, so that no message circles for ever.
        let age = own.at_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns) / TICK_NS + 1);
        put(12, &38u16.to_be_bytes());
        put(20, &[OF_CONFIGURATION, flags]);
        put(22, &own.root.to_be_bytes());
        put(30, &own.cost.to_be_bytes());
        put(34, &own.bridge.to_be_bytes());
        put(42, &own.port.to_be_bytes());
        put(44, &u16::try_from(age).unwrap_or(u16::MAX).to_be_bytes());
        for (at, seconds) in [(46, own.max_age), (48, own.hello), (50, own.forward_delay)] {
            put(at, &(seconds * 256).to_be_bytes());
        }
        Packet::from_bytes(&bytes)
    }

    /// Moves ports on whose time has come, and forgets messages that are too old.
    fn age(&mut self, cx: &Cx<'_>) {
        let now_ns = cx.now_ns();
        let before = |seconds: u16| now_ns.saturating_sub(u64::from(seconds) * SECOND_NS);
        let (settled, expired) = (before(self.best.forward_delay), before(self.best.max_age));
        for index in 0..self.ports.len() {
            let Some(port) = self.ports.get(index) else { continue };
            if matches!(port.state, State::Listen | State::Learn) && port.since_ns < settled {
                self.set_state(index, true, cx);
            }
            self.apply(index);
        }
        for (index, port) in self.ports.iter_mut().enumerate() {
            if port.message.at_ns.is_some_and(|at_ns| at_ns <= expired) {
                port.message = Message::none();
                Self::say(cx, &format!("Expiring message on port {index}"));
            }
        }
    }

    fn receive(&mut self, index: usize, packet: Packet, cx: &mut Cx<'_>) {
        let now_ns = cx.now_ns();
        let Some(received) = read(packet.data(), now_ns) else { return cx.drop(packet, NOT_A_MESSAGE) };
        let designated = self.is_designated(index);
        let Some(port) = self.ports.get_mut(index) else { return cx.drop(packet, NOT_A_MESSAGE) };
        match received {
            Received::Notification if designated => {
                port.acknowledge = true;
                self.notify = true;
            }
            Received::Notification => {}
            Received::Configuration { message, age_ns, .. }
                if age_ns > u64::from(message.max_age) * SECOND_NS =>
            {
                return cx.drop(packet, TOO_OLD);
            }
            Received::Configuration { message, acknowledged, .. } => {
                // One that is as good is taken too, for its time. So is one that is worse and of the same
                // sender: the network has changed.
                let same = (message.bridge, message.port) == (port.message.bridge, port.message.port);
                if message.rank() <= port.message.rank() || same {
                    port.message = message;
                    self.notify &= !(acknowledged && self.root_port == Some(index));
                }
            }
        }
        drop(packet);
        self.find_tree(cx);
    }
}

impl Element for EtherSpanTree {
    const CLASS: &'static str = "EtherSpanTree";
    const PORTS: &'static str = "-/=";
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "x/y";
    const READS: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        NOT_A_MESSAGE.when("it is too short, of another protocol or of another type"),
        TOO_OLD.when("the message is older than the root says that messages may be"),
    ];
    const MANUAL: &'static str = manual!("ethernet/etherspantree");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        // All that is wrong is reported at once.
        let address = args.mp("ADDR");
        let input = element(args, cx, "INPUT_SUPPRESSOR", Suppressor::CLASS);
        let output = element(args, cx, "OUTPUT_SUPPRESSOR", Suppressor::CLASS);
        let switch = element(args, cx, "SWITCH", EtherSwitch::<false>::CLASS);
        let (EtherAddr(address), find_gates, find_switch) = (address?, [input?, output?], switch?);
        let mut reversed = [0; 8];
        reversed[..6].copy_from_slice(&address);
        let id = PRIORITY | u64::from_le_bytes(reversed);
        let port = Port { state: State::Block, since_ns: 0, message: Message::none(), acknowledge: false };
        Ok(Self {
            address,
            id,
            find_gates,
            find_switch,
            gates: Default::default(),
            switch: None,
            ports: vec![port; cx.n_outputs()],
            best: Message::of_root(id),
            root_port: None,
            notify: false,
            change_until_ns: 0,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("msgs", |e| {
            let mut text = String::new();
            for m in e.ports.iter().map(|p| &p.message).chain([&e.best]) {
                let change = if m.change { "TC" } else { "tc" };
                let (age, hello, delay) = (m.max_age, m.hello, m.forward_delay);
                let _ = writeln!(
                    text,
                    " {:>16x}:{:04x}: {change}  {:x} -> {:>16x}  m/h/d: {age:x}/{hello:x}/{delay:x}",
                    m.bridge, m.port, m.cost, m.root
                );
            }
            text
        });
        h.read("ports", |e| {
            let mut text = String::new();
            for port in &e.ports {
                text += match port.state {
                    State::Block => "block\n",
                    State::Listen => "listen\n",
                    State::Learn => "learn\n",
                    State::Forward => "forward\n",
                };
            }
            text
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for (gates, find) in self.gates.iter_mut().zip(&self.find_gates) {
            *gates = find().ok_or("no Suppressor")?;
        }
        self.switch = (self.find_switch)();
        for index in 0..self.ports.len() {
            self.set_state(index, true, cx);
        }
        cx.timer_after(HELLO, Duration::from_secs(u64::from(self.best.hello)));
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        self.age(cx);
        self.find_tree(cx);
        for index in 0..self.ports.len() {
            if let Some(packet) = self.frame(index, cx.now_ns()) {
                cx.output(index, packet);
            }
        }
        cx.timer_after(HELLO, Duration::from_secs(u64::from(self.best.hello)));
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if self.id != old.id || self.ports.len() != old.ports.len() {
            return;
        }
        (self.best, self.root_port) = (old.best, old.root_port);
        (self.notify, self.change_until_ns) = (old.notify, old.change_until_ns);
        self.ports.clone_from(&old.ports);
        (0..self.ports.len()).for_each(|port| self.apply(port));
    }
}

impl Vector for EtherSpanTree {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            self.receive(port, packet, cx);
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    const CONFIG: &str =
        "e :: EtherSpanTree(0:0:0:0:0:1, in, out, sw); in, out :: Suppressor; sw :: EtherSwitch;
        Idle -> in -> sw -> out -> Discard; Idle -> [1] in [1] -> [1] sw [1] -> [1] out [1] -> Discard;";

    /// A message of another switch, whose times are usual.
    fn message(root: u64, cost: u32, bridge: u64, port: u16, flags: u8) -> Vec<u8> {
        let mut frame =
            vec![1, 0x80, 0xc2, 0, 0, 0, 2, 0, 0, 0, 0, 9, 0, 38, 0x42, 0x42, 3, 0, 0, 0, 0, flags];
        frame.extend(root.to_be_bytes());
        frame.extend(cost.to_be_bytes());
        frame.extend(bridge.to_be_bytes());
        frame.extend(port.to_be_bytes());
        frame.extend([0, 0, 20, 0, 2, 0, 15, 0]);
        frame
    }

    /// What is sent the next time.
    fn hello(bench: &mut Bench) -> Vec<(usize, Vec<u8>)> {
        (0..100).map(|_| bench.turns(1)).find(|out| !out.is_empty()).expect("nothing is sent")
    }

    fn wait(bench: &mut Bench, seconds: u64) {
        let end_ns = bench.router().now_ns() + seconds * SECOND_NS;
        while bench.router().now_ns() < end_ns {
            bench.turns(1);
        }
    }

    #[test]
    fn the_root_speaks_on_all_ports() {
        let mut bench = Bench::simulated(CONFIG, 2, 2);
        let out = hello(&mut bench);
        assert_eq!(out.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0, 1]);
        let mut wanted = message(0xdead_0100_0000_0000, 0, 0xdead_0100_0000_0000, 1, CHANGE);
        wanted[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
        wanted.resize(60, 0);
        assert_eq!(out[1].1, wanted);
        assert_eq!(
            (bench.read("ports"), bench.read("in.active0")),
            ("listen\nlisten\n".into(), "false".into())
        );
        wait(&mut bench, 40);
        assert_eq!(
            (bench.read("ports"), bench.read("out.active1")),
            ("forward\nforward\n".into(), "true".into())
        );
    }

    #[test]
    fn the_second_way_to_the_root_is_blocked_until_the_first_is_gone() {
        let mut bench = Bench::simulated(CONFIG, 2, 2);
        bench.push(0, &message(1, 5, 7, 1, 0));
        bench.push(1, &message(1, 5, 7, 2, 0));
        assert_eq!(bench.read("ports"), "listen\nblock\n");
        let best = format!(" {:>16x}:0001: tc  6 -> {:>16x}  m/h/d: 14/2/f", 7, 1);
        assert_eq!(bench.read("msgs").lines().last(), Some(&best[..]));
        // The first way is gone: its message expires, those of the second go on.
        for _ in 0..15 {
            wait(&mut bench, 2);
            bench.push(1, &message(1, 5, 7, 2, 0));
        }
        assert!(bench.read("msgs").starts_with(" ffffffffffffffff:ffff: tc  ffff -> ffffffffffffffff"));
        assert_ne!(bench.read("ports").lines().last(), Some("block"));
    }

    #[test]
    fn a_change_is_notified_until_it_is_acknowledged() {
        let mut bench = Bench::simulated(CONFIG, 2, 2);
        bench.push(0, &message(1, 5, 7, 1, 0));
        let notified = |out: &[(usize, Vec<u8>)]| out.iter().any(|(port, f)| *port == 0 && f[20] == 0x80);
        assert!(notified(&hello(&mut bench)));
        bench.push(0, &message(1, 5, 7, 1, ACKNOWLEDGED));
        assert!(!notified(&hello(&mut bench)));
        // One from behind port 1 is passed on, and acknowledged there.
        let mut notification = vec![0; 60];
        notification[..6].copy_from_slice(&ALL_BRIDGES);
        notification[12..21].copy_from_slice(&[0, 7, 0x42, 0x42, 3, 0, 0, 0, 0x80]);
        bench.push(1, &notification);
        let out = hello(&mut bench);
        assert!(notified(&out) && out.iter().any(|(port, f)| *port == 1 && f[21] & ACKNOWLEDGED != 0));
    }

    #[test]
    fn what_is_no_message_changes_nothing() {
        let mut bench = Bench::simulated(CONFIG, 2, 2);
        let good = message(1, 5, 7, 1, 0);
        for length in 0..good.len() {
            bench.push(0, &good[..length]);
        }
        let mut elsewhere = good.clone();
        elsewhere[5] = 1;
        let mut short = good.clone();
        short[13] = 37;
        let mut long = good.clone();
        long[12] = 1;
        [elsewhere, short, long].iter().for_each(|frame| drop(bench.push(0, frame)));
        let mut old = good.clone();
        old[44] = 21;
        bench.push(0, &old);
        assert_eq!(bench.read("ports"), "listen\nlisten\n");
        let counts = [
            ("not a bridge message".to_owned(), good.len() as u64 + 3),
            ("bridge message too old".to_owned(), 1),
        ];
        assert_eq!(bench.drops(), counts);
        // Times that would have it work without end, or never.
        let mut times = good;
        times[46..52].copy_from_slice(&[0; 6]);
        bench.push(0, &times);
        assert!(bench.read("msgs").contains("m/h/d: 6/1/4"));
    }
}
