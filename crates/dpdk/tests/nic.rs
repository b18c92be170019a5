//! What `dpdk::nic` finds of real drivers, by trying.
//!
//! It needs root; without, each test prints why it is skipped. Interfaces are in a network namespace that
//! belongs to the test's thread alone and ends with it.

#[path = "../../../tests/skip.rs"]
mod skip;

use dpdk::nic::{Nic, NicOptions, Said, Tried, Way, probe};
use dpdk::{EalOptions, PortSpec};
use skip::skip;
use std::io;

fn examine(port: &str, frames: bool) -> Option<Nic> {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip("it needs root");
        return None;
    }
    let options = NicOptions { frames, most_rules: 100 };
    let nic = probe(&PortSpec::parse(port).unwrap(), &EalOptions::default(), &options).unwrap();
    eprintln!("{nic:#?}");
    Some(nic)
}

/// Moves the calling thread into a network namespace of its own.
fn own_network() {
    // SAFETY: no pointers; it affects the calling thread only.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
}

fn works(nic: &Nic, area: &str, name: &str) -> (bool, bool, bool) {
    let ability = nic.ability(area, name).unwrap_or_else(|| panic!("{area} {name}"));
    (matches!(ability.advertised, Said::Yes(_)), ability.accepted.works(), ability.seen.works())
}

#[test]
fn a_port_whose_frames_come_back_shows_what_works() {
    let Some(nic) = examine("net_ring40", true) else { return };
    assert_eq!((nic.way, nic.driver.as_str()), (Way::Back, "net_ring"));
    assert_eq!(works(&nic, "queues", "receive"), (true, true, true));
    assert_eq!(works(&nic, "queues", "transmit"), (true, true, true));
    let flow = nic.ability("rules", "queue for a flow").unwrap();
    assert_eq!(flow.accepted, Tried::No("Function not implemented".to_owned()));
    assert_eq!(works(&nic, "hash", "rss"), (false, false, false));
    // It can be examined again: nothing was left behind.
    assert_eq!(examine("net_ring40", true).unwrap().abilities.len(), nic.abilities.len());
}

#[test]
fn nothing_is_seen_of_a_port_that_brings_other_frames() {
    let Some(nic) = examine("net_null40,size=60", true) else { return };
    assert_eq!(nic.way, Way::None);
    assert!(nic.abilities.iter().all(|ability| !ability.seen.works()), "{nic:#?}");
    // It says that it hashes, and takes tables and keys; that frames are spread nobody has seen.
    assert_eq!(works(&nic, "hash", "indirection table"), (true, true, false));
    assert!(nic.knobs.iter().any(|knob| knob.name == "the indirection table" && knob.live.works()));
}

#[test]
fn a_tap_gets_frames_by_its_interface() {
    own_network();
    let Some(nic) = examine("net_tap40,iface=vnic0", true) else { return };
    assert_eq!(nic.way, Way::Interface);
    assert_eq!(works(&nic, "queues", "receive"), (true, true, true));
    assert_eq!(works(&nic, "queues", "transmit"), (true, true, true));
    let flow = nic.ability("rules", "queue for a flow").unwrap();
    // The driver says that it would take the rule; whether the kernel does, only trying tells.
    assert_eq!(flow.advertised, Said::Yes("validated".to_owned()));
    assert!(
        flow.accepted.works() || matches!(&flow.accepted, Tried::No(why) if why.contains("Kernel too old"))
    );
    assert!(nic.ability("transmit offloads", "udp_cksum").is_some());
}

#[test]
fn frames_are_sent_only_if_that_is_allowed() {
    let Some(nic) = examine("net_ring41", false) else { return };
    assert_eq!(nic.way, Way::Forbidden);
    assert!(nic.abilities.iter().all(|ability| !ability.seen.works()));
}

#[test]
fn failsafe_has_what_is_behind_it() {
    own_network();
    let Some(nic) = examine("net_failsafe40,dev(net_tap42,iface=vnic1)", true) else { return };
    assert_eq!(nic.driver, "net_failsafe");
    let flow = nic.ability("rules", "queue for a flow").unwrap();
    assert_eq!(flow.advertised, Said::Yes("validated".to_owned()));
}
