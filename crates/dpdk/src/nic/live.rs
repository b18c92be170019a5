//! What is tried while the port runs: queues, the hash and its table, VLANs, schedulers, clocks.

use std::collections::BTreeSet;

use super::found::{Bench, Said, Tried, Way, queues};
use super::frames::{Arrived, Frames};

/// How many flows are sent to see how they are distributed.
const FLOWS: u16 = 64;

/// What DPDK can hash, by its bits (`RTE_ETH_RSS_`).
const TYPES: [(u32, &str); 30] = [
    (2, "ipv4"),
    (3, "ipv4-frag"),
    (4, "ipv4-tcp"),
    (5, "ipv4-udp"),
    (6, "ipv4-sctp"),
    (7, "ipv4-other"),
    (8, "ipv6"),
    (9, "ipv6-frag"),
    (10, "ipv6-tcp"),
    (11, "ipv6-udp"),
    (12, "ipv6-sctp"),
    (13, "ipv6-other"),
    (14, "l2-payload"),
    (15, "ipv6-ex"),
    (16, "ipv6-tcp-ex"),
    (17, "ipv6-udp-ex"),
    (18, "port"),
    (19, "vxlan"),
    (20, "geneve"),
    (21, "nvgre"),
    (23, "gtpu"),
    (24, "eth"),
    (25, "s-vlan"),
    (26, "c-vlan"),
    (27, "esp"),
    (28, "ah"),
    (29, "l2tpv3"),
    (31, "pppoe"),
    (32, "ecpri"),
    (33, "mpls"),
];

impl Bench {
    fn flows(frames: &mut Frames) -> Vec<Arrived> {
        let sent: Vec<Vec<u8>> = (0..FLOWS).map(|flow| frames.udp(flow, 4000, None)).collect();
        frames.round(&sent)
    }

    pub(super) fn queues(&mut self, frames: &mut Frames) {
        let said = |most: u16| Said::Yes(format!("up to {most}"));
        let received = match frames.blind() {
            Some(blind) => blind,
            None => {
                let used: BTreeSet<u16> = Self::flows(frames).iter().map(|frame| frame.queue).collect();
                Tried::Yes(format!("{FLOWS} flows came on {}", number_of(used.len(), "queue")))
            }
        };
        let (rx, tx) = (self.port.rx_queues(), self.port.tx_queues());
        self.abilities.push(queues("receive", said(self.info.max_rx_queues), rx, received));
        let sent = match (frames.blind(), frames.way()) {
            (Some(blind), _) => blind,
            (None, Way::Back) => Tried::Yes("a frame came back".to_owned()),
            (None, _) if frames.leaves() => Tried::Yes("a frame reached the interface".to_owned()),
            // Some drivers send past those who listen at an interface.
            (None, _) => Tried::Not("no frame was seen at the interface".to_owned()),
        };
        self.abilities.push(queues("transmit", said(self.info.max_tx_queues), tx, sent));
    }

    pub(super) fn hash(&mut self, frames: &mut Frames) {
        let (device, known) = (self.device, self.info.rss_types);
        let several = self.port.rx_queues() > 1;
        let spread = match frames.blind() {
            Some(blind) => blind,
            None if !several => Tried::Not("there is one receive queue".to_owned()),
            None => {
                let used: BTreeSet<u16> = Self::flows(frames).iter().map(|frame| frame.queue).collect();
                match used.len() {
                    0 | 1 => Tried::No(format!("{FLOWS} flows came on one queue")),
                    n => Tried::Yes(format!("{FLOWS} flows came on {n} queues")),
                }
            }
        };
        let (mut key, mut len, mut types) = ([0u8; 128], 128u8, 0u64);
        let has = if self.info.key_size == 0 { 0 } else { self.info.key_size };
        // SAFETY: the places have the lengths that are given.
        let read = Tried::call(|| unsafe {
            dpdk_sys::valiant_rss_get(device, key.as_mut_ptr(), &mut len, &mut types)
        });
        let accepted = match &read {
            Tried::Yes(_) => Tried::Yes(format!("now {}", names(types))),
            other => other.clone(),
        };
        let said = if known == 0 { Said::No } else { Said::Yes(names(known)) };
        self.add("hash", "rss", said, accepted, spread);

        let reported: Vec<(u32, u16)> =
            Self::flows(frames).iter().filter_map(|frame| Some((frame.hash?, frame.number))).collect();
        let key = key.get(..usize::from(len)).unwrap_or_default();
        let seen = match frames.blind() {
            Some(blind) => blind,
            None if reported.is_empty() => Tried::No("no frame came with a hash".to_owned()),
            None => {
                let same = reported.iter().filter(|(hash, flow)| *hash == of_flow(key, *flow)).count();
                let text = format!("{same} of {} are the Toeplitz hash with its key", reported.len());
                if same == reported.len() { Tried::Yes(text) } else { Tried::No(text) }
            }
        };
        let same_key = match &read {
            // SAFETY: the key has this length.
            Tried::Yes(_) => Tried::call(|| unsafe {
                dpdk_sys::valiant_rss_set(device, key.as_ptr(), key.len() as u8, types & known)
            }),
            Tried::No(why) | Tried::Not(why) => Tried::Not(why.clone()),
        };
        let said = if has == 0 { Said::No } else { Said::Yes(format!("{has} bytes")) };
        self.add("hash", "key", said, same_key, seen);
        self.table(frames);
        for (bit, name) in TYPES.iter().filter(|(bit, _)| known >> bit & 1 == 1) {
            // SAFETY: a null key leaves the key.
            let alone =
                Tried::call(|| unsafe { dpdk_sys::valiant_rss_set(device, std::ptr::null(), 0, 1 << bit) });
            let seen = frames.blind().unwrap_or_else(|| Tried::Not("no frame shows it alone".to_owned()));
            self.add("hash types", name, Said::of(true), alone, seen);
        }
        if known != 0 {
            // SAFETY: as above.
            unsafe { dpdk_sys::valiant_rss_set(device, std::ptr::null(), 0, types) };
        }
    }

