//! # EtherSwitch
//! Switches Ethernet frames between LANs, and learns which addresses are where.
//!
//! Input N and output N lead to the same LAN. The source of a frame that comes in by N is behind N: later
//! frames to this address leave by output N only, and are dropped if they come from there. Frames to other
//! addresses, and to groups, leave by all outputs but the one of their LAN.
//!
//! The class ListenEtherSwitch has one output more than inputs, which gets a copy of every frame.
//!
//! ## Synopsis
//! `EtherSwitch([TIMEOUT, CAPACITY])`, `ListenEtherSwitch([TIMEOUT, CAPACITY])`
//!
//! ## Arguments
//! - `TIMEOUT` (*time*, in seconds, keyword, default 300): when no frame of an address came for so long, by
//!   frames' timestamps, it is forgotten. With 0 nothing is learned.
//! - `CAPACITY` (*int*, keyword, default 65536): the most addresses. When there is one more, the one that
//!   sent nothing for the longest time is forgotten. Click has no limit.
//!
//! ## Ports
//! Two or more push inputs, and as many push outputs; ListenEtherSwitch any number of inputs, and one output
//! more.
//!
//! ## Handlers
//! - `table` (read): a line for each address, with its port, in the order of addresses.
//! - `timeout` (read/write): the argument, in seconds.
//! - `port_forwarding` (read): for each input a line with the number of outputs that its frames may leave by,
//!   and a digit for each output, 1 if it is one of these.
//! - `remove_port_forwarding` (write, *INPUT OUTPUT...*, and more behind commas): frames that come by an
//!   input do not leave by these outputs any more. `ListenEtherSwitch` looks at this for frames to all only.
//! - `reset_port_forwarding` (write): they do again.
//!
//! ## Threads
//! All workers use the same addresses, one after the other, a batch at a time. A hot swap keeps them, and
//! which inputs forward to which outputs, also with other arguments; what was about a port that is gone is
//! forgotten.
//!
//! ## Example
//! ```click
//! sw :: EtherSwitch;
//! InfiniteSource(LIMIT 2, STOP true) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> sw -> Discard;
//! Idle -> [1] sw [1] -> Print(lan1) -> Discard;
//! Idle -> [2] sw [2] -> Print(lan2) -> Discard;
//! ```
//!
//! ## See also
//! EtherSpanTree, Hub, EtherMirror, HostEtherFilter

use crate::plumbing::engine::text;
use crate::prelude::*;
use locks::IgnorePoison;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tables::ExactMap;
use wire::{EtherAddr, Ethernet};

const SAME_LAN: DropReason = DropReason::new("its destination is in the LAN that it came from");
const NO_OTHER_LAN: DropReason = DropReason::new("no other LAN");
const NOT_FORWARDED: DropReason = DropReason::new("not forwarded between these LANs");

/// Where an address is, and the time of its last frame.
#[derive(Clone, Copy)]
struct Place {
    port: usize,
    at_ns: u64,
}

/// What the workers share.
pub(super) struct Shared(Mutex<State>);

impl Shared {
    /// Has addresses forgotten after so many seconds, if that is sooner than the argument says. `None`: no
    /// longer.
    pub(super) fn forget_after(&self, seconds: Option<u32>) {
        self.0.lock().ignore_poison().sooner_s = seconds;
    }
}

struct State {
    places: ExactMap<EtherAddr, Place>,
    /// How many frames have come: the order in which addresses were used.
    clock: u64,
    timeout_s: u32,
    /// A shorter time, while the topology of the network changes.
    sooner_s: Option<u32>,
    outputs: usize,
    /// Inputs with outputs that their frames do not leave by.
    barred: BTreeSet<(usize, usize)>,
    /// Whether a hot swap has brought what another state had.
    adopted: bool,
}

impl State {
    fn new(capacity: usize, timeout_s: u32) -> Self {
        let places = ExactMap::new(capacity);
        let barred = BTreeSet::new();
        Self { places, clock: 0, timeout_s, sooner_s: None, outputs: 0, barred, adopted: false }
    }

    /// Goes on with the addresses of another state that are behind one of so many ports, as many as there is
    /// room for, and with its rules between ports that there are. Has an effect once.
    fn adopt(&mut self, old: &Self, ports: usize) {
        if std::mem::replace(&mut self.adopted, true) {
            return;
        }
        // The order of use stays: the oldest come first, and are the first to go.
        for (address, place, used) in old.places.iter().filter(|(_, place, _)| place.port < ports) {
            self.places.insert(*address, *place, used);
        }
        self.clock = old.clock;
        let outputs = self.outputs;
        self.barred = old.barred.iter().copied().filter(|(i, o)| *i < outputs && *o < outputs).collect();
    }

