//! Settings that may need the port stopped, and what the device does for the processor.

use std::ffi::CStr;

use dpdk_sys::valiant_port_config;

use crate::eal::Eal;
use crate::open::port_info;

use super::found::{self, Bench, Knob, Said, Tried};

/// A call that changes a setting and sets it back.
type Change = Box<dyn Fn() -> i32>;

impl Bench {
    pub(super) fn knobs(&mut self) {
        let device = self.device;
        let mtu = self.port.mtu() as u16;
        let less = mtu.saturating_sub(4);
        let both = |first: i32, second: &dyn Fn() -> i32| if first == 0 { second() } else { first };
        let (node, pool) = (self.node(), self.port.pool());
        let other = [2, 0x4e, 0x49, 0x43, 0, 1];
        // SAFETY: the port exists, nobody polls it, and what is passed lives during the calls.
        let all: Vec<(&'static str, Change)> = unsafe {
            vec![
                (
                    "MTU",
                    Box::new(move || {
                        both(dpdk_sys::rte_eth_dev_set_mtu(device, less), &|| {
                            dpdk_sys::rte_eth_dev_set_mtu(device, mtu)
                        })
                    }) as Change,
                ),
                (
                    "promiscuous mode",
                    Box::new(move || {
                        both(dpdk_sys::rte_eth_promiscuous_enable(device), &|| {
                            dpdk_sys::rte_eth_promiscuous_disable(device)
                        })
                    }),
                ),
                (
                    "another address",
                    Box::new(move || {
                        both(dpdk_sys::valiant_mac_add(device, other.as_ptr()), &|| {
                            dpdk_sys::valiant_mac_remove(device, other.as_ptr())
                        })
                    }),
                ),
                (
                    "a receive queue off and on",
                    Box::new(move || {
                        both(dpdk_sys::rte_eth_dev_rx_queue_stop(device, 0), &|| {
                            dpdk_sys::rte_eth_dev_rx_queue_start(device, 0)
                        })
                    }),
                ),
                (
                    "a receive queue set up anew",
                    Box::new(move || {
                        let descriptors = found::DESCRIPTORS;
                        dpdk_sys::valiant_rx_queue_setup(device, 0, descriptors, node, pool.as_ptr())
                    }),
                ),
                (
                    "link down and up",
                    Box::new(move || {
                        both(dpdk_sys::rte_eth_dev_set_link_down(device), &|| {
                            dpdk_sys::rte_eth_dev_set_link_up(device)
                        })
                    }),
                ),
            ]
        };
        let live: Vec<Tried> = all.iter().map(|(_, change)| Tried::call(change)).collect();
        let hash = [
            ("what is hashed", "rss"),
            ("the key of the hash", "key"),
            ("the indirection table", "indirection table"),
        ];
        for (name, ability) in hash {
            let found = self.abilities.iter().find(|a| a.area == "hash" && a.name == ability);
            let live = found.map_or(Tried::Not(String::new()), |found| found.accepted.clone());
            let live = if name == "what is hashed" { self.types_live() } else { live };
            self.knobs.push(Knob { name, live, stopped: Tried::Not("not tried".to_owned()) });
        }
        // SAFETY: the port exists, nobody polls it.
        let stops = Tried::call(|| unsafe { dpdk_sys::rte_eth_dev_stop(device) });
        for ((name, change), live) in all.iter().zip(live) {
            let stopped = match (&live, &stops) {
                (Tried::Yes(_), _) => Tried::Not("it works while the port runs".to_owned()),
                (_, Tried::Yes(_)) => Tried::call(change),
                (_, other) => other.clone(),
            };
            self.knobs.push(Knob { name, live, stopped });
        }
        // SAFETY: as above.
        let starts = Tried::call(|| unsafe { dpdk_sys::rte_eth_dev_start(device) });
        let again = if stops.works() { starts } else { stops };
        self.add("port", "stop and start", Said::Nothing, again, Tried::Not("no frame is sent".to_owned()));
    }

    /// Whether any kind of packets could be set to be hashed while the port runs.
    fn types_live(&self) -> Tried {
        let mut types = self.abilities.iter().filter(|a| a.area == "hash types").map(|a| &a.accepted);
        match types.clone().find(|tried| tried.works()) {
            Some(works) => works.clone(),
            None => types.next().cloned().unwrap_or(Tried::Not("the device hashes nothing".to_owned())),
        }
    }

    /// Each offload that the driver says it has, alone.
    pub(super) fn offloads(&mut self) {
        let (rx, tx) = (self.info.rx_offloads, self.info.tx_offloads);
        let bits = |all: u64| (0..64).map(|bit| 1u64 << bit).filter(move |bit| all & bit != 0);
        for (area, bits, name_of) in [
            (
                "receive offloads",
                bits(rx).collect::<Vec<_>>(),
                dpdk_sys::rte_eth_dev_rx_offload_name as unsafe extern "C" fn(u64) -> *const _,
            ),
            ("transmit offloads", bits(tx).collect(), dpdk_sys::rte_eth_dev_tx_offload_name),
        ] {
            for bit in bits {
                // SAFETY: DPDK returns a text that lives as long as the program.
                let name = unsafe { CStr::from_ptr(name_of(bit)) }.to_string_lossy().to_lowercase();
                let accepted = self.configured(if area == "receive offloads" { (bit, 0) } else { (0, bit) });
                let unseen = Tried::Not("no frame shows it".to_owned());
                self.add(area, &name, Said::of(true), accepted, unseen);
            }
        }
        let last = self.configured((0, 0));
        if let Tried::No(why) = last {
            self.notes.push(format!("after the trials the port did not start as before: {why}"));
        }
    }

    /// The NUMA node for queues; -1: any.
    fn node(&self) -> i32 {
        match port_info(self.device) {
            Some(info) if Eal::get().is_some_and(Eal::numa) => info.numa_node,
            _ => -1,
        }
    }

    /// Configures the stopped port anew with these offloads, and starts it.
    fn configured(&self, (rx_offloads, tx_offloads): (u64, u64)) -> Tried {
        let device = self.device;
        let settings = valiant_port_config {
            rx_queues: self.port.rx_queues(),
            tx_queues: self.port.tx_queues(),
            mtu: 0,
            rx_offloads,
            tx_offloads,
            rss_types: self.info.rss_types & dpdk_sys::VALIANT_RSS_TYPES,
            rss_key: std::ptr::null(),
            rss_key_len: 0,
            lsc: 0,
            rmv: 0,
            rx_interrupts: 0,
        };
        let node = self.node();
        let (mut rx_desc, mut tx_desc) = (found::DESCRIPTORS, found::DESCRIPTORS);
        Tried::call(|| {
            // SAFETY: the port exists and nobody polls it; the pool is never freed.
            unsafe {
                dpdk_sys::rte_eth_dev_stop(device);
                let mut status = dpdk_sys::valiant_port_configure(device, &settings);
                if status == 0 {
                    dpdk_sys::valiant_adjust_descriptors(device, &mut rx_desc, &mut tx_desc);
                }
                for queue in 0..settings.rx_queues {
                    if status == 0 {
                        let pool = self.port.pool().as_ptr();
                        status = dpdk_sys::valiant_rx_queue_setup(device, queue, rx_desc, node, pool);
                    }
                }
                for queue in 0..settings.tx_queues {
                    if status == 0 {
                        status = dpdk_sys::valiant_tx_queue_setup(device, queue, tx_desc, node);
                    }
                }
                if status == 0 { dpdk_sys::rte_eth_dev_start(device) } else { status }
            }
        })
    }
}
