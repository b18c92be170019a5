//! Drop reasons that several files use, so that each reason has one name, and the state that the elements
//! that check headers have in common.

use crate::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const ANOTHER_VERSION: DropReason = DropReason::new("another version");
pub(crate) const ARP_ENTRY_REMOVED: DropReason = DropReason::new("ARP entry removed");
pub(crate) const BAD_IP_LENGTH: DropReason = DropReason::new("bad IP length");
pub(crate) const BAD_PACKET_LENGTH: DropReason = DropReason::new("bad packet length");
pub(crate) const CONSUMER_MOVED: DropReason = DropReason::new("consumer moved");
pub(crate) const CRYPTO_SILENT: DropReason = DropReason::new("crypto device does not answer");
pub(crate) const CRYPTO_REFUSED: DropReason = DropReason::new("crypto device refused");
pub(crate) const FRAME_TOO_SHORT: DropReason = DropReason::new("frame too short");
pub(crate) const HOST_QUEUE_FULL: DropReason = DropReason::new("host queue full");
pub(crate) const INPUT_REMOVED: DropReason = DropReason::new("input removed");
pub(crate) const LIFETIME_OVER: DropReason = DropReason::new("lifetime over");
pub(crate) const LINK_BROADCAST: DropReason = DropReason::new("link broadcast");
pub(crate) const LONGER_THAN_THE_MTU: DropReason = DropReason::new("longer than the MTU");
pub(crate) const LONGER_THAN_BUFFERS: DropReason = DropReason::new("longer than the port's buffers");
pub(crate) const OUTSIDE_NETWORK: DropReason = DropReason::new("next hop outside of the network");
pub(crate) const NO_ARP_REPLY: DropReason = DropReason::new("no ARP reply");
pub(crate) const NO_SEND_BUFFER: DropReason = DropReason::new("no buffer to send from");
pub(crate) const NO_DEVICE: DropReason = DropReason::new("no device");
pub(crate) const NO_ETHERNET_HEADER: DropReason = DropReason::new("no Ethernet header");
pub(crate) const NO_IP_HEADER: DropReason = DropReason::new("no IP header");
pub(crate) const NO_NEXT_HOP: DropReason = DropReason::new("no next hop");
pub(crate) const NO_PATTERN_MATCHES: DropReason = DropReason::new("no pattern matches");
pub(crate) const NO_PLACE_FOR_THE_ADDRESS: DropReason = DropReason::new("no place for the address");
pub(crate) const NO_SUCH_PORT: DropReason = DropReason::new("no such port");
pub(crate) const NOT_MADE_HERE: DropReason = DropReason::new("not made by this node");
pub(crate) const UNREACHABLE_NODE: DropReason = DropReason::new("unreachable output node");
pub(crate) const NO_SUCH_NODE: DropReason = DropReason::new("no such node");
pub(crate) const NOT_AN_INTERNAL_ADDRESS: DropReason = DropReason::new("not an internal address");
pub(crate) const NOT_FOR_THIS_NODE: DropReason = DropReason::new("not for this node");
pub(crate) const NOT_WRITTEN: DropReason = DropReason::new("not written");
pub(crate) const OUT_OF_MEMORY: DropReason = DropReason::new("out of memory");
pub(crate) const PACKET_TOO_LONG: DropReason = DropReason::new("packet too long");
pub(crate) const PORT_GONE: DropReason = DropReason::new("port gone");
pub(crate) const PORT_REPLACED: DropReason = DropReason::new("port replaced");
pub(crate) const QUEUE_FULL: DropReason = DropReason::new("queue full");
pub(crate) const QUEUE_RESET: DropReason = DropReason::new("queue reset");
pub(crate) const QUEUE_SHORTENED: DropReason = DropReason::new("queue shortened");
pub(crate) const NO_BUFFER_FOR_PIECES: DropReason =
    DropReason::new("receive: no buffer for a packet in several pieces");