    /// The indirection table: all flows to one queue, and back.
    fn table(&mut self, frames: &mut Frames) {
        let (device, size) = (self.device, self.info.reta_size);
        if size == 0 {
            let none = || Tried::Not("there is none".to_owned());
            return self.add("hash", "indirection table", Said::No, none(), none());
        }
        let mut before = vec![0u16; size.into()];
        // SAFETY: the table has so many places.
        let read = Tried::call(|| unsafe { dpdk_sys::valiant_reta_get(device, before.as_mut_ptr(), size) });
        let target = self.port.rx_queues().saturating_sub(1);
        let one = vec![target; size.into()];
        // SAFETY: the table has so many entries.
        let set = Tried::call(|| unsafe { dpdk_sys::valiant_reta_set(device, one.as_ptr(), size) });
        let seen = match (frames.blind(), &set) {
            (Some(blind), _) => blind,
            (None, Tried::No(_) | Tried::Not(_)) => Tried::Not("it cannot be set".to_owned()),
            (None, Tried::Yes(_)) if target == 0 => Tried::Not("there is one receive queue".to_owned()),
            (None, Tried::Yes(_)) => {
                let arrived = Self::flows(frames);
                let there = arrived.iter().filter(|frame| frame.queue == target).count();
                let text = format!("{there} of {} flows came on the queue that it names", arrived.len());
                if there == arrived.len() && there > 0 { Tried::Yes(text) } else { Tried::No(text) }
            }
        };
        if read.works() {
            // SAFETY: as above.
            unsafe { dpdk_sys::valiant_reta_set(device, before.as_ptr(), size) };
        }
        self.add("hash", "indirection table", Said::Yes(format!("{size} entries")), set, seen);
    }

    pub(super) fn vlan(&mut self, frames: &mut Frames) {
        let (device, rx) = (self.device, self.info.rx_offloads);
        let strip = dpdk_sys::VALIANT_VLAN_STRIP;
        // SAFETY: the port exists.
        let on = Tried::call(|| unsafe { dpdk_sys::valiant_vlan_offload(device, strip, 1) });
        let seen = match (frames.blind(), &on) {
            (Some(blind), _) => blind,
            (None, Tried::Yes(_)) => {
                let sent = frames.udp(3, 4000, Some(5));
                let arrived = frames.round(std::slice::from_ref(&sent));
                match arrived.first() {
                    None => Tried::No("the frame did not come".to_owned()),
                    Some(frame) if frame.data.len() + 4 == sent.len() => {
                        Tried::Yes("a frame came without its tag".to_owned())
                    }
                    Some(_) => Tried::No("a frame came with its tag".to_owned()),
                }
            }
            (None, _) => Tried::Not("it cannot be switched on".to_owned()),
        };
        // SAFETY: as above.
        unsafe { dpdk_sys::valiant_vlan_offload(device, strip, 0) };
        self.add("vlan", "strip", Said::of(rx & dpdk_sys::VALIANT_RX_VLAN_STRIP != 0), on, seen);
        let filter = dpdk_sys::VALIANT_VLAN_FILTER;
        // SAFETY: as above.
        let on = Tried::call(|| unsafe {
            match dpdk_sys::valiant_vlan_offload(device, filter, 1) {
                0 => dpdk_sys::rte_eth_dev_vlan_filter(device, 5, 1),
                status => status,
            }
        });
        let seen = match (frames.blind(), &on) {
            (Some(blind), _) => blind,
            (None, Tried::Yes(_)) => {
                let both = [frames.udp(5, 4000, Some(5)), frames.udp(6, 4000, Some(6))];
                let came: BTreeSet<u16> = frames.round(&both).iter().map(|frame| frame.number).collect();
                match (came.contains(&5), came.contains(&6)) {
                    (true, false) => Tried::Yes("only the frame of the VLAN came".to_owned()),
                    (true, true) => Tried::No("a frame of another VLAN came too".to_owned()),
                    (false, _) => Tried::No("the frame of the VLAN did not come".to_owned()),
                }
            }
            (None, _) => Tried::Not("it cannot be switched on".to_owned()),
        };
        // SAFETY: as above.
        unsafe {
            if on.works() {
                dpdk_sys::rte_eth_dev_vlan_filter(device, 5, 0);
            }
            dpdk_sys::valiant_vlan_offload(device, filter, 0);
        }
        self.add("vlan", "filter", Said::of(rx & dpdk_sys::VALIANT_RX_VLAN_FILTER != 0), on, seen);
    }

