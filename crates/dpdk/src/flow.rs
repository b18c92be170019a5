//! Flow rules that a device carries out itself (rte_flow).
//!
//! A rule is described in plain data: headers by their bytes, as they are in a packet. What a driver says
//! when it refuses one is kept, in its own words.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard};

use dpdk_sys::{
    valiant_flow_action, valiant_flow_bytes, valiant_flow_count, valiant_flow_error, valiant_flow_item,
    valiant_flow_rule,
};
use locks::IgnorePoison;

use crate::error::{Error, errno_text};
use crate::port::Port;
use crate::status::PortState;

/// The most bytes of a header that a rule looks at.
pub const HEADER_BYTES: usize = dpdk_sys::VALIANT_FLOW_BYTES as usize;

/// A header that a packet must have, or a number that it must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of headers")]
pub enum HeaderKind {
    Ethernet,
    Vlan,
    PppoeSession,
    PppoeDiscovery,
    Mpls,
    /// ARP for IPv4 over Ethernet.
    Arp,
    Ipv4,
    Ipv6,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
    Esp,
    Ah,
    Gre,
    /// The key in a GRE header.
    GreKey,
    L2tpv3,
    Vxlan,
    Geneve,
    Gtpu,
    /// What earlier rules have set: 4 bytes, in the byte order of this host.
    Mark,
    Meta,
    Tag,
}

impl HeaderKind {
    fn number(self) -> c_int {
        let number = match self {
            Self::Ethernet => dpdk_sys::VALIANT_ITEM_ETH,
            Self::Vlan => dpdk_sys::VALIANT_ITEM_VLAN,
            Self::PppoeSession => dpdk_sys::VALIANT_ITEM_PPPOES,
            Self::PppoeDiscovery => dpdk_sys::VALIANT_ITEM_PPPOED,
            Self::Mpls => dpdk_sys::VALIANT_ITEM_MPLS,
            Self::Arp => dpdk_sys::VALIANT_ITEM_ARP,
            Self::Ipv4 => dpdk_sys::VALIANT_ITEM_IPV4,
            Self::Ipv6 => dpdk_sys::VALIANT_ITEM_IPV6,
            Self::Tcp => dpdk_sys::VALIANT_ITEM_TCP,
            Self::Udp => dpdk_sys::VALIANT_ITEM_UDP,
            Self::Sctp => dpdk_sys::VALIANT_ITEM_SCTP,
            Self::Icmp => dpdk_sys::VALIANT_ITEM_ICMP,
            Self::Icmpv6 => dpdk_sys::VALIANT_ITEM_ICMP6,
            Self::Esp => dpdk_sys::VALIANT_ITEM_ESP,
            Self::Ah => dpdk_sys::VALIANT_ITEM_AH,
            Self::Gre => dpdk_sys::VALIANT_ITEM_GRE,
            Self::GreKey => dpdk_sys::VALIANT_ITEM_GRE_KEY,
            Self::L2tpv3 => dpdk_sys::VALIANT_ITEM_L2TPV3,
            Self::Vxlan => dpdk_sys::VALIANT_ITEM_VXLAN,
            Self::Geneve => dpdk_sys::VALIANT_ITEM_GENEVE,
            Self::Gtpu => dpdk_sys::VALIANT_ITEM_GTPU,
            Self::Mark => dpdk_sys::VALIANT_ITEM_MARK,
            Self::Meta => dpdk_sys::VALIANT_ITEM_META,
            Self::Tag => dpdk_sys::VALIANT_ITEM_TAG,
        };
        number as c_int
    }
}

/// Bytes of a header, and whether a VLAN tag follows it, which only the headers of Ethernet and VLAN say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBytes {
    /// The bytes; 0 behind the end of the header.
    pub bytes: [u8; HEADER_BYTES],
    /// Whether a tag follows.
    pub tag_follows: bool,
}

impl Default for HeaderBytes {
    fn default() -> Self {
        Self { bytes: [0; HEADER_BYTES], tag_follows: false }
    }
}