    /// Whether frames may pass from an input to an output.
    fn forwards(&self, input: usize, output: usize) -> bool {
        input != output && !self.barred.contains(&(input, output))
    }

    fn forwarding(&self) -> String {
        let mut text = String::new();
        for input in 0..self.outputs {
            let to: Vec<bool> = (0..self.outputs).map(|output| self.forwards(input, output)).collect();
            let digits: String = to.iter().map(|to| if *to { '1' } else { '0' }).collect();
            let weight = to.iter().filter(|to| **to).count();
            let _ = writeln!(text, "weight: {weight}\t{input}: {digits}");
        }
        text
    }

    /// Bars inputs from outputs, as the handler says.
    ///
    /// # Errors
    /// There is no such port; then nothing changes.
    fn bar(&mut self, text: &str) -> Result<(), String> {
        let mut barred = self.barred.clone();
        for rule in lang::split_args(text) {
            let ports: Result<Vec<usize>, _> = rule.text.split_whitespace().map(str::parse).collect();
            match ports.as_deref() {
                Ok([input, outputs @ ..])
                    if [input].into_iter().chain(outputs).all(|p| *p < self.outputs) =>
                {
                    barred.extend(outputs.iter().map(|output| (*input, *output)));
                }
                _ => return Err("invalid port forwarding".into()),
            }
        }
        self.barred = barred;
        Ok(())
    }

    /// Learns from a frame, and says behind which of so many ports its destination is.
    fn port(&mut self, [src, dst]: [EtherAddr; 2], port: usize, ports: usize, at_ns: u64) -> Option<usize> {
        if self.timeout_s == 0 {
            return None;
        }
        self.clock += 1;
        self.places.insert(src, Place { port, at_ns }, self.clock);
        if dst.is_group() {
            return None;
        }
        let place = *self.places.get(&dst)?;
        // A hot swap may have removed the port.
        let timeout_s = self.timeout_s.min(self.sooner_s.unwrap_or(u32::MAX));
        let until_ns = place.at_ns.saturating_add(u64::from(timeout_s) * 1_000_000_000);
        if at_ns < until_ns && place.port < ports {
            return Some(place.port);
        }
        self.places.remove(&dst);
        None
    }
}

/// The `EtherSwitch` element, and with `LISTEN` the `ListenEtherSwitch` element.
pub struct EtherSwitch<const LISTEN: bool> {
    shared: Arc<Shared>,
}

impl<const LISTEN: bool> Element for EtherSwitch<LISTEN> {
    const CLASS: &'static str = if LISTEN { "ListenEtherSwitch" } else { "EtherSwitch" };
    const PORTS: &'static str = if LISTEN { "-/=+" } else { "2-/=" };
    const PROCESSING: &'static str = "h/h";
    const FLOW: &'static str = "#/[^#]";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::TIMESTAMP);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        SAME_LAN.when("the input that the frame came by is that of its destination"),
        NO_OTHER_LAN.when("there is no output that frames of its input may leave by"),
        NOT_FORWARDED.when("frames of its input may not leave by the output of its destination"),
        drops::TOO_SHORT_FOR_ETHERNET,
        drops::NO_COPY,
    ];
    const MANUAL: &'static str = manual!("ethernet/etherswitch");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let timeout = args.k_or("TIMEOUT", Duration::from_secs(300))?;
        let timeout_s = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
        let capacity = args.k_or("CAPACITY", 1u32 << 16)?.max(1) as usize;
        Ok(Self { shared: cx.shared(|| Shared(Mutex::new(State::new(capacity, timeout_s)))) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Shared>("table", |s, _| {
            let state = s.0.lock().ignore_poison();
            let mut all: Vec<(EtherAddr, usize)> =
                state.places.iter().map(|(a, p, _)| (*a, p.port)).collect();
            drop(state);
            all.sort_by_key(|(address, _)| address.octets());
            let mut text = String::new();
            for (address, port) in all {
                let _ = writeln!(text, "{address} {port}");
            }
            Ok(text)
        });
        h.shared_read::<Shared>("timeout", |s, _| Ok(s.0.lock().ignore_poison().timeout_s.to_string()));
        h.shared_write::<Shared>("timeout", |s, value| {
            let timeout: Duration = text::value(value, "expected timeout (integer)")?;
            s.0.lock().ignore_poison().timeout_s = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
            Ok(())
        });
        h.shared_read::<Shared>("port_forwarding", |s, _| Ok(s.0.lock().ignore_poison().forwarding()));
        h.shared_write::<Shared>("remove_port_forwarding", |s, value| s.0.lock().ignore_poison().bar(value));
        h.shared_write::<Shared>("reset_port_forwarding", |s, _| {
            s.0.lock().ignore_poison().barred.clear();
            Ok(())
        });
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.shared.0.lock().ignore_poison().outputs = cx.n_outputs();
        Ok(())
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        if !Arc::ptr_eq(&self.shared, &old.shared) {
            let ports = cx.n_outputs().saturating_sub(usize::from(LISTEN));
            let old = old.shared.0.lock().ignore_poison();
            self.shared.0.lock().ignore_poison().adopt(&old, ports);
        }
    }
}