pub(crate) const REFUSED_BY_THE_INTERFACE: DropReason = DropReason::new("refused by the interface");
pub(crate) const RECEIVE_RING_FULL: DropReason = DropReason::new("receive: ring full");
pub(crate) const RULE_SAYS: DropReason = DropReason::new("a rule says so");
pub(crate) const SEQUENCE_NUMBERS_USED_UP: DropReason = DropReason::new("sequence numbers used up");
pub(crate) const SWITCHED_OFF: DropReason = DropReason::new("switched off");
pub(crate) const TRANSMIT_QUEUE_NOT_SERVED: DropReason = DropReason::new("transmit queue not served");
pub(crate) const TRANSMIT_QUEUE_FULL: DropReason = DropReason::new("transmit queue full");
pub(crate) const WORKER_RING_FULL: DropReason = DropReason::new("worker's ring full");

// Drop reasons with descriptions that several classes have in common.
pub(crate) const NO_ANSWER_OF_DEVICE: DropCase =
    CRYPTO_SILENT.when("it took the batch and did not give it back within 100 ms");
pub(crate) const NO_COPY: DropCase = OUT_OF_MEMORY.when("a copy could not be made");
pub(crate) const NO_ROOM_FOR_A_HEADER: DropCase =
    OUT_OF_MEMORY.when("the packet had no room in front for the header and could not be moved");
pub(crate) const NO_WHOLE_IP_HEADER: DropCase = NO_IP_HEADER.when("none is marked, or it is not whole");
pub(crate) const NOT_TAKEN_BY_DEVICE: DropCase = CRYPTO_REFUSED.when("the device did not take the packet");
pub(crate) const RESET_BY_HANDLER: DropCase = QUEUE_RESET.when("the handler `reset` emptied the queue");
pub(crate) const SHORTENED_BY_HANDLER: DropCase =
    QUEUE_SHORTENED.when("the handler `capacity` left no room for the packet");
pub(crate) const TOO_SHORT_FOR_ETHERNET: DropCase =
    NO_ETHERNET_HEADER.when("the packet is too short to have one");

/// The state that the replicas of an element that checks headers share: whether `drop_details` may be read,
/// and whether the first bad packet was reported.
pub(crate) struct Details {
    wanted: bool,
    reported: AtomicBool,
}

impl Details {
    /// The details of the element that is being configured.
    pub(crate) fn of(cx: &mut ConfigCx<'_>, wanted: bool) -> Arc<Self> {
        cx.shared(|| Self { wanted, reported: AtomicBool::new(false) })
    }

    /// Returns true once, for the first bad packet.
    pub(crate) fn is_first(&self) -> bool {
        !self.reported.load(Ordering::Relaxed) && !self.reported.swap(true, Ordering::Relaxed)
    }

    /// Click's handlers: `drops`, the number of bad packets, and `drop_details`, a line for each reason with
    /// the number, a tab and the reason.
    pub(crate) fn handlers<T: Element>(h: &mut Handlers<T>) {
        h.stats("drops", |stats| stats.rejected.iter().map(|(_, n)| n).sum::<u64>().to_string());
        h.shared_stats::<Self>("drop_details", |details, stats| {
            if !details.wanted {
                return Err("no details without DETAILS true".into());
            }
            Ok(stats.rejected.iter().map(|(reason, n)| format!("{n}\t{reason}\n")).collect())
        });
    }
}

#[cfg(test)]
mod tests {
    use runtime::testing::Bench;

    #[test]
    fn counts_stay_when_the_configuration_is_replaced() {
        let config = "s :: InfiniteSource(DATA a, LIMIT 3) -> c :: CheckIPHeader(DETAILS true) -> u :: CheckUDPHeader -> Discard;";
        for workers in [1, 2] {
            let options = runtime::Options { hotswap: true, workers, ..runtime::Options::default() };
            let mut bench = Bench::with(&crate::registry(), config, 0, 0, options);
            let mut last = 0;
            for _ in 0..10 {
                bench.run();
                bench.router().write("hotconfig", config).unwrap();
                let now: u64 = bench.read("c.drops").parse().unwrap();
                assert!(now > 0 && now >= last, "{now} after {last}");
                last = now;
            }
            let counts = bench.read("c.drop_details");
            let total: u64 =
                counts.lines().map(|l| l.split('\t').next().unwrap().parse::<u64>().unwrap()).sum();
            assert_eq!(total, last, "{counts}");
        }
    }
}