impl HeaderBytes {
    fn is_zero(&self) -> bool {
        !self.tag_follows && self.bytes.iter().all(|byte| *byte == 0)
    }

    fn raw(&self) -> valiant_flow_bytes {
        valiant_flow_bytes { bytes: self.bytes, tag_follows: self.tag_follows.into() }
    }
}

/// A header that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    /// Which header.
    pub kind: HeaderKind,
    /// What its bytes are, where the mask has bits. Without any bit, every header of this kind matches.
    pub spec: HeaderBytes,
    /// Which bits count.
    pub mask: HeaderBytes,
    /// The last values of ranges, if there are any.
    pub last: Option<HeaderBytes>,
}

impl HeaderMatch {
    /// Any header of this kind.
    #[must_use]
    pub fn any(kind: HeaderKind) -> Self {
        Self { kind, spec: HeaderBytes::default(), mask: HeaderBytes::default(), last: None }
    }
}

/// What a device does with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in rules of testpmd")]
pub enum FlowAction {
    Queue(u16),
    Rss(Vec<u16>),
    Drop,
    Count,
    Mark(u32),
    SetMeta { data: u32, mask: u32 },
    SetTag { data: u32, mask: u32, index: u8 },
    Jump(u32),
    VlanPop,
    VlanPush(u16),
    VlanSetId(u16),
    VlanSetPriority(u8),
    Meter(u32),
    PassThrough,
}

impl FlowAction {
    fn raw(&self) -> valiant_flow_action {
        let (kind, [a, b, c]) = match *self {
            Self::Queue(queue) => (dpdk_sys::VALIANT_ACTION_QUEUE, [queue.into(), 0, 0]),
            Self::Rss(_) => (dpdk_sys::VALIANT_ACTION_RSS, [0; 3]),
            Self::Drop => (dpdk_sys::VALIANT_ACTION_DROP, [0; 3]),
            Self::Count => (dpdk_sys::VALIANT_ACTION_COUNT, [0; 3]),
            Self::Mark(mark) => (dpdk_sys::VALIANT_ACTION_MARK, [mark, 0, 0]),
            Self::SetMeta { data, mask } => (dpdk_sys::VALIANT_ACTION_SET_META, [data, mask, 0]),
            Self::SetTag { data, mask, index } => {
                (dpdk_sys::VALIANT_ACTION_SET_TAG, [data, mask, index.into()])
            }
            Self::Jump(group) => (dpdk_sys::VALIANT_ACTION_JUMP, [group, 0, 0]),
            Self::VlanPop => (dpdk_sys::VALIANT_ACTION_VLAN_POP, [0; 3]),
            Self::VlanPush(kind) => (dpdk_sys::VALIANT_ACTION_VLAN_PUSH, [kind.into(), 0, 0]),
            Self::VlanSetId(id) => (dpdk_sys::VALIANT_ACTION_VLAN_ID, [id.into(), 0, 0]),
            Self::VlanSetPriority(priority) => {
                (dpdk_sys::VALIANT_ACTION_VLAN_PRIORITY, [priority.into(), 0, 0])
            }
            Self::Meter(meter) => (dpdk_sys::VALIANT_ACTION_METER, [meter, 0, 0]),
            Self::PassThrough => (dpdk_sys::VALIANT_ACTION_PASS, [0; 3]),
        };
        let queues: &[u16] = match self {
            Self::Rss(queues) => queues,
            _ => &[],
        };
        valiant_flow_action {
            kind: kind as c_int,
            a,
            b,
            c,
            queues: queues.as_ptr(),
            n_queues: queues.len() as u32,
        }
    }
}

/// A rule for packets that arrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowRule {
    /// The group (table) that it is in; packets begin in group 0.
    pub group: u32,
    /// 0 goes first.
    pub priority: u32,
    /// The headers that a packet must have, from the outermost on.
    pub headers: Vec<HeaderMatch>,
    /// What is done with it.
    pub actions: Vec<FlowAction>,
}