/// Emits a copy.
fn copy(packet: &Packet, output: usize, cx: &mut Cx<'_>) {
    match packet.duplicate() {
        Some(copy) => cx.output(output, copy),
        None => cx.count_drops(1, drops::OUT_OF_MEMORY),
    }
}

impl<const LISTEN: bool> Vector for EtherSwitch<LISTEN> {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let (outputs, shared) = (cx.n_outputs(), Arc::clone(&self.shared));
        let ports = outputs.saturating_sub(usize::from(LISTEN));
        let mut state = shared.0.lock().ignore_poison();
        for packet in batch.drain(..) {
            let Some((src, dst)) = Ethernet::new(packet.data()).map(|frame| (frame.src(), frame.dst()))
            else {
                cx.drop(packet, drops::NO_ETHERNET_HEADER);
                continue;
            };
            let at_ns = match packet.timestamp_ns() {
                0 => cx.now_ns(),
                at_ns => at_ns,
            };
            match state.port([src, dst], port, ports, at_ns) {
                Some(place) if place == port && LISTEN => cx.output(outputs - 1, packet),
                Some(place) if place == port => cx.drop(packet, SAME_LAN),
                Some(place) if LISTEN => {
                    copy(&packet, outputs - 1, cx);
                    cx.output(place, packet);
                }
                Some(place) if state.forwards(port, place) => cx.output(place, packet),
                Some(_) => cx.drop(packet, NOT_FORWARDED),
                None => {
                    let to = |output: &usize| state.forwards(port, *output);
                    let Some(last) = (0..outputs).rev().find(to) else {
                        cx.drop(packet, NO_OTHER_LAN);
                        continue;
                    };
                    (0..last).filter(to).for_each(|output| copy(&packet, output, cx));
                    cx.output(last, packet);
                }
            }
        }
        drop(state);
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// The outputs of a frame between hosts whose addresses end with these numbers.
    fn send(bench: &mut Bench, port: usize, src: u8, dst: u8, second: u64) -> Vec<usize> {
        let group = u8::from(dst == 0xff);
        let mut packet = Packet::from_bytes(&[group, 0, 0, 0, 0, dst, 0, 0, 0, 0, 0, src, 8, 0]).unwrap();
        packet.set_timestamp_ns(second * 1_000_000_000);
        bench.send(port, packet).iter().map(|(port, _)| *port).collect()
    }

    #[test]
    fn learns_and_forgets() {
        let mut bench = Bench::with_ports("EtherSwitch(TIMEOUT 10)", 3, 3);
        assert_eq!(send(&mut bench, 0, 1, 2, 100), [1, 2]);
        assert_eq!(send(&mut bench, 1, 2, 1, 101), [0]);
        assert_eq!(send(&mut bench, 0, 1, 2, 102), [1]);
        assert_eq!(send(&mut bench, 1, 1, 0xff, 103), [0, 2], "to all, and the host has moved");
        assert!(send(&mut bench, 1, 2, 1, 104).is_empty());
        assert_eq!(bench.drops(), [("its destination is in the LAN that it came from".to_owned(), 1)]);
        assert_eq!(bench.read("table"), "00-00-00-00-00-01 1\n00-00-00-00-00-02 1\n");
        assert_eq!(send(&mut bench, 2, 3, 2, 114), [0, 1], "its time is over");
        assert_eq!(bench.read("table"), "00-00-00-00-00-01 1\n00-00-00-00-00-03 2\n");
        bench.write("timeout", "0");
        assert_eq!((send(&mut bench, 2, 3, 1, 114), bench.read("timeout")), (vec![0, 1], "0".into()));
        assert!(bench.push(0, &[0; 13]).is_empty());
    }

