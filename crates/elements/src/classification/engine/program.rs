//! Code that the three classifying elements share: a compiled program, run over batches.

use crate::prelude::*;
use classify::{Compiled, Errors, IpParts, Names, Path, Program, Severity};
use lang::args::NameDb;

/// A program, and the outputs that it has chosen for the current batch.
pub(crate) struct Engine {
    pub(crate) program: Program,
    /// The output of the most recent packet on the general path: probably that of the next ones.
    pub(crate) usual: usize,
    /// The tests on the way to each output, if they are few.
    paths: Vec<Option<Path>>,
    chosen: Vec<usize>,
}

/// The configuration's names, in the form that the compiler needs.
pub(crate) struct Known<'a>(pub(crate) &'a NameDb);

impl Names for Known<'_> {
    fn ip_address(&self, name: &str) -> Option<[u8; 4]> {
        self.0.ip(name).map(|a| a.octets())
    }
    fn ip_prefix(&self, name: &str) -> Option<([u8; 4], [u8; 4])> {
        self.0.ip_prefix(name).map(|p| (p.addr.octets(), p.mask.octets()))
    }
    fn ip6_address(&self, name: &str) -> Option<[u8; 16]> {
        self.0.ip6(name).map(|a| a.octets())
    }
    fn ether_address(&self, name: &str) -> Option<[u8; 6]> {
        self.0.ether(name).map(|a| a.0)
    }
    fn tcp_port(&self, name: &str) -> Option<u16> {
        self.0.port(wire::protocol::TCP, name)
    }
    fn udp_port(&self, name: &str) -> Option<u16> {
        self.0.port(wire::protocol::UDP, name)
    }
    fn ip_proto(&self, name: &str) -> Option<u8> {
        self.0.protocol(name).and_then(|p| p.try_into().ok())
    }
    fn icmp_type(&self, name: &str) -> Option<u8> {
        self.0.icmp_type(name)
    }
}

impl Engine {
    /// Compiles all arguments. Errors and warnings point at the pattern that they are about.
    pub(crate) fn compile(
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
        compile: impl FnOnce(&[String], &dyn Names) -> Result<Compiled, Errors>,
    ) -> Result<Self, ArgError> {
        let list = args.rest_args();
        let patterns: Vec<String> = list.iter().map(|a| lang::unquote(&a.text)).collect();
        let compiled = compile(&patterns, &Known(args.names()));
        let place = |pattern: Option<usize>| pattern.and_then(|p| list.get(p)).and_then(|a| a.span);
        match compiled {
            Ok(Compiled { program, warnings }) => {
                for warning in warnings {
                    cx.warn_at(place(warning.pattern), warning.message);
                }
                let paths = (0..cx.n_outputs()).map(|output| program.path_to(output)).collect();
                Ok(Self { program, usual: 0, paths, chosen: Vec::with_capacity(runtime::MAX_BATCH) })
            }
            Err(Errors(errors)) => {
                let mut first = None;
                for e in errors.into_iter().filter(|e| e.severity == Severity::Error) {
                    let mut error = ArgError::new(e.message).at(place(e.pattern));
                    if let Some(hint) = e.hint {
                        error = error.with_help(hint);
                    }
                    let error = args.remember(error);
                    first = first.or(Some(error));
                }
                Err(first.unwrap_or_else(|| ArgError::new("bad pattern")))
            }
        }
    }

    /// Chooses an output for each packet by its bytes from the first on.
    pub(crate) fn push_bytes(&mut self, batch: Batch, cx: &mut Cx<'_>) {
        self.chosen.clear();
        self.program.match_many(batch.iter().map(Packet::data), &mut self.chosen);
        self.distribute(batch, cx);
    }

    /// Chooses an output for each packet by its IP header. If no header is marked, the header is assumed to
    /// be at the packet's start.
    pub(crate) fn push_ip(&mut self, batch: Batch, cx: &mut Cx<'_>) {
        self.chosen.clear();
        for packet in batch.iter() {
            self.chosen.push(self.choose_by_ip(packet));
        }
        self.distribute(batch, cx);
    }

    fn choose_by_ip(&self, packet: &Packet) -> usize {
        self.program.match_parts(&ip_parts(packet))
    }

    fn usual_path(&self) -> Option<&Path> {
        self.paths.get(self.usual)?.as_ref()
    }

    /// Whether a packet leaves by the usual output, chosen by its bytes from the first on.
    #[inline]
    pub(crate) fn is_usual_by_bytes(&self, packet: &Packet) -> bool {
        let data = packet.data();
        self.usual_path().is_some_and(|path| path.takes_bytes(data))
            || self.program.match_bytes(data) == self.usual
    }

    /// How many packets leave by the usual output, from the first on, chosen by their bytes from the first
    /// on.
    pub(crate) fn usual_by_bytes(&self, packets: &[Packet]) -> usize {
        let mut done = self.usual_path().map_or(0, |path| path.takes_first(packets.iter().map(Packet::data)));
        while packets.get(done).is_some_and(|packet| self.is_usual_by_bytes(packet)) {
            done += 1;
        }
        done
    }

    /// Whether a packet leaves by the usual output, chosen by its IP header.
    #[inline]
    pub(crate) fn is_usual_by_ip(&self, packet: &Packet) -> bool {
        let parts = ip_parts(packet);
        self.usual_path().is_some_and(|path| path.takes_parts(&parts.regions()))
            || self.program.match_parts(&parts) == self.usual
    }

    /// How many packets leave by the usual output, from the first on, chosen by their IP headers.
    pub(crate) fn usual_by_ip(&self, packets: &[Packet]) -> usize {
        let path = self.usual_path().filter(|path| path.only_network());
        let mut done = path.map_or(0, |path| path.takes_first(packets.iter().map(network)));
        while packets.get(done).is_some_and(|packet| self.is_usual_by_ip(packet)) {
            done += 1;
        }
        done
    }

    fn distribute(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        let outputs = cx.n_outputs();
        if let Some(&last) = self.chosen.last().filter(|o| **o < outputs) {
            self.usual = last;
        }
        // Usually all packets of a batch have the same output; then the batch is not split.
        if let Some((&first, rest)) = self.chosen.split_first()
            && first < outputs
            && rest.iter().all(|o| *o == first)
        {
            return cx.output_batch(first, batch);
        }
        for (packet, &output) in batch.drain(..).zip(&self.chosen) {
            if output < outputs {
                cx.output(output, packet);
            } else {
                cx.drop(packet, drops::NO_PATTERN_MATCHES);
            }
        }
        cx.recycle(batch);
    }
}

/// An IP packet from its header on; without a marked header, it is assumed to be at the packet's start.
#[inline]
fn network(packet: &Packet) -> &[u8] {
    packet.network_header().unwrap_or_else(|| packet.data())
}

/// The parts of an IP packet.
#[inline]
fn ip_parts(packet: &Packet) -> IpParts<'_> {
    IpParts { mac: packet.mac_header().unwrap_or_default(), ..IpParts::from_network(network(packet)) }
}