impl FlowRule {
    /// Calls a function with the rule as the shims take it.
    fn with_raw<T>(&self, f: impl FnOnce(&valiant_flow_rule) -> T) -> T {
        let items: Vec<valiant_flow_item> = (self.headers.iter())
            .map(|header| valiant_flow_item {
                kind: header.kind.number(),
                compared: (!header.mask.is_zero()).into(),
                ranged: header.last.is_some().into(),
                spec: header.spec.raw(),
                last: header.last.unwrap_or_default().raw(),
                mask: header.mask.raw(),
            })
            .collect();
        let actions: Vec<valiant_flow_action> = self.actions.iter().map(FlowAction::raw).collect();
        f(&valiant_flow_rule {
            group: self.group,
            priority: self.priority,
            items: items.as_ptr(),
            actions: actions.as_ptr(),
            n_items: items.len() as u32,
            n_actions: actions.len() as u32,
        })
    }
}

/// Why a driver does not do what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRefused {
    /// The error number that it gives, positive.
    pub errno: i32,
    /// Which part of the rule it is about, where the driver says so.
    pub about: &'static str,
    /// The driver's words.
    pub message: String,
}

impl fmt::Display for FlowRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = errno_text(self.errno);
        match self.message.as_str() {
            // Often DPDK has nothing but the text of the number to say.
            "" => f.write_str(&number)?,
            message if message == number => f.write_str(&number)?,
            message => write!(f, "{message}: {number}")?,
        }
        if self.about.is_empty() { Ok(()) } else { write!(f, " ({})", self.about) }
    }
}

impl std::error::Error for FlowRefused {}

/// The parts that drivers name, by DPDK's numbers (`enum rte_flow_error_type`).
const PARTS: [&str; 18] = [
    "",
    "",
    "the rule as a whole",
    "its group",
    "its priority",
    "its direction",
    "its direction",
    "its direction",
    "its attributes",
    "the length of its pattern",
    "a value of its pattern",
    "a range of its pattern",
    "a mask of its pattern",
    "an item of its pattern",
    "the number of its actions",
    "what an action is given",
    "an action",
    "the state of the device",
];

fn refused(status: c_int, error: &valiant_flow_error) -> FlowRefused {
    // SAFETY: the shim has ended the text with a zero byte.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned();
    let about = usize::try_from(error.kind).ok().and_then(|kind| PARTS.get(kind).copied());
    FlowRefused { errno: status.abs(), about: about.unwrap_or_default(), message }
}

/// Calls a shim, and turns what it says into a result.
fn ask(f: impl FnOnce(&mut valiant_flow_error) -> c_int) -> Result<(), FlowRefused> {
    let mut error = valiant_flow_error { kind: 0, message: [0; 160] };
    let status = f(&mut error);
    if status == 0 { Ok(()) } else { Err(refused(status, &error)) }
}

/// What a device has counted for a rule; nothing of what it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

/// A driver's handle of a rule.
#[derive(Debug)]
struct Handle(NonNull<c_void>);

// SAFETY: DPDK takes a lock for each call about rules of a device whose driver takes none.
unsafe impl Send for Handle {}

#[derive(Debug)]
struct Held {
    rule: FlowRule,
    /// None after the device has lost it.
    handle: Option<Handle>,
}

#[derive(Debug, Default)]
struct Rules {
    next: u64,
    held: BTreeMap<u64, Held>,
}

/// The rules that a port's device carries out for one owner. They are removed when this is dropped.
///
/// Calls may take long: a driver may talk to the firmware of its device, or to the kernel.
#[derive(Debug)]
pub struct FlowRules {
    port: Arc<Port>,
    device: u16,
    rules: Mutex<Rules>,
}

impl FlowRules {
    /// No rules yet, for this port.
    ///
    /// # Errors
    /// The port is none of one DPDK device, so that there is nobody to carry rules out.
    pub fn of(port: &Arc<Port>) -> Result<Self, Error> {
        const DOING: &str = "giving it flow rules";
        match *port.devices() {
            [device] => Ok(Self { device, port: Arc::clone(port), rules: Mutex::default() }),
            [] => Err(Error::port(port.name(), DOING, format!("{} takes none", port.driver()))),
            _ => Err(Error::port(port.name(), DOING, "each of its queues is a device of its own")),
        }
    }

