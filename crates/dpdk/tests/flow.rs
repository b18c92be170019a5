//! Flow rules of devices, asked of real drivers: some have none, some refuse, `net_failsafe` asks the devices
//! behind it.
//!
//! They need root; without, each prints why it is skipped. Interfaces are in a network namespace that belongs
//! to the test's thread alone and ends with it.

#[path = "../../../tests/skip.rs"]
mod skip;

use std::io;
use std::process::Command;
use std::sync::Arc;

use dpdk::flow::{FlowAction, FlowRule, FlowRules, HeaderKind, HeaderMatch};
use dpdk::{Eal, EalOptions, Port, PortConfig, PortSpec, open};
use skip::skip;

fn port(text: &str) -> Option<Arc<Port>> {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip("it needs root");
        return None;
    }
    Eal::init(&EalOptions::default()).expect("DPDK starts");
    let needs = PortConfig { rx_queues: 2, tx_queues: 2, ..PortConfig::default() };
    Some(open(&PortSpec::parse(text).unwrap(), &needs).unwrap())
}

/// Moves the calling thread into a network namespace of its own.
fn own_network() {
    // SAFETY: no pointers; it affects the calling thread only.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
}

/// UDP to 10.0.0.9 goes to this queue.
fn rule(queue: u16) -> FlowRule {
    let mut ip = HeaderMatch::any(HeaderKind::Ipv4);
    ip.spec.bytes[16..20].copy_from_slice(&[10, 0, 0, 9]);
    ip.mask.bytes[16..20].copy_from_slice(&[255; 4]);
    let headers = vec![HeaderMatch::any(HeaderKind::Ethernet), ip, HeaderMatch::any(HeaderKind::Udp)];
    FlowRule { headers, actions: vec![FlowAction::Queue(queue)], ..FlowRule::default() }
}

#[test]
fn a_driver_without_rules_says_so() {
    let Some(port) = port("net_null20") else { return };
    let rules = FlowRules::of(&port).unwrap();
    assert_eq!(rules.validate(&rule(1)).unwrap_err().to_string(), "Function not implemented");
    assert_eq!(rules.create(&rule(1)).unwrap_err().errno, libc::ENOSYS);
    let (at, refused) = rules.create_all(&[rule(0), rule(1)]).unwrap_err();
    assert_eq!((at, refused.message.as_str()), (0, "Function not implemented"));
    assert!(rules.is_empty());
    assert!(rules.count(0).unwrap_err().to_string().contains("there is no rule 0"));
    assert!(rules.destroy(7).unwrap_err().to_string().contains("there is no rule 7"));
}

#[test]
fn a_tap_looks_at_the_rule_before_it_asks_the_kernel() {
    own_network();
    let Some(port) = port("net_tap20,iface=vflow0") else { return };
    let rules = FlowRules::of(&port).unwrap();
    assert_eq!(rules.validate(&rule(1)), Ok(()));
    // The driver knows its queues, and which headers and actions the kernel's filters have.
    let refused = rules.validate(&rule(99)).unwrap_err();
    assert_eq!(refused.to_string(), "queue index out of range: Numerical result out of range (an action)");
    let counting = FlowRule { actions: vec![FlowAction::Count, FlowAction::Drop], ..rule(0) };
    let refused = rules.validate(&counting).unwrap_err();
    assert_eq!(refused.about, "an action", "{refused}");
    let gre = FlowRule { headers: vec![HeaderMatch::any(HeaderKind::Gre)], ..rule(0) };
    assert_eq!(rules.validate(&gre).unwrap_err().about, "an item of its pattern");
    // Whether this kernel has the filters (cls_flower), only trying tells.
    match rules.create(&rule(1)) {
        Ok(number) => {
            assert_eq!(rules.len(), 1);
            assert!(rules.again().is_empty());
            rules.destroy(number).unwrap();
        }
        Err(refused) => {
            assert!(refused.message.contains("Kernel too old for flower"), "{refused}");
            let (at, _) = rules.create_all(&[rule(0), rule(1)]).unwrap_err();
            assert_eq!(at, 0);
        }
    }
    assert!(rules.is_empty());
}

#[test]
fn failsafe_asks_the_device_behind_it() {
    own_network();
    let Some(port) = port("net_failsafe20,dev(net_null21)") else { return };
    let rules = FlowRules::of(&port).unwrap();
    assert_eq!(rules.validate(&rule(1)).unwrap_err().message, "Function not implemented");
    assert_eq!(rules.create(&rule(1)).unwrap_err().message, "Function not implemented");
    rules.flush().unwrap_err();
    drop((rules, port));
    let Some(port) = self::port("net_failsafe22,dev(net_tap22,iface=vflow1)") else { return };
    let rules = FlowRules::of(&port).unwrap();
    assert_eq!(rules.validate(&rule(1)), Ok(()));
    match rules.create(&rule(1)) {
        Ok(number) => rules.destroy(number).unwrap(),
        Err(refused) => assert!(refused.message.contains("Kernel too old for flower"), "{refused}"),
    }
    rules.clear().unwrap();
}

#[test]
fn ports_that_are_no_device_take_none() {
    own_network();
    // Without the right both fail, which `port` says.
    for words in [["link", "add", "vflow2", "type", "veth"], ["link", "set", "dev", "vflow2", "up"]] {
        let _ = Command::new("ip").args(words).status();
    }
    let Some(port) = port("vflow2") else { return };
    let error = FlowRules::of(&port).unwrap_err().to_string();
    assert!(error.contains("port vflow2: giving it flow rules: "), "{error}");
}