    #[test]
    fn addresses_behind_ports_that_are_gone_are_forgotten() {
        let [a, b] = [1, 2].map(|n| EtherAddr([2, 0, 0, 0, 0, n]));
        let mut state = State::new(4, 300);
        state.port([a, b], 2, 3, 1);
        assert_eq!(state.port([b, a], 0, 3, 2), Some(2));
        assert_eq!(state.port([b, a], 0, 2, 3), None);
        assert_eq!(state.places.iter().map(|(address, ..)| *address).collect::<Vec<_>>(), [b]);
    }

    #[test]
    fn without_timestamps_the_time_is_the_routers() {
        let config = "e :: EtherSwitch(TIMEOUT 1); TimedSource(1) -> Discard;";
        let mut bench = Bench::simulated(config, 3, 3);
        let frame = |src: u8, dst: u8| [0, 0, 0, 0, 0, dst, 0, 0, 0, 0, 0, src, 8, 0];
        bench.push(0, &frame(1, 9));
        assert_eq!(bench.push(1, &frame(2, 1)).len(), 1);
        bench.turns(50);
        assert_eq!(bench.push(1, &frame(2, 1)).len(), 2, "its time is over");
    }

    #[test]
    fn the_listener_gets_everything() {
        let mut bench = Bench::with_ports("ListenEtherSwitch()", 2, 3);
        assert_eq!(send(&mut bench, 0, 1, 2, 1), [1, 2]);
        assert_eq!(send(&mut bench, 1, 2, 1, 1), [2, 0]);
        assert_eq!(send(&mut bench, 0, 2, 1, 1), [2]);
    }

    #[test]
    fn frames_do_not_pass_where_they_may_not() {
        let mut bench = Bench::with_ports("EtherSwitch()", 4, 4);
        bench.write("remove_port_forwarding", "0 1 2, 1 0");
        let rules = "weight: 1\t0: 0001\nweight: 2\t1: 0011\nweight: 3\t2: 1101\nweight: 3\t3: 1110\n";
        assert_eq!(bench.read("port_forwarding"), rules);
        assert_eq!(send(&mut bench, 0, 1, 9, 1), [3]);
        assert_eq!(send(&mut bench, 1, 2, 9, 1), [2, 3]);
        assert!(send(&mut bench, 0, 1, 2, 1).is_empty());
        assert_eq!(bench.drops(), [("not forwarded between these LANs".to_owned(), 1)]);
        for wrong in ["0 4", "4 0", "0 x", "0 3, -1"] {
            let error = bench.try_write("remove_port_forwarding", wrong).unwrap_err();
            assert!(error.to_string().contains("invalid port forwarding"), "{error}");
        }
        assert_eq!(bench.read("port_forwarding"), rules);
        bench.write("remove_port_forwarding", "0 3");
        assert!(send(&mut bench, 0, 1, 9, 1).is_empty());
        bench.write("reset_port_forwarding", "");
        assert_eq!(send(&mut bench, 0, 1, 9, 1), [1, 2, 3]);
    }

    #[test]
    fn swaps_keep_addresses_and_rules() {
        let mut bench = Bench::with_ports("EtherSwitch(TIMEOUT 10, CAPACITY 8)", 4, 4);
        for (port, src) in [(0, 1), (1, 2), (3, 3), (2, 4), (0, 1)] {
            send(&mut bench, port, src, 0xff, 100);
        }
        bench.write("remove_port_forwarding", "0 1 3");
        let mut swap = |arguments: &str| {
            let text = format!(
                "e :: EtherSwitch({arguments}); Idle -> e -> Discard; Idle -> [1] e [1] -> Discard;
                Idle -> [2] e [2] -> Discard;"
            );
            bench.router().hotswap(lang::Source::new("next", text)).unwrap();
            (bench.read("table"), bench.read("port_forwarding"))
        };
        let rules = "weight: 1\t0: 001\nweight: 2\t1: 101\nweight: 2\t2: 110\n";
        let all = "00-00-00-00-00-01 0\n00-00-00-00-00-02 1\n00-00-00-00-00-04 2\n";
        assert_eq!(swap("TIMEOUT 20, CAPACITY 8"), (all.into(), rules.into()));
        // The one that was used last stays, with the one before it.
        let two = "00-00-00-00-00-01 0\n00-00-00-00-00-04 2\n";
        assert_eq!(swap("TIMEOUT 20, CAPACITY 2"), (two.into(), rules.into()));
        assert_eq!(swap("TIMEOUT 20, CAPACITY 2"), (two.into(), rules.into()));
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let mut bench = Bench::with_ports("EtherSwitch(CAPACITY 2)", 2, 2);
        for src in 1..5 {
            send(&mut bench, 0, src, 9, 1);
        }
        assert_eq!(bench.read("table"), "00-00-00-00-00-03 0\n00-00-00-00-00-04 0\n");
    }
}