    /// Whether the driver would take a rule, without giving it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn validate(&self, rule: &FlowRule) -> Result<(), FlowRefused> {
        self.check()?;
        // SAFETY: the port exists; the rule lives during the call, and the shim copies it.
        rule.with_raw(|raw| ask(|error| unsafe { dpdk_sys::valiant_flow_validate(self.device, raw, error) }))
    }

    /// Gives the device a rule; the number is ours.
    ///
    /// # Errors
    /// What the driver says.
    pub fn create(&self, rule: &FlowRule) -> Result<u64, FlowRefused> {
        self.create_locked(&mut self.rules(), rule)
    }

    fn create_locked(&self, rules: &mut Rules, rule: &FlowRule) -> Result<u64, FlowRefused> {
        let handle = self.put(rule)?;
        let number = rules.next;
        rules.next += 1;
        rules.held.insert(number, Held { rule: rule.clone(), handle: Some(handle) });
        Ok(number)
    }

    fn put(&self, rule: &FlowRule) -> Result<Handle, FlowRefused> {
        self.check()?;
        let mut flow = ptr::null_mut();
        rule.with_raw(|raw| {
            // SAFETY: as for `validate`; the place for the handle is valid.
            ask(|error| unsafe { dpdk_sys::valiant_flow_create(self.device, raw, &mut flow, error) })
        })?;
        NonNull::new(flow).map(Handle).ok_or_else(|| self.no_handle())
    }

    fn no_handle(&self) -> FlowRefused {
        FlowRefused { errno: libc::EINVAL, about: "", message: "the driver gave no handle".to_owned() }
    }

    /// Gives the device all of these rules, or none; the numbers are in their order.
    ///
    /// # Errors
    /// Which rule was refused, and what the driver said of it. Those before it have been removed again.
    pub fn create_all(&self, all: &[FlowRule]) -> Result<Vec<u64>, (usize, FlowRefused)> {
        let mut rules = self.rules();
        let mut numbers = Vec::with_capacity(all.len());
        for (at, rule) in all.iter().enumerate() {
            match self.create_locked(&mut rules, rule) {
                Ok(number) => numbers.push(number),
                Err(refused) => {
                    numbers.iter().rev().for_each(|number| {
                        // What cannot be removed is kept, to be tried once more at the end.
                        let _ = self.destroy_locked(&mut rules, *number);
                    });
                    return Err((at, refused));
                }
            }
        }
        Ok(numbers)
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// What the driver says, which still has the rule then; or there is no such rule.
    pub fn destroy(&self, number: u64) -> Result<(), FlowRefused> {
        self.destroy_locked(&mut self.rules(), number)
    }

    fn destroy_locked(&self, rules: &mut Rules, number: u64) -> Result<(), FlowRefused> {
        let held = rules.held.get(&number).ok_or_else(|| no_such_rule(number))?;
        if let Some(handle) = held.handle.as_ref().filter(|_| self.check().is_ok()) {
            let flow = handle.0.as_ptr();
            // SAFETY: the port exists; the handle is that of a rule that it has, and is forgotten after it.
            ask(|error| unsafe { dpdk_sys::valiant_flow_destroy(self.device, flow, error) })?;
        }
        rules.held.remove(&number);
        Ok(())
    }

    /// What the device has counted for a rule with the action `count`.
    ///
    /// # Errors
    /// What the driver says, or there is no such rule.
    pub fn count(&self, number: u64) -> Result<FlowCount, FlowRefused> {
        self.check()?;
        let rules = self.rules();
        let handle = rules.held.get(&number).and_then(|held| held.handle.as_ref());
        let flow = handle.ok_or_else(|| no_such_rule(number))?.0.as_ptr();
        let mut count = valiant_flow_count { packets: 0, bytes: 0, has_packets: 0, has_bytes: 0 };
        // SAFETY: as above; the place for the count is valid, and the lock keeps the rule.
        ask(|error| unsafe { dpdk_sys::valiant_flow_query(self.device, flow, &mut count, error) })?;
        Ok(FlowCount {
            packets: (count.has_packets != 0).then_some(count.packets),
            bytes: (count.has_bytes != 0).then_some(count.bytes),
        })
    }

    /// How many rules the device has of this owner.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules().held.values().filter(|held| held.handle.is_some()).count()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all rules, the youngest first.
    ///
    /// # Errors
    /// What the driver says of the first one that it does not remove; the others are removed.
    pub fn clear(&self) -> Result<(), FlowRefused> {
        let mut rules = self.rules();
        let numbers: Vec<u64> = rules.held.keys().rev().copied().collect();
        let results: Vec<_> =
            numbers.into_iter().map(|number| self.destroy_locked(&mut rules, number)).collect();
        results.into_iter().collect()
    }

    /// Removes all rules that the device has, whoever gave them.
    ///
    /// # Errors
    /// What the driver says.
    pub fn flush(&self) -> Result<(), FlowRefused> {
        self.check()?;
        let mut rules = self.rules();
        // SAFETY: the port exists.
        ask(|error| unsafe { dpdk_sys::valiant_flow_flush(self.device, error) })?;
        rules.held.clear();
        Ok(())
    }

    /// Gives the device all rules again, in their order, after it was stopped and started: drivers may forget
    /// them then, and what they still have is removed first. Counts begin anew.
    ///
    /// # Returns
    /// Which rules were refused this time, with what the driver said. They stay known, and `again` tries them
    /// once more.
    pub fn again(&self) -> Vec<(u64, FlowRefused)> {
        let mut rules = self.rules();
        let had: Vec<Handle> = rules.held.values_mut().rev().filter_map(|held| held.handle.take()).collect();
        if self.check().is_ok() {
            for Handle(flow) in had {
                // A driver that has forgotten the rule refuses, which is as good.
                // SAFETY: as above.
                let _ =
                    ask(|error| unsafe { dpdk_sys::valiant_flow_destroy(self.device, flow.as_ptr(), error) });
            }
        }
        let mut wrong = Vec::new();
        for (number, held) in &mut rules.held {
            match self.put(&held.rule) {
                Ok(handle) => held.handle = Some(handle),
                Err(refused) => wrong.push((*number, refused)),
            }
        }
        wrong
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().ignore_poison()
    }

    /// Whether there still is a device.
    fn check(&self) -> Result<(), FlowRefused> {
        if self.port.state() == PortState::Gone {
            return Err(FlowRefused {
                errno: libc::ENODEV,
                about: "",
                message: "the device has gone".into(),
            });
        }
        Ok(())
    }
}

