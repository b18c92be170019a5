//! Ethernet, VLAN, VXLAN and ARP.

mod arpfaker;
mod arpprint;
pub(crate) mod arpquerier;
mod arpresponder;
mod arptable;
mod checkarpheader;
pub(crate) mod dropbroadcasts;
pub(crate) mod engine;
mod ensureether;
pub(crate) mod etherencap;
mod ethermirror;
mod etherrewrite;
mod etherspantree;
mod etherswitch;
mod ethervlanencap;
mod getetheraddress;
pub(crate) mod hostetherfilter;
mod markmacheader;
mod setetheraddress;
mod setvlananno;
mod storeetheraddress;
mod stripethervlanheader;
mod vlandecap;
mod vlanencap;
mod vxlandecap;
mod vxlanencap;

use runtime::{Registry, inert, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<arpfaker::ArpFaker>());
    r.add(simple::<arpprint::ArpPrint>());
    r.add(vector::<arpquerier::ArpQuerier>());
    r.add(simple::<arpresponder::ArpResponder>());
    r.add(inert::<arptable::ArpTable>());
    r.add(simple::<checkarpheader::CheckArpHeader>());
    r.add(simple::<dropbroadcasts::DropBroadcasts>());
    r.add(simple::<ensureether::EnsureEther>());
    r.add(simple::<etherencap::EtherEncap>());
    r.add(simple::<ethermirror::EtherMirror>());
    r.add(simple::<etherrewrite::EtherRewrite>());
    r.add(vector::<etherspantree::EtherSpanTree>());
    r.add(vector::<etherswitch::EtherSwitch<false>>());
    r.add(vector::<etherswitch::EtherSwitch<true>>());
    r.add(simple::<ethervlanencap::EtherVlanEncap>());
    r.add(simple::<getetheraddress::GetEtherAddress>());
    r.add(simple::<hostetherfilter::HostEtherFilter>());
    r.add(simple::<markmacheader::MarkMacHeader>());
    r.add(simple::<setetheraddress::SetEtherAddress>());
    r.add(simple::<setvlananno::SetVlanAnno>());
    r.add(simple::<storeetheraddress::StoreEtherAddress>());
    r.add(simple::<stripethervlanheader::StripEtherVlanHeader>());
    r.add(simple::<vlandecap::VlanDecap>());
    r.add(simple::<vlanencap::VlanEncap>());
    r.add(vector::<vxlandecap::VxlanDecap>());
    r.add(simple::<vxlanencap::VxlanEncap>());
    for (old, class) in [
        ("EtherVlanEncap", "EtherVLANEncap"),
        ("SetVlanAnno", "SetVLANAnno"),
        ("StripEtherVlanHeader", "StripEtherVLANHeader"),
    ] {
        r.old_name(old, class);
    }
}