    pub(super) fn scheduling(&mut self) {
        let device = self.device;
        let unseen = || Tried::Not("nothing measures the rate of what it sends".to_owned());
        // SAFETY: plain data that the function fills; the port exists.
        let (status, tm) = unsafe {
            let mut tm: dpdk_sys::valiant_tm = std::mem::zeroed();
            (dpdk_sys::valiant_tm_get(device, &mut tm), tm)
        };
        let (said, accepted) = match status {
            0 => {
                let (low, high) = (tm.rate_min * 8, tm.rate_max * 8);
                let text = format!(
                    "{} nodes, {} levels, {} shapers of {low} to {high} bit/s, {} priorities, weights up to {}",
                    tm.nodes, tm.levels, tm.shapers, tm.priorities, tm.weight
                );
                (Said::Yes(text), Tried::Not("a hierarchy is not built".to_owned()))
            }
            status => {
                let words = crate::open::c_text(&tm.message);
                let why = if words.is_empty() { crate::error::errno_text(status) } else { words };
                (Said::No, Tried::No(why))
            }
        };
        self.add("sending", "traffic manager", said, accepted, unseen());
        // SAFETY: the port exists. A rate of 0 sets no limit.
        let limit = Tried::call(|| unsafe {
            match dpdk_sys::valiant_rate_limit(device, 0, 100) {
                0 => dpdk_sys::valiant_rate_limit(device, 0, 0),
                status => status,
            }
        });
        self.add("sending", "rate of a queue", Said::Nothing, limit, unseen());
    }

    pub(super) fn time(&mut self) {
        let device = self.device;
        // SAFETY: the port exists.
        let clock = Tried::call(|| unsafe {
            match dpdk_sys::rte_eth_timesync_enable(device) {
                0 => dpdk_sys::rte_eth_timesync_disable(device),
                status => status,
            }
        });
        let unseen = || Tried::Not("no frame shows it".to_owned());
        self.add("time", "clock (IEEE 1588)", Said::Nothing, clock, unseen());
        let said = self.info.has_security != 0;
        let (rx, tx) = (self.info.rx_offloads, self.info.tx_offloads);
        let both = rx & dpdk_sys::VALIANT_RX_SECURITY != 0 && tx & dpdk_sys::VALIANT_TX_SECURITY != 0;
        let context = match (said, both) {
            (true, _) => Tried::Yes("it has a place for sessions".to_owned()),
            (false, true) => Tried::No("it has no place for sessions".to_owned()),
            (false, false) => Tried::Not("there is none".to_owned()),
        };
        let unseen = Tried::Not("no session is made".to_owned());
        self.add("crypto", "inline (rte_security)", Said::of(both), context, unseen);
    }
}

fn number_of(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// Kinds of packets by their bits.
fn names(types: u64) -> String {
    let named: Vec<&str> =
        TYPES.iter().filter(|(bit, _)| types >> bit & 1 == 1).map(|(_, name)| *name).collect();
    if named.is_empty() { "nothing".to_owned() } else { named.join(" ") }
}

/// The Toeplitz hash of a flow that [`Frames::udp`] makes, to port 4000.
fn of_flow(key: &[u8], flow: u16) -> u32 {
    let [high, low] = flow.to_be_bytes();
    let ports = [(1024 + flow).to_be_bytes(), 4000u16.to_be_bytes()].concat();
    toeplitz(key, &[&[10, 99, high, low, 10, 99, 0, 1][..], &ports].concat())
}

fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |at: usize| key.get(at / 8).map_or(0, |byte| u32::from(byte >> (7 - at % 8) & 1));
    let window = |at: usize| (0..32).fold(0, |word, i| word << 1 | bit(at + i));
    let bits = (0..input.len() * 8).filter(|at| input[at / 8] >> (7 - at % 8) & 1 == 1);
    bits.fold(0, |hash, at| hash ^ window(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_toeplitz() {
        // Microsoft's key and its first vector for IPv4 with ports ("Verifying the RSS hash calculation").
        let key = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&key, &input), 0x51cc_c178);
    }

    #[test]
    fn kinds_have_names() {
        assert_eq!((names(0), names(1 << 5 | 1 << 2)), ("nothing".to_owned(), "ipv4 ipv4-udp".to_owned()));
    }
}