fn no_such_rule(number: u64) -> FlowRefused {
    FlowRefused { errno: libc::ENOENT, about: "", message: format!("there is no rule {number}") }
}

impl Drop for FlowRules {
    fn drop(&mut self) {
        // Closing the port removes what is left.
        let _ = self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_in_the_drivers_words() {
        let refused = |message: &str, about| FlowRefused {
            errno: libc::EOPNOTSUPP,
            about,
            message: message.to_owned(),
        };
        assert_eq!(refused("", "").to_string(), "Operation not supported");
        assert_eq!(
            refused("Operation not supported", "an action").to_string(),
            "Operation not supported (an action)"
        );
        assert_eq!(refused("no counters", "").to_string(), "no counters: Operation not supported");
    }

    #[test]
    fn a_rule_without_values_compares_nothing() {
        let mut header = HeaderMatch::any(HeaderKind::Ipv4);
        let compared = |header: HeaderMatch| {
            let rule = FlowRule { headers: vec![header], ..FlowRule::default() };
            // SAFETY: the items live during the call.
            rule.with_raw(|raw| unsafe { (*raw.items).compared })
        };
        assert_eq!(compared(header), 0);
        header.mask.bytes[16] = 0xff;
        assert_eq!(compared(header), 1);
        let tagged = HeaderBytes { tag_follows: true, ..HeaderBytes::default() };
        assert_eq!(compared(HeaderMatch { mask: tagged, ..HeaderMatch::any(HeaderKind::Ethernet) }), 1);
    }
}
